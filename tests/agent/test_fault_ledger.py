"""Counted once, through restarts and through a file that is gone or broken."""

from __future__ import annotations

import errno
import json
from typing import TYPE_CHECKING

import pytest

from trilens.collect.node import fault_ledger
from trilens.collect.node.fault_ledger import FaultKey, FaultLedger
from trilens.model.pci import PciAddress
from trilens.model.xid import FaultKind, KernelFault

if TYPE_CHECKING:
    from pathlib import Path

PLACE = PciAddress(0, 0, 6)
XID_31 = KernelFault(FaultKind.XID, 31, PLACE, "MMU Fault", pid=523, process="python3")
KEY = FaultKey(FaultKind.XID, PLACE, 31)


def test_totals_events_and_positions_survive_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "new" / "state.json"
    ledger = FaultLedger(file, "boot")
    ledger.record("kmsg", "boot:360", 1000, XID_31, {"node": "a"})
    ledger.record_unreadable("kmsg", "boot:361")
    ledger.record_lost(7)
    ledger.save()
    again = FaultLedger(file, "boot")
    assert again.totals() == {KEY: 1}
    assert again.position("kmsg") == "boot:361"
    assert again.position("journal") is None
    assert (again.unreadable, again.lost, again.id) == (1, 7, ledger.id)
    (event,) = again.events()
    assert (event.number, event.t_ms, event.fault, event.whom) == (1, 1000, XID_31, {"node": "a"})
    assert again.last_codes() == {PLACE: 31}
    again.record("kmsg", "boot:362", 2000, XID_31, {})
    assert [event.number for event in again.events(after=1)] == [2]
    assert again.totals() == {KEY: 2}


def test_a_fault_is_on_disk_before_anything_else_happens(tmp_path: Path) -> None:
    """A kill right after it must not lose or double it: no save is asked for here."""
    FaultLedger(tmp_path / "state.json", "boot").record("kmsg", "boot:360", 1000, XID_31, {})
    assert FaultLedger(tmp_path / "state.json", "boot").totals() == {KEY: 1}


def test_the_last_code_outlives_a_storm_elsewhere_but_no_reboot(
    tmp_path: Path,
) -> None:
    ledger = FaultLedger(tmp_path / "state.json", "boot")
    ledger.record("kmsg", "boot:1", 1, XID_31, {})
    for number in range(150):
        elsewhere = KernelFault(FaultKind.XID, 119, PciAddress(0, 1, 0), "x")
        ledger.record("kmsg", f"boot:{number + 2}", 1, elsewhere, {})
    ledger.record("kmsg", "boot:999", 1, KernelFault(FaultKind.SXID, 12028, PLACE, "x"), {})
    assert FaultLedger(tmp_path / "state.json", "boot").last_codes() == {PLACE: 31, PciAddress(0, 1, 0): 119}
    rebooted = FaultLedger(tmp_path / "state.json", "another")
    assert rebooted.last_codes() == {}
    assert rebooted.totals()[KEY] == 1


def test_numbers_that_begin_anew_do_not_go_by_the_name_of_those_before(tmp_path: Path) -> None:
    ledger = FaultLedger(tmp_path / "state.json", "boot")
    ledger.record("kmsg", "boot:1", 1, XID_31, {})
    state = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    (tmp_path / "state.json").write_text(json.dumps(state | {"lost": None}), encoding="utf-8")
    again = FaultLedger(tmp_path / "state.json", "boot")
    assert again.events() == []
    assert again.id != ledger.id  # or who reads on after the number 1 would miss the next 1


def test_quiet_lines_do_not_write_each_time(tmp_path: Path) -> None:
    ledger = FaultLedger(tmp_path / "state.json", "boot")
    ledger.passed("kmsg", "boot:1")
    assert not (tmp_path / "state.json").exists()
    ledger.save()
    assert FaultLedger(tmp_path / "state.json", "boot").position("kmsg") == "boot:1"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1, "totals": [[1]]}'])
def test_a_broken_file_is_told_and_begun_anew(tmp_path: Path, text: str) -> None:
    file = tmp_path / "state.json"
    file.write_text(text, encoding="utf-8")
    ledger = FaultLedger(file, "boot")
    assert ledger.problem is not None
    assert "counting begins anew" in ledger.problem
    ledger.record("kmsg", "boot:1", 1, XID_31, {})
    assert FaultLedger(file, "boot").totals() == {KEY: 1}
    assert ledger.problem is None


def test_numbers_that_begin_anew_can_be_told_by_the_id(tmp_path: Path) -> None:
    first = FaultLedger(tmp_path / "state.json", "boot")
    first.save()
    (tmp_path / "state.json").unlink()
    assert FaultLedger(tmp_path / "state.json", "boot").id != first.id


