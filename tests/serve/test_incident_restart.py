"""An incident that was open when the server ended goes on as the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from incident_night import Night, made_up_prices
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def test_a_restart_goes_on_with_the_same_incident(tmp_path: Path) -> None:
    options = StoreOptions(tmp_path / "data")
    store = Store.open(options, upkeep=False)
    night = Night(store, made_up_prices(tmp_path))
    night.pass_by(290, 330)
    [before] = night.keeper.open()
    store.close()
    night.store = Store.open(options, upkeep=False)
    night.heard.clear()
    night.keeper = night.new_keeper()
    night.keeper.take_up()
    assert [one.id for one in night.heard] == [before.id]
    night.pass_by(335, 360)
    [after] = night.keeper.open()
    assert (after.id, after.detected_ms) == (before.id, before.detected_ms)
    assert (after.lost_quanta or 0) > (before.lost_quanta or 0)
    night.store.close()
