"""How a program ends, and what it forks: each case is a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from records_server import RecordsServer, listening
from sdk_runs import Told
from told_programs import EXAMPLES, PYTHON, listener, run_program
from trilens_process import clean_environment

if TYPE_CHECKING:
    from pathlib import Path

BEGIN = """
import os, signal, sys
import trilens
run = trilens.init("e")
with run.step():
    run.log(loss=1.0)
"""


class Ended(NamedTuple):
    status: int
    errors: str
    told: Told
    server: RecordsServer


def ended(folder: Path, code: str) -> Ended:
    server = RecordsServer()
    with listening(server) as url:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=clean_environment(
                TRILENS_SERVER=url,
                TRILENS_SPOOL=str(folder / "spool"),
                TRILENS_METRICS_LISTEN="127.0.0.1:0",  # one that no other program of this machine wants
            ),
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    return Ended(done.returncode, done.stderr, Told(server), server)


@pytest.mark.parametrize(
    ("ending", "status", "how", "error"),
    [
        ("", 0, "finished", None),
        ("sys.exit()", 0, "finished", None),
        ("sys.exit(3)", 3, "failed", "exit status 3"),
        ("sys.exit('no data')", 1, "failed", "no data"),
        ("raise ValueError('bad\\nloss')", 1, "failed", "ValueError: bad"),
        (
            # As in a shell's foreground: what a shell runs in the background ignores it.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "os.kill(os.getpid(), signal.SIGINT); signal.pause()",
            -signal.SIGINT,
            "failed",
            "KeyboardInterrupt",
        ),
        ("try: sys.exit(3)\nexcept SystemExit: pass\nwith run.step(): pass", 0, "finished", None),
        ("with run.step():\n  with run.phase('f'): {}[1]", 1, "failed", "KeyError: 1"),
    ],
    ids=["end", "exit", "exit 3", "exit text", "exception", "interrupt", "exit caught", "exception in step"],
)  # fmt: skip
def test_how_a_program_ended_is_told_and_unchanged(
    tmp_path: Path, ending: str, status: int, how: str, error: str | None
) -> None:
    program = ended(tmp_path, BEGIN + ending)
    assert program.status == status
    end = program.told.last("end")
    assert (end["how"], end["error"]) == (how, error)
    assert len(program.told.steps()) >= 1
    if how == "failed" and error is not None and "Error" in error:
        assert "Traceback" in program.errors  # the program's own hook still speaks


def test_a_hook_that_the_program_set_before_is_called_too(tmp_path: Path) -> None:
    hook = "import sys\nsys.excepthook = lambda *_: print('mine', file=sys.stderr)\n"
    program = ended(tmp_path, hook + BEGIN + "raise ValueError('x')")
    assert program.errors == "mine\n"
    assert program.told.last("end")["error"] == "ValueError: x"


def test_a_forked_child_is_silent_and_its_parent_is_not(tmp_path: Path) -> None:
    """The child takes steps, logs, finishes and leaves as any program does: nothing of it is told."""
    program = ended(
        tmp_path,
        BEGIN
        + """
import urllib.request
child = os.fork()
if child == 0:
    for _ in range(3000):
        with run.step():
            run.log(loss=2.0)
    run.log(loss="text")
    run.checkpoint("x")
    assert len(run.recorder.done) == 0  # it keeps nothing for a thread that it does not have
    run.finish()
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
with run.step():
    pass
text = urllib.request.urlopen(f"http://{run.metrics_address}/metrics", timeout=10).read().decode()
assert "trilens_sdk_info" in text
""",
    )
    assert program.errors == ""
    assert program.status == 0
    assert [step["n"] for step in program.told.steps()] == [0, 1]
    assert len(program.server.batches) == 1
    assert program.told.section("checkpoints") == []


def test_a_child_that_outlives_its_parent_does_not_hold_the_port(tmp_path: Path) -> None:
    program = ended(
        tmp_path,
        BEGIN
        + """
import socket, time
host, port = run.metrics_address.rsplit(":", 1)
back, ahead = os.pipe()
if os.fork() == 0:
    os.close(ahead)
    os.read(back, 1)  # until the parent is gone, or nearly: its files are closed one after the other
    for _ in range(500):
        try:
            socket.create_server((host, int(port))).close()
        except OSError as error:
            last = error
            time.sleep(0.01)
        else:
            print("free", file=sys.stderr)
            os._exit(0)
    print(last, file=sys.stderr)
    os._exit(1)
os.kill(os.getpid(), signal.SIGKILL)
""",
    )
    assert (program.status, program.errors) == (-signal.SIGKILL, "free\n")


def test_ranks_started_by_multiprocessing_tell_their_end(tmp_path: Path) -> None:
    """Such a process leaves without calling what was registered for its exit."""
    program = ended(
        tmp_path,
        """
import multiprocessing
import trilens

def rank(number):
    run = trilens.init("e", run_id="together")
    for _ in range(2):
        with run.step():
            run.log(loss=1.0)
    if number == 1:
        raise ValueError("bad rank")

context = multiprocessing.get_context("fork")
children = [context.Process(target=rank, args=(i,)) for i in range(2)]
for child in children: child.start()
for child in children: child.join()
""",
    )
    ends = [batch["end"] for batch in program.server.all_batches() if "end" in batch]
    assert {(end["how"], end["error"]) for end in ends} == {
        ("finished", None),
        ("failed", "ValueError: bad rank"),
    }
    assert len(program.told.steps()) == 4


def test_a_program_runs_on_where_nothing_can_be_written_or_reached(tmp_path: Path) -> None:
    """No disk, no server, no port, no home: two lines say so, and the exit waits for nobody."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + "print('trained')"],
        env={
            "TRILENS_SERVER": "http://127.0.0.1:1",
            "TRILENS_SPOOL": "/proc/nowhere",
            "TRILENS_METRICS_LISTEN": "192.0.2.7:0",
        },
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "trained\n")
    lines = done.stderr.splitlines()
    assert any("metrics port" in line for line in lines)
    assert any("spool" in line for line in lines)
    assert len(lines) <= 4


def test_the_example_of_a_plain_loop_tells_all_that_it_shows(tmp_path: Path) -> None:
    with listener() as server:
        done = run_program([*PYTHON, str(EXAMPLES / "training" / "plain_loop.py"), "out"], server, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "y = 3.00 x + 1.00" in done.stdout
    told = server.told()
    steps = told.steps()
    assert [step["step"] for step in steps] == list(range(200))
    for step in steps:
        assert set(step["phases"]) == {"data", "forward", "backward", "optimizer"}
        assert sum(step["phases"].values()) <= step["us"]
        assert set(step["values"]) == {"loss", "grad_norm", "lr"}
    assert steps[-1]["values"]["loss"] < steps[0]["values"]["loss"]
    assert [one["step"] for one in told.section("validations")] == [99, 199]
    (checkpoint,) = told.section("checkpoints")
    assert (checkpoint["step"], checkpoint["bytes"]) == (199, (tmp_path / "out" / "line.json").stat().st_size)
    assert told.last("state")["lost"] == {}
