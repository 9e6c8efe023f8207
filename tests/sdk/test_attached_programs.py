"""`trilens run`: programs that know nothing of Trilens are watched, and run as they do without it."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import trilens.sdk.attach
from told_programs import PYTHON, TORCHRUN, Listener, ids_of, listener, run_program, surroundings
from trilens.sdk.after_import import after_import
from trilens.settings.attached import attached_environment
from trilens_process import TRILENS, clean_environment
from trilens_process import trilens as trilens_command

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

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

# As a thread that is in the middle of beginning a run would, at the moment of the fork.
FORKS = """
import os, threading, trilens
from trilens.sdk import attach

attach.install(is_main=False)
attachment = attach._attachment
attachment.begin("sees")
held = threading.Event()

def hold():
    with attachment._lock, attachment._aside._cond:
        held.set()
        threading.Event().wait()

threading.Thread(target=hold, daemon=True).start()
held.wait()
if os.fork() == 0:
    with trilens.init("child") as run, run.step():
        run.log(loss=1.0)
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
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
        note = told.section("notes")[-1]
        assert note["kind"] == "attached"
        assert "a loss is not" in note["text"]
    facts = server.told(0).last("facts")
    assert (facts["experiment"], facts["name"], facts["total_steps"]) == ("e", "n", 8)


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
    # On a slow machine a run may have begun for it before it could.
    assert all("only that it lives" in note["text"] for note in told.section("notes"))


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
    ended = trilens_command("run", *arguments)
    assert ended.returncode == 2
    assert said in ended.stderr


def test_a_forked_child_that_tells_of_itself_has_a_run_of_its_own(server: Listener, tmp_path: Path) -> None:
    ended = run_program([*PYTHON, written(tmp_path, FORKS)], server, tmp_path)
    assert ended.returncode == 0
    (child,) = (life for life in server.lives() if life.steps())
    assert child.last("facts")["experiment"] == "child"


@pytest.fixture
def attachment(
    server: Listener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> trilens.sdk.attach.Attachment:
    """One whose program has lived for a while."""
    attachment = trilens.sdk.attach.Attachment()
    monkeypatch.setattr(trilens.sdk.attach, "_attachment", attachment)
    for name, value in surroundings(server, tmp_path).items():
        monkeypatch.setenv(name, value)
    attachment.begin("it lives")
    return attachment


def test_what_is_seen_is_noted_when_it_changes(
    server: Listener, attachment: trilens.sdk.attach.Attachment
) -> None:
    for seen in ("its steps", "its steps", "its Trainer"):
        attachment.begin(seen)
    trilens.init().finish()
    assert [note["text"] for note in server.told().section("notes")] == [
        "it lives",
        "its steps",
        "its Trainer",
    ]


def test_a_run_that_began_for_a_launcher_ends(
    server: Listener, attachment: trilens.sdk.attach.Attachment
) -> None:
    attachment.leave_to_children(sys)
    assert server.told().last("end")["how"] == "finished"
    assert attachment.begin("its steps") is None


@pytest.mark.usefixtures("attachment")
def test_a_run_that_is_taken_over_tells_where_its_program_says(server: Listener) -> None:
    with listener() as another:
        with trilens.init("mine", server=another.url) as run, run.step():
            run.log(loss=1.0)
        assert another.told().steps()[0]["values"] == {"loss": 1.0}
        assert another.told().last("facts")["experiment"] == "mine"
        assert another.runs == server.runs
    assert server.told().last("end")["how"] == "finished"
    assert server.told().steps() == []


@pytest.mark.usefixtures("attachment")
def test_a_program_that_wants_no_run_has_none(server: Listener) -> None:
    with trilens.init(enabled=False) as run, run.step():
        run.log(loss=1.0)
    assert server.told().last("end")["how"] == "finished"
    assert server.told().steps() == []


def test_a_module_is_told_when_it_is_imported_not_when_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_later.py").write_text("name = __name__", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    finders = list(sys.meta_path)
    told: list[ModuleType] = []
    after_import({"imported_later": told.append})
    assert importlib.util.find_spec("imported_later") is not None
    assert told == []
    module = importlib.import_module("imported_later")
    assert told == [module]
    assert module.name == "imported_later"
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"
    assert sys.meta_path == finders


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "/entry"), ("", "/entry"), (":/mine", "/entry::/mine"), ("/entry:/mine", "/entry:/mine")],
    ids=["none", "empty", "here", "twice"],
)
def test_where_python_looks_is_only_added_to(before: str | None, after: str) -> None:
    environ = {} if before is None else {"PYTHONPATH": before}
    changed = attached_environment(Path("/entry"), {"A": "1", "B": None}, environ)
    assert changed == {"PYTHONPATH": after, "TRILENS_ATTACH_PID": str(os.getpid()), "A": "1"}