def test_a_file_that_cannot_be_written_does_not_stop_the_counting(tmp_path: Path) -> None:
    (tmp_path / "in-the-way").write_text("", encoding="utf-8")
    ledger = FaultLedger(tmp_path / "in-the-way" / "state.json", "boot")
    ledger.record("kmsg", "boot:1", 1, XID_31, {})
    assert ledger.totals() == {KEY: 1}
    assert ledger.problem is not None
    assert "a restart would count again" in ledger.problem


def test_what_nobody_has_asked_for_survives_a_kill(tmp_path: Path) -> None:
    """At 50 Xids a second an agent has hundreds of them between two questions. Nobody stops it here."""
    ledger = FaultLedger(tmp_path / "state.json", "boot")
    for number in range(1, 229):
        ledger.record("kmsg", f"boot:{number}", number, XID_31, {"node": "a"})
    again = FaultLedger(tmp_path / "state.json", "boot")
    assert [event.number for event in again.events(after=102)] == list(range(103, 229))
    assert again.events() == ledger.events()
    assert (again.totals(), again.position("kmsg")) == ({KEY: 228}, "boot:228")
    again.record("kmsg", "boot:229", 229, XID_31, {})
    assert [event.number for event in FaultLedger(tmp_path / "state.json", "boot").events(after=227)] == [
        228,
        229,
    ]


def test_a_fault_that_a_kill_cut_off_is_read_again(tmp_path: Path) -> None:
    ledger = FaultLedger(tmp_path / "state.json", "boot")
    for number in (1, 2):
        ledger.record("kmsg", f"boot:{number}", number, XID_31, {})
    journal = tmp_path / "state.json.faults"
    journal.write_bytes(journal.read_bytes()[:-9])
    again = FaultLedger(tmp_path / "state.json", "boot")
    assert (again.totals(), again.position("kmsg")) == ({KEY: 1}, "boot:1")
    again.record("kmsg", "boot:2", 2, XID_31, {})
    assert FaultLedger(tmp_path / "state.json", "boot").events() == ledger.events()


def test_a_disk_that_takes_no_more_is_told_and_caught_up_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = FaultLedger(tmp_path / "state.json", "boot")
    ledger.record("kmsg", "boot:1", 1, XID_31, {})

    def full(_file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        for number in (2, 3):
            ledger.record("kmsg", f"boot:{number}", number, XID_31, {})
        assert "No space left on device; a restart would count again" in (ledger.problem or "")
    ledger.record("kmsg", "boot:4", 4, XID_31, {})
    assert ledger.problem is None
    again = FaultLedger(tmp_path / "state.json", "boot")
    assert again.events() == ledger.events()
    assert again.totals() == {KEY: 4}


def test_the_state_of_an_older_agent_is_taken_over(tmp_path: Path) -> None:
    """It had its last events in the state."""
    ledger = FaultLedger(tmp_path / "state.json", "boot")
    ledger.record("kmsg", "boot:1", 1, XID_31, {})
    ledger.save()
    [line] = (tmp_path / "state.json.faults").read_text(encoding="utf-8").splitlines()
    state = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    del state["asked"], state["dropped"]
    old = json.dumps(state | {"events": [json.loads(line)]})
    (tmp_path / "state.json").write_text(old, encoding="utf-8")
    (tmp_path / "state.json.faults").unlink()
    again = FaultLedger(tmp_path / "state.json", "boot")
    assert (again.events(), again.id) == (ledger.events(), ledger.id)


def test_only_so_many_events_are_kept_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fault_ledger, "_KEPT_EVENTS", 20)
    monkeypatch.setattr(fault_ledger, "_LONGEST_JOURNAL", 40)
    monkeypatch.setattr(fault_ledger, "_TOLD_AT_ONCE", 15)
    file = tmp_path / "state.json"
    ledger = FaultLedger(file, "boot")
    for number in range(1, 26):
        ledger.record("kmsg", f"boot:{number}", number, XID_31, {})
        ledger.events(after=number)
    assert ledger.dropped == 0  # who asked has them
    for number in range(26, 101):
        ledger.record("kmsg", f"boot:{number}", number, XID_31, {})
    assert ledger.dropped == 55
    assert [event.number for event in ledger.events(after=25)] == list(range(81, 96))
    assert [event.number for event in ledger.events(after=95)] == list(range(96, 101))
    assert len((tmp_path / "state.json.faults").read_text(encoding="utf-8").splitlines()) <= 40
    again = FaultLedger(file, "boot")
    assert [event.number for event in again.events(after=95)] == list(range(96, 101))
    assert (again.totals(), again.dropped) == ({KEY: 100}, 55)
