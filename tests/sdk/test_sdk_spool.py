"""What waits for the server: on disk through crashes, in order, within its bounds."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_disk import small_disk
from trilens.sdk.guard import Guard
from trilens.sdk.outbox import folder as folder_module
from trilens.sdk.outbox.folder import About, find_folders
from trilens.sdk.outbox.left import left_behind
from trilens.sdk.outbox.line import Header, Line, encode, split
from trilens.sdk.outbox.spool import Spool

MIB = 1024 * 1024


def about(number: int = 1, server: str = "http://here") -> About:
    return About("run", 0, f"{number:032x}", server, 1_700_000_000_000, "host", 1)


def line(seq: int, *, size: int = 0, writer: int = 1) -> Line:
    header = Header("run", 0, f"{writer:032x}")
    return Line(seq, encode(header, seq, 1_700_000_000_000, {"state": {"text": "x" * size}}))


def spool_in(root: Path, guard: Guard | None = None, *, number: int = 1, disk: int = 64 * MIB) -> Spool:
    return Spool(root, about(number), guard or Guard(), disk_bytes=disk, memory_bytes=MIB)


def seqs(spool: Spool) -> list[int]:
    """Everything that waits, as a courier would take it: this empties it."""
    found = []
    while lines := spool.oldest(MIB):
        found += [one.seq for one in lines]
        spool.forget(found[-1])
    return found


def on_disk(root: Path) -> int:
    return sum(path.stat().st_size for path in root.rglob("*.ndjson"))


def test_lines_come_back_in_order_and_only_those_taken_are_forgotten(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    for seq in range(10):
        spool.append(line(seq))
    assert [one.seq for one in spool.oldest(MIB)] == list(range(10))
    spool.forget(3)
    assert [one.seq for one in spool.oldest(MIB)] == list(range(4, 10))
    spool.append(line(10))
    assert seqs(spool) == list(range(4, 11))
    assert spool.bytes_left == 0


def test_a_request_is_bounded_but_a_line_longer_than_the_bound_is_given_alone(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(line(0, size=3 * MIB))
    spool.append(line(1, size=100))
    spool.append(line(2, size=100))
    assert [one.seq for one in spool.oldest(1000)] == [0]
    spool.forget(0)
    assert [one.seq for one in spool.oldest(300)] == [1]


def test_a_file_that_was_sent_is_used_again_and_removed_at_the_end(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    for seq in range(5):
        spool.append(line(seq))
        spool.forget(seq)
    assert [path.stat().st_size for path in tmp_path.rglob("*.ndjson")] == [0]
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_go_when_the_disk_may_hold_no_more(tmp_path: Path) -> None:
    guard = Guard()
    spool = spool_in(tmp_path, guard, disk=2 * MIB)
    for seq in range(400):
        spool.append(line(seq, size=10_000))
    assert on_disk(tmp_path) <= 2 * MIB
    kept = seqs(spool)
    assert kept == list(range(400 - len(kept), 400))
    assert 100 < len(kept) < 250
    assert guard.counts() == {"records": 400 - len(kept)}


def test_what_a_dead_process_left_goes_before_what_a_living_one_has_to_send(tmp_path: Path) -> None:
    dead = spool_in(tmp_path, number=1, disk=2 * MIB)
    for seq in range(150):
        dead.append(line(seq, size=10_000, writer=1))
    dead.close()
    guard = Guard()
    living = spool_in(tmp_path, guard, number=2, disk=2 * MIB)
    for seq in range(100):
        living.append(line(seq, size=10_000, writer=2))
    assert seqs(living) == list(range(100))
    (left,) = left_behind(tmp_path, Guard())
    rest = [one.seq for one in left.oldest(8 * MIB)]
    assert rest[0] > 0, "the oldest of the dead one went"
    assert on_disk(tmp_path) <= 2 * MIB
    assert guard.counts()["records"] >= rest[0]


def test_living_processes_share_the_disk_and_leave_each_others_records_alone(tmp_path: Path) -> None:
    spools = [spool_in(tmp_path, number=number, disk=2 * MIB) for number in (1, 2)]
    for seq in range(300):
        for number, spool in enumerate(spools, start=1):
            spool.append(line(seq, size=10_000, writer=number))
    assert on_disk(tmp_path) <= 2 * MIB + 2 * (2 * MIB // 16)
    kept = [seqs(spool) for spool in spools]
    assert [numbers[-1] for numbers in kept] == [299, 299]
    assert min(map(len, kept)) > 40


def test_memory_takes_what_a_read_only_disk_refuses(tmp_path: Path) -> None:
    guard = Guard()
    (tmp_path / "file").write_text("")
    spool = spool_in(tmp_path / "file" / "below", guard)
    for seq in range(200):
        spool.append(line(seq, size=10_000))
    assert spool.bytes_in_memory <= MIB
    kept = seqs(spool)
    assert kept == list(range(200 - len(kept), 200))
    assert guard.counts()["spool"] == 1
    assert guard.counts()["records"] == 200 - len(kept)


def test_a_disk_that_was_full_at_the_beginning_is_used_when_it_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.sdk.outbox.spool._TRY_DISK_AGAIN_S", 0.0)
    spool = spool_in(tmp_path)
    with monkeypatch.context() as full:

        def no_space(*_: object, **__: object) -> int:
            raise OSError(errno.ENOSPC, "no space left")

        full.setattr(Path, "write_text", no_space)
        spool.append(line(0))
    assert spool.bytes_in_memory > 0
    spool.append(line(1))
    assert len(find_folders(tmp_path)) == 1
    assert seqs(spool) == [0, 1]


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make another user's folder")
def test_a_folder_that_another_user_made_in_tmp_is_not_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    strange = tmp_path / "spool"
    strange.mkdir()
    os.chown(strange, 12_345, 12_345)
    guard = Guard()
    spool = spool_in(strange, guard)
    spool.append(line(0))
    assert guard.counts() == {"spool": 1}
    assert list(strange.iterdir()) == []
    assert seqs(spool) == [0]


def test_a_full_disk_tears_no_line_and_the_order_stays(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk") as disk:
        guard = Guard()
        filler = disk / "filler"
        filler.write_bytes(b"x" * (48 * MIB - 200_000))
        spool = Spool(disk, about(), guard, disk_bytes=64 * MIB, memory_bytes=MIB)
        for seq in range(30):
            spool.append(line(seq, size=10_000))
        assert 0 < spool.bytes_in_memory < spool.bytes_left
        assert all(path.read_bytes().endswith(b"\n") for path in disk.rglob("*.ndjson"))
        assert seqs(spool) == list(range(30))
        assert guard.counts() == {"spool": 1}


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["writes", "refuses", "tears"]), min_size=1, max_size=30), st.data())
def test_a_disk_that_fails_now_and_then_loses_nothing_and_keeps_the_order(
    moods: list[str], data: st.DataObject
) -> None:
    write = os.write

    def moody(descriptor: int, content: bytes) -> int:
        mood = moods.pop(0) if moods else "writes"
        if mood == "tears" and len(content) > 20:
            moods.insert(0, "refuses")  # the rest of the line
            return write(descriptor, content[:20])
        if mood == "refuses":
            raise OSError(errno.ENOSPC, "no space left")
        return write(descriptor, content)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("trilens.sdk.outbox.segment.os.write", moody)
        patch.setattr("trilens.sdk.outbox.spool._TRY_DISK_AGAIN_S", 0.0)
        spool = spool_in(Path(folder))
        taken: list[int] = []
        for seq in range(25):
            spool.append(line(seq))
            if data.draw(st.booleans()) and (lines := spool.oldest(400)):
                taken += [one.seq for one in lines]
                spool.forget(taken[-1])
        assert taken + seqs(spool) == list(range(25))
        spool.close()
        assert list(Path(folder).iterdir()) == []


def test_a_forked_child_keeps_no_lock_and_writes_nothing(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(line(0))
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:  # as a worker that outlives the program
        spool.append(line(1))
        os.write(ready[1], b"x")
        os.read(done[0], 1)
        os._exit(0)
    os.read(ready[0], 1)
    try:
        assert [found.is_alive for found in find_folders(tmp_path)] == [True]
        assert [one.seq for one in spool.oldest(MIB)] == [0]
        spool.close()
        assert [found.is_alive for found in find_folders(tmp_path)] == [False]
    finally:
        os.write(done[1], b"x")
        os.waitpid(child, 0)


def test_the_spool_of_a_killed_process_is_whole_up_to_its_last_line(tmp_path: Path) -> None:
    program = f"""
