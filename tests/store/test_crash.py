"""kill -9 at random moments, a full disk, and a second process: nothing acknowledged is ever lost."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from long_form import rounds
from small_disk import enlarge, small_disk
from trilens.model.errors import DataDirInUse
from trilens.store.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.long, pytest.mark.hunt]


CHILD = Path(__file__).with_name("crash_child.py")
ROUNDS = rounds(short=5, long=50)
RECORD_ROUNDS = rounds(short=2, long=20)


@contextmanager
def started(*args: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(CHILD), *map(str, args)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def hear(child: subprocess.Popen[str]) -> Any:
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, "the child ended without a word"
    return json.loads(line)


def ask(*args: object) -> Any:
    with started(*args) as child:
        out, _ = child.communicate(timeout=120)
    return json.loads(out.splitlines()[-1])


def killed_at_random(rng: random.Random, what: str, *args: object) -> tuple[int, int]:
    """Runs a child that says numbers, and kills it; returns the first and the last that it said."""
    with started(what, *args) as child:
        first = last = hear(child)
        timer = threading.Timer(rng.uniform(0.0, 0.4), child.kill)
        timer.start()
        assert child.stdout is not None
        for line in child.stdout:
            if line.endswith("\n"):
                last = int(line)
        timer.join()
    return first, last


def test_acknowledged_writes_survive_kill_9(tmp_path: Path) -> None:
    rng = random.Random(20)
    rows, acknowledged = 2_000, -1
    for _ in range(ROUNDS):
        first, last = killed_at_random(rng, "write", tmp_path, rows)
        assert first > acknowledged, "an acknowledged batch was written again: it had been lost"
        acknowledged = last
    found = ask("count", tmp_path)
    batches = {int(k): n for k, n in found["batches"].items()}
    assert [k for k in range(acknowledged + 1) if batches.get(k) != rows] == []
    assert all(n == rows for n in batches.values()), "a batch of one day is there whole or not at all"
    assert found["series"] >= 5 * (acknowledged + 1)
    assert found["damage"] == []


def test_records_that_were_written_survive_kill_9(tmp_path: Path) -> None:
    rng = random.Random(21)
    acknowledged = -1
    for _ in range(RECORD_ROUNDS):
        first, last = killed_at_random(rng, "tell", tmp_path)
        assert first > acknowledged, "a record that was written had been lost"
        acknowledged = last
    lasts = {int(number): lasting for number, lasting in ask("recall", tmp_path).items()}
    assert [k for k in range(acknowledged + 1) if k not in lasts] == []
    assert not any(lasts[k] for k in range(acknowledged)), "an end that was written had been lost"


def test_a_second_process_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    with started("hold", tmp_path) as holder:
        assert hear(holder) == "open"
        refused = ask("count", tmp_path)
        assert refused["error"] == "DataDirInUse"
        assert f"process {holder.pid} on {socket.gethostname()}, since 20" in refused["message"]
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with Engine.open(tmp_path):  # the lock of a dead process holds nobody up
        pass


def test_a_directory_that_is_made_is_its_owners_alone(tmp_path: Path) -> None:
    with Engine.open(tmp_path / "new" / "data"):
        assert (tmp_path / "new" / "data").stat().st_mode & 0o777 == 0o700


def test_this_process_may_open_a_directory_once(tmp_path: Path) -> None:
    with Engine.open(tmp_path), pytest.raises(DataDirInUse, match=f"process {os.getpid()} on"):
        Engine.open(tmp_path)
    with Engine.open(tmp_path):
        pass


def test_a_full_disk_refuses_writes_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as disk, started("fill", disk / "data") as child:
        full = hear(child)
        assert full["acknowledged"] > 3
        assert full["readable"] >= full["acknowledged"], "reads go on"
        assert (full["refused"], full["state"]) == (True, "read-only")
        assert "no space left" in full["reason"]
        enlarge(disk)
        assert child.stdin is not None
        child.stdin.write("go on\n")
        child.stdin.flush()
        after = hear(child)
        assert after["recovered"]
        assert after["batches"] == full["acknowledged"] + 1, "the batch that met the full disk is there too"
