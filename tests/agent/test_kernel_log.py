"""The kernel's log: from the device, from the journal, from a file."""

from __future__ import annotations

import os
import select
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from recorded_nvml import FIXTURES

from trilens.collect.node.boot_clock import BootClock
from trilens.collect.node.fault_watch import open_kernel_log
from trilens.collect.node.kernel_log import KMSG, Kmsg, read_record
from trilens.collect.node.kernel_log_files import Journal, LogFile, read_journal_entry, written_at
from trilens.model.errors import NodeError

if TYPE_CHECKING:
    from pathlib import Path

    from packet_pipe import PacketPipe

BOOT = "0b5c1c5e-3f59-4a3e-9a55-1f6f0f3f0c11"
RECORDS = (FIXTURES / "h200_kmsg.txt").read_text(encoding="utf-8").splitlines()


def numbers(lines: list[str]) -> list[int]:
    return [int(line.rpartition(":")[2]) for line in lines]


def follow(
    pipe: PacketPipe, count: int, after: str | None = None, boot: str = BOOT
) -> tuple[Kmsg, list[str]]:
    log = Kmsg(pipe.path, boot)
    lines = log.follow(after)
    taken = [line.position for line in islice(lines, count)]
    lines.close()
    return log, taken


def test_a_record_has_its_number_time_and_text() -> None:
    assert read_record(b"6,339,5140900,-;NET: Registered\n SUBSYSTEM=net\n") == (
        339,
        5140900,
        "NET: Registered",
    )
    assert read_record(b"6,339,5140900,-,caller=T12;a;b\n") == (339, 5140900, "a;b")
    assert read_record(rb"4,1,2,c;caf\xc3\xa9 \x09tab" + b"\n") == (1, 2, "café \ttab")


def test_records_come_one_by_one_with_a_place_to_go_on(kmsg: PacketPipe) -> None:
    kmsg.write(*RECORDS)
    log, positions = follow(kmsg, len(RECORDS))
    assert positions == [f"{BOOT}:{number}" for number in range(353, 361)]
    assert log.lost == 0


def test_what_was_read_is_not_read_again(kmsg: PacketPipe) -> None:
    kmsg.write(*RECORDS)
    _, positions = follow(kmsg, 1, after=f"{BOOT}:359")
    assert numbers(positions) == [360]


def test_another_boot_begins_anew(kmsg: PacketPipe) -> None:
    kmsg.write(*RECORDS)
    _, positions = follow(kmsg, 8, after="another-boot:359")
    assert numbers(positions) == list(range(353, 361))


def test_records_that_were_overwritten_are_counted(kmsg: PacketPipe) -> None:
    kmsg.write(RECORDS[0], RECORDS[5])
    log, positions = follow(kmsg, 2, after=f"{BOOT}:350")
    assert numbers(positions) == [353, 358]
    assert log.lost == 2 + 4  # 351 and 352, then 354 to 357