import sys, pathlib
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_sdk_spool import spool_in, line
spool = spool_in(pathlib.Path({str(tmp_path)!r}))
for seq in range(100):
    spool.append(line(seq, size=20_000))
print("ready", flush=True)
sys.stdin.read()
"""
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        assert list(left_behind(tmp_path, Guard())) == [], "it lives"
        process.send_signal(signal.SIGKILL)
    last = max(tmp_path.rglob("*.ndjson"))
    with last.open("ab") as file:
        file.write(line(100).text[:50])  # the write that it was killed in
    guard = Guard()
    (left,) = left_behind(tmp_path, guard)
    found: list[int] = []
    while lines := left.oldest(MIB):
        found += [one.seq for one in lines]
        left.forget(found[-1])
    left.close()
    assert found == list(range(100))
    assert guard.counts() == {"records": 1}
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_begins_takes_no_others_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks begin at the same moment, and each looks for what its own earlier life left: it must be free."""
    dead = spool_in(tmp_path, number=1)
    dead.append(line(0))
    dead.close()
    tried: list[Path] = []
    lock = folder_module._try_lock

    def try_lock(path: Path, *, create: bool) -> int | None:
        tried.append(path.parent)
        return lock(path, create=create)

    monkeypatch.setattr(folder_module, "_try_lock", try_lock)
    begins = spool_in(tmp_path, number=2)
    begins.append(line(0, writer=2))
    assert list(left_behind(tmp_path, Guard(), lambda left: left.rank == 7)) == []
    assert tried == [tmp_path / f".{2:032x}"], "only its own"
    begins.close()


