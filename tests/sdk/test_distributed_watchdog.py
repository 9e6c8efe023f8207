"""Steps that stop: noticed, told once with the stacks, and told again when they go on."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from trilens.sdk.distributed.recorded_collectives import dump_collectives
from trilens.sdk.distributed.stacks import StacksFile
from trilens.sdk.distributed.stall import Limits, Moment, StepClock
from trilens.sdk.distributed.watchdog import Watchdog, furthest_behind, is_being_debugged
from trilens.sdk.distributed.whereabouts import Whereabouts
from trilens.sdk.guard import Guard
from trilens.sdk.identity import Identity
from trilens.sdk.options import Options
from trilens.sdk.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Records = dict[str, list[dict[str, object]]]

PATIENCE_S = 30.0
SHORT = Limits(least_s=0.2, first_step_s=0.2, slow_phase_s=0.2)


# -- the arithmetic --


def clock_after(*ends_s: float, phase: str | None = None) -> StepClock:
    clock = StepClock(0.0, Limits())
    for done, ended_s in enumerate(ends_s, start=1):
        clock.see(Moment(ended_s, done, ended_s, None))
    clock.see(Moment(ends_s[-1] if ends_s else 0.0, len(ends_s), ends_s[-1] if ends_s else None, phase))
    return clock


def test_the_first_step_may_take_long() -> None:
    clock = clock_after()
    assert not clock.is_stalled(1700.0)
    assert clock.is_stalled(1801.0)


def test_the_way_to_the_first_step_is_not_a_step_time() -> None:
    assert clock_after(900.0, 901.0, 902.0).limit_s() == 30.0


def test_short_steps_have_half_a_minute() -> None:
    clock = clock_after(100.0, 100.5, 101.0)
    assert not clock.is_stalled(130.0)
    assert clock.is_stalled(131.5)


def test_long_steps_have_ten_times_their_length() -> None:
    clock = clock_after(100.0, 120.0, 140.0)
    assert clock.limit_s() == 200.0


def test_a_declared_slow_phase_has_a_limit_of_its_own() -> None:
    clock = clock_after(100.0, 100.5, 101.0, phase="checkpoint")
    assert not clock.is_stalled(131.5)
    assert clock.is_stalled(101.0 + 1801.0)
    clock.see(Moment(140.0, 4, 140.0, None))
    assert clock.is_stalled(140.0 + 10 * 40.0 + 1)  # the next step has the usual limit again


def test_many_steps_between_two_looks_are_taken_by_their_mean() -> None:
    clock = StepClock(0.0, Limits())
    clock.see(Moment(10.0, 1, 10.0, None))
    clock.see(Moment(50.0, 5, 50.0, None))
    assert clock.limit_s() == 100.0


def test_the_ranks_at_the_earliest_step_are_furthest_behind() -> None:
    seen = [Whereabouts(0, 7, None, 0.0), Whereabouts(1, 5, "data", 0.0), Whereabouts(2, 7, None, 0.0)]
    assert furthest_behind(seen) == [1]
    assert furthest_behind([one._replace(step=7) for one in seen]) == []
    assert furthest_behind([*seen, Whereabouts(3, None, None, 0.0)]) == [3]


# -- the thread --


class Watched:
    """A program's recorder with a watchdog, and everything the watchdog told so far."""

    def __init__(self, spool: Path, **options: object) -> None:
        self.recorder = Recorder("run", Identity(rank=1), Options(spool_dir=spool), Guard())
        self.watchdog = Watchdog(self.recorder, SHORT, **options)  # type: ignore[arg-type]
        self.notes: list[dict[str, object]] = []
        self.artifacts: list[dict[str, object]] = []
        self.watchdog.start()

    def step(self) -> None:
        self.recorder.begin_step()
        self.recorder.end_step()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not self.look() or not condition():
            assert time.monotonic() < deadline_s, (self.notes, self.recorder.guard.counts())
            time.sleep(0.01)

    def look(self) -> bool:
        records = self.recorder.take_records()
        self.notes += records.get("notes", [])
        self.artifacts += records.get("artifacts", [])
        return True

    def told(self) -> list[dict[str, object]]:
        """A machine that is busy with other tests may stop this process for longer than the limit."""
        return [note for note in self.notes if note["kind"] != "frozen"]

    def kinds(self) -> list[object]:
        return [note["kind"] for note in self.told()]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    one = Watched(tmp_path)
    yield one
    one.watchdog.stop()


