"""Every example of examples/training, run as its docstring says, tells what it should."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from servers import missing
from told_programs import EXAMPLES, PYTHON, TORCHRUN, Listener, ids_of, listener, run_program

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sdk_runs import Told

PHASES = {"data", "forward", "backward", "optimizer"}


@pytest.fixture
def server() -> Iterator[Listener]:
    with listener() as server:
        yield server


def run_example(name: str, launcher: list[str], server: Listener, folder: Path) -> None:
    ended = run_program([*launcher, str(EXAMPLES / "training" / name), "out"], server, folder)
    assert ended.returncode == 0
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


def test_plain_pytorch(server: Listener, tmp_path: Path) -> None:
    run_example("plain_pytorch.py", PYTHON, server, tmp_path)
    told = server.told()
    seen = trained(told, range(12), samples=16, values=("grad_norm",))
    assert is_one_epoch(seen[:6], 96)
    assert is_one_epoch(seen[6:], 96)
    assert checkpoints(told) == [(5, True), (11, True)]
    assert validated(told) == [5, 11]
    facts = told.last("facts")
    assert (facts["experiment"], facts["total_steps"], facts["config"]) == ("examples", 12, {"lr": 0.01})


def test_ddp(server: Listener, tmp_path: Path) -> None:
    run_example("ddp.py", TORCHRUN, server, tmp_path)
    ranks = [trained(server.told(rank), range(8), 8, {*PHASES, "grad_sync"}) for rank in (0, 1)]
    assert is_one_epoch(ranks[0][:4] + ranks[1][:4], 64)
    assert is_one_epoch(ranks[0][4:] + ranks[1][4:], 64)
    assert [step["epoch"] for step in server.told(1).steps()] == [0] * 4 + [1] * 4


def test_fsdp(server: Listener, tmp_path: Path) -> None:
    run_example("fsdp.py", TORCHRUN, server, tmp_path)
    ranks = [trained(server.told(rank), range(4), 8, {*PHASES, "grad_sync"}) for rank in (0, 1)]
    assert is_one_epoch(ranks[0] + ranks[1], 64)
    assert checkpoints(server.told(0)) == checkpoints(server.told(1)) == [(3, True)]


def test_huggingface_trainer_on_two_ranks(server: Listener, tmp_path: Path) -> None:
    """32 batches of 4 make 8 steps of an epoch: each rank takes two batches a step."""
    run_example("huggingface_trainer.py", TORCHRUN, server, tmp_path)
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


def test_lightning_trainer(server: Listener, tmp_path: Path) -> None:
    run_example("lightning_trainer.py", PYTHON, server, tmp_path)
    told = server.told()
    seen = trained(told, range(1, 9), samples=16, values=("error_max",))
    assert is_one_epoch(seen[:4], 64)
    assert is_one_epoch(seen[4:], 64)
    assert checkpoints(told) == [(4, True), (8, True)]
    assert validated(told) == [4, 8]
    facts = told.last("facts")
    assert (facts["name"], facts["total_steps"], facts["config"]["lr"]) == ("regression", 8, 0.05)


def test_accelerate_loop(server: Listener, tmp_path: Path) -> None:
    run_example("accelerate_loop.py", PYTHON, server, tmp_path)
    assert is_one_epoch(trained(server.told(), range(4), samples=16), 64)


def test_deepspeed_loop(server: Listener, tmp_path: Path) -> None:
    if shutil.which("c++") is None:
        missing("a C++ compiler, with which DeepSpeed makes its communication on CPUs")
    one_rank = [*TORCHRUN[:-1], "1"]
    run_example("deepspeed_loop.py", one_rank, server, tmp_path)
    assert is_one_epoch(trained(server.told(), range(4), samples=16), 64)


def test_megatron_style(server: Listener, tmp_path: Path) -> None:
    run_example("megatron_style.py", PYTHON, server, tmp_path)
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


def test_every_example_is_run_by_a_test() -> None:
    tests = [file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_*.py")]
    for example in (EXAMPLES / "training").glob("*.py"):
        assert any(f'"{example.name}"' in text for text in tests), f"{example.name} is not run by a test"