def test_what_is_meant_for_another_server_is_left_for_it(tmp_path: Path) -> None:
    spool = spool_in(tmp_path)
    spool.append(line(0))
    spool.close()
    assert list(left_behind(tmp_path, Guard(), lambda about: about.server == "http://elsewhere")) == []
    assert len(list(left_behind(tmp_path, Guard(), lambda about: about.server == "http://here"))) == 1


STRANGE = json.dumps({**about()._asdict(), "started_ms": "yesterday"})


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[1]", "not json", '{"run": "x"}', STRANGE],
    ids=["empty", "nothing", "list", "text", "part", "strange"],
)
def test_a_folder_that_is_not_ours_is_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "about.json").write_text(content)
    assert find_folders(tmp_path) == []
    assert find_folders(tmp_path / "missing") == []


def test_numbers_without_a_word_in_json_and_strange_objects_do_not_cost_the_batch() -> None:
    header = Header("run", 3, "0" * 32)
    sections = {"values": {"a": float("nan"), "b": [float("inf")]}, "config": {"path": os}}
    text = encode(header, 7, 5, sections)
    batch = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert (batch["v"], batch["rank"], batch["seq"], batch["t_ms"]) == (1, 3, 7, 5)
    assert batch["values"] == {"a": "NaN", "b": ["Infinity"]}
    assert "module" in batch["config"]["path"]


@given(st.lists(st.integers(0, 300), max_size=20), st.data())
def test_a_file_cut_anywhere_gives_all_whole_lines_before_the_cut(
    sizes: list[int], data: st.DataObject
) -> None:
    lines = [line(seq, size=size) for seq, size in enumerate(sizes)]
    content = b"".join(one.text for one in lines)
    cut = data.draw(st.integers(0, len(content)))
    found = split(content[:cut], is_all=True)
    ends = [sum(len(one.text) for one in lines[: i + 1]) for i in range(len(lines))]
    whole = [one for one, end in zip(lines, ends, strict=True) if end <= cut]
    assert found.lines == whole
    assert found.torn == (0 if cut in (0, *ends) else 1)