def test_a_stall_is_told_once_with_the_stacks_and_so_is_its_end(watched: Watched) -> None:
    watched.step()
    watched.step()
    watched.until(lambda: watched.kinds() == ["stalled"])
    assert watched.told()[0]["step"] == 1
    stacks = next(a for a in watched.artifacts if a["name"] == "stacks-rank1.txt")
    assert b"test_a_stall_is_told_once" in stacks["content"]  # type: ignore[operator]
    assert "trilens_stalled 1" in watched.recorder.metrics.text()

    watched.step()
    watched.until(lambda: watched.kinds()[:2] == ["stalled", "moving"])
    assert watched.kinds().count("stalled") <= 2  # another may have begun by now; the first was told once
    assert watched.recorder.guard.counts() == {}


def test_the_end_of_a_stall_is_told_also_by_a_run_that_ends_right_after_it(watched: Watched) -> None:
    watched.step()
    watched.until(lambda: watched.kinds() == ["stalled"])
    watched.step()
    watched.watchdog.stop()
    watched.look()
    assert watched.kinds()[:2] == ["stalled", "moving"]


def test_stacks_begin_with_the_programs_own_thread(tmp_path: Path) -> None:
    written: list[bytes] = []
    stacks = StacksFile(tmp_path, "run", 0)
    asking = threading.Thread(target=lambda: written.append(stacks.dump()))
    asking.start()
    asking.join()
    stacks.close()
    first, *_, last = written[0].split(b"\n\n")
    assert b"test_stacks_begin_with" in first
    assert last.startswith(b"Current thread")


def test_nothing_is_said_while_somebody_debugs_the_program(watched: Watched) -> None:
    entered, leave = threading.Event(), threading.Event()
    stopped_in: dict[str, object] = {"__name__": "pdb", "entered": entered, "leave": leave}
    exec("def interaction():\n    entered.set()\n    leave.wait()", stopped_in)
    thread = threading.Thread(target=stopped_in["interaction"])  # type: ignore[arg-type]
    thread.start()
    entered.wait()
    watched.step()
    try:
        assert is_being_debugged()
        time.sleep(3 * SHORT.least_s)
    finally:
        leave.set()
        thread.join()
    watched.until(lambda: watched.kinds() == ["stalled"])
    assert watched.told()[0]["data"]["seconds"] > 2 * SHORT.least_s  # type: ignore[index]


def test_after_the_last_step_nothing_is_missed(tmp_path: Path) -> None:
    done, going_on = Watched(tmp_path, total_steps=2), Watched(tmp_path / "other", total_steps=3)
    for one in (done, going_on):
        one.step()
        one.step()
    going_on.until(lambda: going_on.kinds() == ["stalled"])
    done.look()
    done.watchdog.stop()
    going_on.watchdog.stop()
    assert done.kinds() == []


def test_a_folder_that_cannot_be_written_costs_only_what_a_kill_would_leave(tmp_path: Path) -> None:
    (tmp_path / "stacks").write_text("in the way")
    watched = Watched(tmp_path)
    watched.step()
    watched.until(lambda: watched.kinds() == ["stalled"])
    watched.watchdog.stop()
    assert {a["kind"] for a in watched.artifacts} == {"stacks"}


# -- an interpreter that is locked --

FROZEN = """
import ctypes, json, os, sys
from pathlib import Path
from trilens.sdk.distributed.stall import Limits
from trilens.sdk.distributed.watchdog import Watchdog
from trilens.sdk.guard import Guard
from trilens.sdk.identity import Identity
from trilens.sdk.options import Options
from trilens.sdk.recorder import Recorder

recorder = Recorder("run", Identity(rank=3), Options(spool_dir=Path(sys.argv[1])), Guard())
watchdog = Watchdog(recorder, Limits(least_s=0.4, first_step_s=60, slow_phase_s=60))
watchdog.start()

def holds_the_lock_inside_c(seconds):
    ctypes.PyDLL(None).usleep(ctypes.c_uint(int(seconds * 1e6)))

holds_the_lock_inside_c(float(sys.argv[2]))
found = {}
while "frozen" not in str(found.get("notes")):
    for section, records in recorder.take_records().items():
        found.setdefault(section, []).extend(records)
watchdog.stop()
print(json.dumps(found, default=bytes.decode))
"""


