"""`trilens run`: programs that know nothing of Trilens are watched, and run as they do without it."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from told_programs import PYTHON, TORCHRUN, Listener, ids_of, listener, run_program
from trilens_process import TRILENS, clean_environment, trilens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = [*TRILENS, "run"]

# Trains two epochs with an evaluation after each, then one in which it reads a batch ahead.
LOOP = """
import json, os, torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.arange(24.0).unsqueeze(1))
encoder, decoder = torch.nn.Linear(1, 2), torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=1e-4)
seen = []

def train(batch):
    seen.append(batch[0].flatten().int().tolist())
    decoder(encoder(batch[0])).mean().backward()
    optimizer.step()
    optimizer.zero_grad()

for _ in range(2):
    for batch in DataLoader(data, batch_size=8, shuffle=True):
        train(batch)
    for batch in DataLoader(data, batch_size=4):
        with torch.no_grad():
            decoder(encoder(batch[0]))
batches = iter(DataLoader(data, batch_size=8))
ready = next(batches)
for coming in batches:
    train(ready)
    ready = coming
with open(f"seen-{os.environ['RANK']}.json", "w") as file:
    json.dump(seen, file)
"""

TRAINERS = """
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

# Waits for a line, tells of itself, and waits to be killed.
LATE_INIT = """
import sys
print("customized:", sys.customized, flush=True)
experiment = sys.stdin.readline().strip()
import trilens
run = trilens.init(experiment=experiment, total_steps=9)
with run.step():
    run.log(loss=1.0)
print("told", flush=True)
sys.stdin.readline()
"""

OWN_INIT = """
import torch, trilens
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run = trilens.init(experiment="own")
for _ in range(3):
    with run.step():
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()
"""


@pytest.fixture
def server() -> Iterator[Listener]:
    with listener() as server:
        yield server


def written(folder: Path, program: str) -> str:
    file = folder / "train.py"
    file.write_text(program, encoding="utf-8")
    return str(file)


def test_a_loop_under_torchrun(server: Listener, tmp_path: Path) -> None:
    import json

    options = ["--experiment", "e", "--name", "n", "--total-steps", "8", "--run-id", "r-1"]
    ended = run_program([*RUN, *options, "--", *TORCHRUN, written(tmp_path, LOOP)], server, tmp_path)
    assert ended.returncode == 0
    assert server.runs == {"r-1"}
    assert len(server.lives()) == 2  # the launcher, which does not train, is none
    for rank in (0, 1):
        told = server.told(rank)
        steps = told.steps()
        assert [step["step"] for step in steps] == list(range(8))
        # Its forward was over when the optimizer gave the program away.
        assert set(steps[0]["phases"]) == {"optimizer"}
        for step in steps[1:]:
            assert set(step["phases"]) == {"data", "forward", "backward", "optimizer"}
            assert step["values"] == {"lr": 1e-4}
        seen = json.loads((tmp_path / f"seen-{rank}.json").read_text())
        batches = {one["step"]: one for one in told.section("batches")}
        assert [ids_of(batches[step]) for step in range(1, 6)] == seen[1:6]
        assert {batches[step]["unknown"] for step in (6, 7)} == {
            "the program reads batches ahead of the step that uses them"
        }
        notes = [(note["kind"], "a loss is not" in note["text"]) for note in told.section("notes")]
        assert notes == [("attached", True)]
    facts = server.told(0).last("facts")
    assert (facts["experiment"], facts["name"], facts["total_steps"]) == ("e", "n", 8)


def test_trainers_get_their_callbacks(server: Listener, tmp_path: Path) -> None:
    ended = run_program([*RUN, "--", *PYTHON, written(tmp_path, TRAINERS)], server, tmp_path)
    assert ended.returncode == 3
    (told,) = server.lives()
    assert [step["step"] for step in told.steps()] == [1, 2, 1, 2]
    assert all({"loss", "lr"} <= set(step["values"]) for step in told.steps())
    assert [len(ids_of(one)) for one in told.section("batches")] == [4, 4, 4, 4]
    assert told.last("end") == {**told.last("end"), "how": "failed", "error": "exit status 3"}


def test_a_program_without_pytorch_lives_and_takes_its_run_over(server: Listener, tmp_path: Path) -> None:
    """In a Python without Trilens that has a sitecustomize; stdin and signals are the program's."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.customized = True", encoding="utf-8")
    command = [*RUN, "--", sys._base_executable, written(tmp_path, LATE_INIT)]  # type: ignore[attr-defined]
    environment = clean_environment(
        TRILENS_SERVER=server.url, TRILENS_SPOOL=str(tmp_path / "spool"), PYTHONPATH=str(tmp_path)
    )
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == "customized: True\n"
            server.wait_until(lambda: bool(server.batches))
            (told,) = server.lives()
            assert [note["kind"] for note in told.section("notes")] == ["attached"]
            assert told.last("process")["pid"] == program.pid
            program.stdin.write("mine\n")
            program.stdin.flush()
            assert program.stdout.readline() == "told\n"
            server.wait_until(lambda: bool(server.lives()[0].steps()))
        finally:
            program.send_signal(signal.SIGTERM)
            program.wait()
    assert program.returncode == -signal.SIGTERM
    (told,) = server.lives()
    facts = told.last("facts")
    assert (facts["experiment"], facts["total_steps"]) == ("mine", 9)
    assert told.steps()[0]["values"] == {"loss": 1.0}


def test_a_program_that_tells_of_itself_is_left_alone(server: Listener, tmp_path: Path) -> None:
    ended = run_program([*RUN, *PYTHON, written(tmp_path, OWN_INIT)], server, tmp_path)
    assert ended.returncode == 0
    (told,) = server.lives()
    assert told.last("facts")["experiment"] == "own"
    assert [set(step.get("phases", ())) for step in told.steps()] == [set(), set(), set()]
    assert told.section("notes") == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--", "no-such-program"], "cannot start 'no-such-program': No such file or directory"),
        (["--run-id", "a b", "--", "true"], "--run-id: 'a b' is no run id"),
        (["--server", "127.0.0.1", "--", "true"], "'127.0.0.1' is not an http:// or https:// URL"),
        ([], "Missing argument"),
    ],
    ids=["program", "run-id", "server", "nothing"],
)
def test_what_cannot_be_started_is_said(arguments: list[str], said: str) -> None:
    ended = trilens("run", *arguments)
    assert ended.returncode == 2
    assert said in ended.stderr
