"""Every example of examples/training tells what it should; so do Trainers that `trilens run` has got into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from told_programs import EXAMPLES, PYTHON, TORCHRUN, Listener, ids_of, listener, run_program, surroundings
from warm_python import WarmPython, warm_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sdk_runs import Told

pytestmark = pytest.mark.whole

PHASES = {"data", "forward", "backward", "optimizer"}
LOADED = ("torch.distributed.fsdp", "torch.distributed.checkpoint", "transformers.trainer", "lightning")


# Begins as `trilens run` makes it begin. One of the frameworks is loaded already, the other is not.
ATTACHED_TRAINERS = """
from trilens.sdk.attach import install
install(is_main=True)

import sys
import pytorch_lightning as lightning, torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x=None, labels=None):
        out = self.layer(x)
        return {"loss": (out - labels).pow(2).mean(), "logits": out}

data = [{"x": torch.ones(4), "labels": torch.ones(1)} for _ in range(8)]
arguments = TrainingArguments(
    "out", max_steps=2, per_device_train_batch_size=4, logging_steps=1, save_strategy="no",
    report_to=[], disable_tqdm=True, use_cpu=True, remove_unused_columns=False,
)
Trainer(model=Model(), args=arguments, train_dataset=data).train()

class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

lightning.Trainer(
    accelerator="cpu", max_steps=2, logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
).fit(Module(), DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=4))
sys.exit(3)
"""


@pytest.fixture(scope="module")
def python() -> Iterator[WarmPython]:
    with warm_python(*LOADED, "transformers.models.llama.modeling_llama", "uncompiled_deepspeed") as python:
        yield python


@pytest.fixture
def server() -> Iterator[Listener]:
    with listener() as server:
        yield server


def run_example(
    name: str, python: WarmPython, server: Listener, folder: Path, ranks: int | None = None
) -> None:
    environ = surroundings(server, folder)
    codes = python.run(EXAMPLES / "training" / name, "out", cwd=folder, ranks=ranks, **environ)
    assert codes == [0] * (ranks or 1)
    all_ended_well(server)


def all_ended_well(server: Listener) -> None:
    assert len(server.runs) == 1
    for life in server.lives():
        assert life.last("end")["how"] == "finished"
        assert life.last("state")["lost"] == {}


def trained(
    told: Told, steps: range, samples: int, phases: set[str] = PHASES, values: tuple[str, ...] = ()
) -> list[list[int]]:
    """The samples of each step, of a run whose steps all have what these say."""
    done = told.steps()
    assert [step["step"] for step in done] == list(steps)
    for step in done:
        assert step["samples"] == samples
        assert set(step["phases"]) == phases
        assert set(step["values"]) == {"loss", "lr", *values}
        assert sum(step["phases"].values()) <= step["us"]
    seen: dict[int, list[int]] = {step["n"]: [] for step in done}
    for batch in told.section("batches"):
        seen[batch["n"]] += ids_of(batch)
    assert all(len(ids) == samples for ids in seen.values())
    return list(seen.values())


def is_one_epoch(steps: list[list[int]], samples: int) -> bool:
    return sorted(one for step in steps for one in step) == list(range(samples))


def checkpoints(told: Told) -> list[tuple[int, bool]]:
    return [(one["step"], one["ok"] and one["us"] > 0) for one in told.section("checkpoints")]


def validated(told: Told) -> list[int]:
    return [one["step"] for one in told.section("validations") if one["values"]["loss"] > 0]


def test_plain_pytorch(python: WarmPython, server: Listener, tmp_path: Path) -> None:
    run_example("plain_pytorch.py", python, server, tmp_path)
    told = server.told()
    seen = trained(told, range(12), samples=16, values=("grad_norm",))
    assert is_one_epoch(seen[:6], 96)
    assert is_one_epoch(seen[6:], 96)
    assert checkpoints(told) == [(5, True), (11, True)]
    assert validated(told) == [5, 11]
    facts = told.last("facts")
    assert (facts["experiment"], facts["total_steps"], facts["config"]) == ("examples", 12, {"lr": 0.01})


def test_ddp_by_torchrun(server: Listener, tmp_path: Path) -> None:
    ended = run_program([*TORCHRUN, str(EXAMPLES / "training" / "ddp.py")], server, tmp_path)
    assert ended.returncode == 0
    all_ended_well(server)
    ranks = [trained(server.told(rank), range(8), 8, {*PHASES, "grad_sync"}) for rank in (0, 1)]
    assert is_one_epoch(ranks[0][:4] + ranks[1][:4], 64)
    assert is_one_epoch(ranks[0][4:] + ranks[1][4:], 64)
    assert [step["epoch"] for step in server.told(1).steps()] == [0] * 4 + [1] * 4


def test_fsdp(python: WarmPython, server: Listener, tmp_path: Path) -> None:
    run_example("fsdp.py", python, server, tmp_path, ranks=2)
    ranks = [trained(server.told(rank), range(4), 8, {*PHASES, "grad_sync"}) for rank in (0, 1)]
    assert is_one_epoch(ranks[0] + ranks[1], 64)
    assert checkpoints(server.told(0)) == checkpoints(server.told(1)) == [(3, True)]


def test_huggingface_trainer_on_two_ranks(python: WarmPython, server: Listener, tmp_path: Path) -> None:
    """32 batches of 4 make 8 steps of an epoch: each rank takes two batches a step."""
    run_example("huggingface_trainer.py", python, server, tmp_path, ranks=2)
    ranks = [
        trained(server.told(rank), range(1, 7), 8, {*PHASES, "grad_sync"}, ("grad_norm",)) for rank in (0, 1)
    ]
    assert is_one_epoch(ranks[0][:4] + ranks[1][:4], 64)
    first = server.told(0)
    assert all(step["tokens"] == 8 * 16 for step in first.steps())
    assert [step["epoch"] for step in first.steps()] == [0] * 4 + [1] * 2
    assert checkpoints(first) == [(3, True), (6, True)]
    assert [one["path"] for one in first.section("checkpoints")] == ["out/checkpoint-3", "out/checkpoint-6"]
    assert server.told(1).section("checkpoints") == []  # it wrote none
    assert validated(first) == [3, 6]
    facts = first.last("facts")
    assert (facts["name"], facts["total_steps"], facts["config"]["learning_rate"]) == ("counting", 6, 0.01)


def test_lightning_trainer(python: WarmPython, server: Listener, tmp_path: Path) -> None:
    run_example("lightning_trainer.py", python, server, tmp_path)
    told = server.told()
    seen = trained(told, range(1, 9), samples=16, values=("error_max",))
    assert is_one_epoch(seen[:4], 64)
    assert is_one_epoch(seen[4:], 64)
    assert checkpoints(told) == [(4, True), (8, True)]
    assert validated(told) == [4, 8]
    facts = told.last("facts")
    assert (facts["name"], facts["total_steps"], facts["config"]["lr"]) == ("regression", 8, 0.05)


def test_accelerate_loop(python: WarmPython, server: Listener, tmp_path: Path) -> None:
    run_example("accelerate_loop.py", python, server, tmp_path)
    assert is_one_epoch(trained(server.told(), range(4), samples=16), 64)


def test_deepspeed_loop(python: WarmPython, server: Listener, tmp_path: Path) -> None:
    run_example("deepspeed_loop.py", python, server, tmp_path, ranks=1)
    assert is_one_epoch(trained(server.told(), range(4), samples=16), 64)


def test_megatron_style(python: WarmPython, server: Listener, tmp_path: Path) -> None:
    run_example("megatron_style.py", python, server, tmp_path)
    told = server.told()
    steps = told.steps()
    assert [step["step"] for step in steps] == list(range(1, 7))
    assert all(set(step["phases"]) == PHASES and step["tokens"] == 2 * 4 * 16 for step in steps)
    batches: list[dict[str, Any]] = told.section("batches")
    assert [(one["step"], one["i"]) for one in batches] == [(n, i) for n in range(1, 7) for i in (0, 1)]
    assert len({one for batch in batches for one in ids_of(batch)}) == 48
    assert checkpoints(told) == [(3, True), (6, True)]


def test_resume_after_crash(server: Listener, tmp_path: Path) -> None:
    example = EXAMPLES / "training" / "resume_after_crash.py"
    ended = run_program([*PYTHON, str(example), "out"], server, tmp_path)
    assert ended.stdout.splitlines() == ["a life ended: killed", "a life ended: finished"]
    assert len(server.runs) == 1
    # The second life sends what the first one left in the spool, after what is its own.
    lives = {len(life.section("notes")): life for life in server.lives()}
    killed, finished = lives[0], lives[1]
    steps = [step["step"] for step in killed.steps()]
    assert steps == list(range(1, len(steps) + 1))
    assert steps[-1] in (5, 6, 7)  # all but its last tenths of a second
    assert killed.section("checkpoints")[0]["step"] == 5
    assert [step["step"] for step in finished.steps()] == [6, 7, 8, 9, 10]
    loaded = finished.section("checkpoints")[0]
    assert (loaded["step"], loaded["loaded"], loaded["path"]) == (5, True, "out/weights.txt")
    assert finished.last("end")["how"] == "finished"
    assert ids_of(finished.section("batches")[0]) == [24, 25, 26, 27]


def test_trainers_under_trilens_run_get_their_callbacks(
    python: WarmPython, server: Listener, tmp_path: Path
) -> None:
    (program := tmp_path / "train.py").write_text(ATTACHED_TRAINERS, encoding="utf-8")
    assert python.run(program, cwd=tmp_path, **surroundings(server, tmp_path)) == [3]
    (told,) = server.lives()
    assert [step["step"] for step in told.steps()] == [1, 2, 1, 2]
    assert all({"loss", "lr"} <= set(step["values"]) for step in told.steps())
    assert [len(ids_of(one)) for one in told.section("batches")] == [4, 4, 4, 4]
    # The machine may be so slow that it was noted before that the program lives.
    assert "Trainer" in told.section("notes")[-1]["text"]
    assert told.last("end") == {**told.last("end"), "how": "failed", "error": "exit status 3"}


def test_every_example_is_run_by_a_test() -> None:
    tests = [file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py")]
    for example in (EXAMPLES / "training").glob("*.py"):
        assert any(f'"{example.name}"' in text for text in tests), f"{example.name} is not run by a test"