def test_the_sign_of_an_overrun_is_no_end(kmsg: PacketPipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel answers EPIPE once when the next record is gone."""
    kmsg.write(RECORDS[0])
    real, overruns = os.read, [BrokenPipeError(32, "Broken pipe")]

    def read(descriptor: int, size: int) -> bytes:
        if overruns:
            raise overruns.pop()
        return real(descriptor, size)

    monkeypatch.setattr("trilens.collect.node.kernel_log.os.read", read)
    _, positions = follow(kmsg, 1)
    assert numbers(positions) == [353]


def test_closing_ends_the_wait(kmsg: PacketPipe) -> None:
    kmsg.write(RECORDS[0])
    log = Kmsg(kmsg.path, BOOT)
    lines = log.follow(None)
    next(lines)
    log.close()
    assert list(lines) == []
    log.close()  # twice does no harm


@pytest.mark.skipif(not os.access(KMSG, os.R_OK), reason="/dev/kmsg may not be read here")
def test_the_real_device() -> None:
    log = Kmsg()
    lines = log.follow(None)
    first = next(lines)
    lines.close()
    assert first.text
    again = Kmsg()
    lines = again.follow(first.position)
    second = next(lines)
    lines.close()
    assert int(second.position.rpartition(":")[2]) > int(first.position.rpartition(":")[2])


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="CAP_SYSLOG"):
        Kmsg(tmp_path / "kmsg", BOOT)


# The clock


class Clocks:
    def __init__(self) -> None:
        self.wall = 1_794_722_276_887.0
        self.monotonic = 60_788_532.0  # microseconds

    def make(self) -> BootClock:
        return BootClock(lambda: self.wall, lambda: self.monotonic)


def test_time_since_boot_becomes_time_of_day() -> None:
    assert Clocks().make().wall_ms(58_487_583) == 1_794_722_274_586


def test_drift_is_learned_from_fresh_records_and_spread_over_the_boot() -> None:
    clocks = Clocks()
    clocks.monotonic = 100 * 86_400e6  # a hundred days
    drift = 600e6  # the log's clock has fallen ten minutes behind
    clock = clocks.make()
    stamp = int(clocks.monotonic - drift)
    assert clock.wall_ms(stamp) == round(clocks.wall - drift / 1000)  # not known yet
    clock.learn(stamp)
    assert clock.wall_ms(stamp) == clocks.wall
    halfway = stamp // 2
    assert clock.wall_ms(halfway) == pytest.approx(clocks.wall - clocks.monotonic / 2000, abs=1)


def test_nothing_happens_in_the_future() -> None:
    clocks = Clocks()
    assert clocks.make().wall_ms(90_000_000) == clocks.wall


def test_only_a_record_that_was_waited_for_teaches_the_clock(
    kmsg: PacketPipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clocks().make()
    learned: list[int] = []
    monkeypatch.setattr(clock, "learn", learned.append)

    real_poll = select.poll

    class Waiting:
        """The real one; the record is written when the wait has begun."""

        def __init__(self) -> None:
            self._real = real_poll()
            self.register = self._real.register

        def poll(self) -> list[tuple[int, int]]:
            kmsg.write(RECORDS[1])
            return self._real.poll()

    monkeypatch.setattr("trilens.collect.node.kernel_log.select.poll", Waiting)
    kmsg.write(RECORDS[0])
    lines = Kmsg(kmsg.path, BOOT, clock).follow(None)
    next(lines)
    assert learned == []
    next(lines)
    lines.close()
    assert learned == [631671]


# The journal


def test_an_entry_of_the_journal() -> None:
    entry = read_journal_entry(
        b'{"MESSAGE":"NVRM: Xid (PCI:0000:01:00): 79",'
        b'"__REALTIME_TIMESTAMP":"1740327858123456","__CURSOR":"s=a;i=1"}'
    )
    assert entry == ("NVRM: Xid (PCI:0000:01:00): 79", 1740327858123, "s=a;i=1")
    as_bytes = b'{"MESSAGE":[78,86,255],"__REALTIME_TIMESTAMP":"1000","__CURSOR":"c"}'
    assert read_journal_entry(as_bytes) == ("NV\ufffd", 1, "c")
    for broken in (b"", b"{", b"[]", b'{"MESSAGE":null}', b'{"MESSAGE":"x","__REALTIME_TIMESTAMP":"y"}'):
        assert read_journal_entry(broken) is None


def stand_in(tmp_path: Path, script: str) -> str:
    program = tmp_path / "journalctl"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


def test_the_journal_goes_on_after_its_cursor(tmp_path: Path) -> None:
    shown = r"""echo '{"MESSAGE":"'"$*"'","__REALTIME_TIMESTAMP":"1000","__CURSOR":"c2"}'; exec sleep 60"""
    journal = Journal(stand_in(tmp_path, shown))
    lines = journal.follow("c1")
    first = next(lines)
    assert "--dmesg --follow" in first.text
    assert first.text.endswith("--after-cursor=c1")
    journal.close()
    assert list(lines) == []


def test_a_journal_that_fails_says_why(tmp_path: Path) -> None:
    journal = Journal(stand_in(tmp_path, "echo 'No journal files were opened' >&2; exit 1"))
    with pytest.raises(NodeError, match="No journal files were opened"):
        list(journal.follow(None))


def test_no_journal_here() -> None:
    with pytest.raises(NodeError, match="no such-program here"):
        Journal("such-program")


# A file


def test_a_file_is_read_on_and_through_rotation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.collect.node.kernel_log_files._LOOK_AGAIN_S", 0.001)
    file = tmp_path / "kern.log"
    file.write_text("one\ntwo\n", encoding="utf-8")
    log = LogFile(file)
    lines = log.follow(None)
    one, two = islice(lines, 2)
    assert (one.text, two.text) == ("one", "two")
    file.rename(tmp_path / "kern.log.1")
    with (tmp_path / "kern.log.1").open("a", encoding="utf-8") as old:
        old.write("three\n")  # the logger still has the old file open
    file.write_text("four\n", encoding="utf-8")
    three, four = islice(lines, 2)
    assert (three.text, four.text) == ("three", "four")
    log.close()
    assert list(lines) == []
    file.write_text("four\nfive\n", encoding="utf-8")
    again = LogFile(file).follow(four.position)
    assert next(again).text == "five"
    again.close()
    other = LogFile(file).follow(two.position)  # a place in a file that is not this one
    assert next(other).text == "four"
    other.close()


def test_half_a_line_waits_for_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.collect.node.kernel_log_files._LOOK_AGAIN_S", 0.001)
    file = tmp_path / "kern.log"
    file.write_text("NVRM: Xi", encoding="utf-8")
    log = LogFile(file)
    waits = []

    def wait(_seconds: float) -> bool:
        waits.append(file.write_text("NVRM: Xid (PCI:0000:01:00): 79\n", encoding="utf-8"))
        return False

    monkeypatch.setattr(log._closed, "wait", wait)
    lines = log.follow(None)
    assert next(lines).text == "NVRM: Xid (PCI:0000:01:00): 79"
    lines.close()
    assert len(waits) == 1


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="no such file"):
        open_kernel_log(str(tmp_path / "kern.log"))


def test_stamps_of_loggers() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC).timestamp()
    local = datetime(2025, 12, 31, 16, 24, 18).astimezone()
    expected = round(local.timestamp() * 1000)
    assert written_at("[Wed Dec 31 16:24:18 2025] NVRM: x", now) == expected
    assert written_at("Dec 31 16:24:18 host kernel: NVRM: x", now) == expected
    assert written_at("2025-12-31T16:24:18.5+00:00 host kernel: x", now) == 1767198258500
    assert written_at("NVRM: x", now) == round(now * 1000)
    assert written_at("Foo 99 16:24:18 x", now) == round(now * 1000)
