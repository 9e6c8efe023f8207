"""Counted once, through restarts and through a file that is gone or broken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

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


def test_only_so_many_events_are_kept_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FaultLedger, "_save", lambda _self: None)
    ledger = FaultLedger(tmp_path / "state.json", "boot")
    for number in range(1100):
        ledger.record("kmsg", f"boot:{number}", number, XID_31, {})
    assert len(ledger.events()) == 1000
    assert ledger.events()[-1].number == 1100
    assert ledger.totals() == {KEY: 1100}
    monkeypatch.undo()
    ledger.save()
    again = FaultLedger(tmp_path / "state.json", "boot")  # the file holds fewer
    assert [event.number for event in again.events()] == list(range(1001, 1101))
    assert again.totals() == {KEY: 1100}