def test_while_its_lock_is_held_a_process_leaves_stacks_that_another_rank_sends(tmp_path: Path) -> None:
    neighbour = StacksFile(tmp_path / "stacks", "run", 0)
    frozen = subprocess.Popen([sys.executable, "-c", FROZEN, str(tmp_path), "600"])
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (found := list(neighbour.of_others())):
            assert time.monotonic() < deadline_s
            time.sleep(0.05)
        assert frozen.poll() is None  # it has not moved
    finally:
        frozen.kill()
        frozen.wait()
        neighbour.close()
    ((rank, pid, stacks),) = found
    assert (rank, pid) == (3, frozen.pid)
    assert b"holds_the_lock_inside_c" in stacks


def test_once_its_lock_is_free_a_process_sends_them_itself(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FROZEN, str(tmp_path), "1.5"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = json.loads(ran.stdout)
    assert "no Python code ran for" in found["notes"][0]["text"]
    assert "holds_the_lock_inside_c" in found["artifacts"][0]["content"]
    assert list((tmp_path / "stacks").iterdir()) == []


def test_stacks_of_a_process_that_died_are_sent_by_the_next_one_of_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "stacks"
    folder.mkdir()
    here = socket.gethostname()
    other_run, other_machine = f"other@{here}.rank2.pid999999999.txt", "run@elsewhere.rank2.pid1.txt"
    left = {
        f"run@{here}.rank2.pid999999999.txt": "stacks of rank 2",
        f"run@{here}.rank4.pid999999999.txt": "",
        other_run: "of another run",
        other_machine: "",
    }
    for name, text in left.items():
        (folder / name).write_text(text)
        os.utime(folder / name, (time.time() - 60, time.time() - 60))
    watched = Watched(tmp_path)
    left_behind = "stacks-rank2-pid999999999-frozen.txt"
    watched.until(lambda: [a["content"] for a in watched.artifacts if a["name"] == left_behind] != [])
    watched.watchdog.stop()
    assert b"stacks of rank 2" in [a["content"] for a in watched.artifacts]
    assert sorted(path.name for path in folder.iterdir()) == sorted([other_run, other_machine])


def test_a_forked_child_has_no_timer_to_wait_for_and_leaves_the_file_alone(tmp_path: Path) -> None:
    program = """
import os, sys
from pathlib import Path
from trilens.sdk.distributed.stacks import StacksFile
stacks = StacksFile(Path(sys.argv[1]), "run", 0)
stacks.arm(600)
child = os.fork()
if not child:
    assert stacks.dump() == b""
    sys.exit(7)  # with all that a Python program does at its end
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert b"most recent call first" in stacks.dump()
stacks.close()
"""
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)


def test_a_process_that_lives_keeps_its_file(tmp_path: Path) -> None:
    living, other = StacksFile(tmp_path, "run", 0), StacksFile(tmp_path, "run", 1)
    other.clear_old()
    assert len(list(tmp_path.iterdir())) == 2
    living.close()
    other.close()
    assert list(tmp_path.iterdir()) == []


# -- the flight recorder --


def test_a_dump_is_sent_and_what_it_says_is_told_in_a_note(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = {
        "record_id": 7,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 5,
        "profiling_name": "nccl:all_reduce",
        "state": "started",
    }
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    dump = pickle.dumps({"version": "2.10", "pg_config": groups, "entries": [waits]})
    monkeypatch.setattr("trilens.sdk.distributed.watchdog.dump_collectives", lambda *_args, **_kw: dump)
    watched.step()
    watched.until(lambda: "collectives" in watched.kinds())
    note = next(note for note in watched.notes if note["kind"] == "collectives")
    assert note["text"] == "waits in all_reduce 5"
    (told,) = note["data"]["groups"]  # type: ignore[index]
    assert (told["group"], told["size"], told["entered"], told["pending"]) == ("0", 2, 5, 5)
    json.dumps(note["data"])
    assert [one["content"] for one in watched.artifacts if one["kind"] == "flight-recorder"] == [dump]


def test_pytorchs_own_thread_is_asked_through_its_pipe_where_there_is_one(tmp_path: Path) -> None:
    pipe, file = tmp_path / "ask_3.pipe", tmp_path / "trace_rank_3"
    dump = pickle.dumps({"version": "2.10", "entries": []})
    os.mkfifo(pipe)
    opened = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    def heartbeat_monitor() -> None:
        while not os.read(opened, 1):
            time.sleep(0.01)
        file.write_bytes(dump)

    thread = threading.Thread(target=heartbeat_monitor)
    thread.start()
    environ = {
        "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "ask_"),
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(tmp_path / "trace_rank_"),
    }
    found = dump_collectives(environ, 3, 1 << 20)
    thread.join()
    os.close(opened)
    assert found == dump
