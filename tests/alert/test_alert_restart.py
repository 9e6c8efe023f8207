"""Alerts through a restart: a store that is closed and opened, and rules that know nothing but it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rules_at_work import Fleet, groups
from trilens.alert.manager import RuleManager
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.model.alert import Alert

MINUTE = 60_000

RULES = """
groups:
- name: g
  interval: 1m
  rules:
  - {alert: Long, expr: long_hot > 80, for: 30m, labels: {severity: '{{ "warning" }}'}}
  - {alert: Soon, expr: soon_hot > 80, for: 30m}
  - {alert: Brief, expr: brief_hot > 80, for: 5m, annotations: {s: 'at {{ $value }}'}}
  - {alert: Fired, expr: fired_hot > 80, for: 2m}
  - {alert: Over, expr: over_hot > 80, for: 2m}
  - {alert: Ended, expr: ended_hot > 80}
  - {alert: Twice, expr: twice_hot > 80}
  - {alert: Twice, expr: twice_cold < 5}
- name: late
  interval: 1m
  query_offset: 2m
  rules:
  - {alert: Late, expr: vector(1), for: 24m}
"""
DOWN_MS = 4 * MINUTE


class Lives:
    """Two lives of one server: the first ended at `down_ms`, the second began four minutes later."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.store = self._open()
        self.down_ms = Fleet(self.store).now_ms - DOWN_MS
        self._live()
        self.up_ms = self.down_ms + DOWN_MS

    def _open(self) -> Store:
        return Store.open(StoreOptions(data_dir=self._folder), upkeep=False)

    def _live(self) -> None:
        """Since when each is hot, in minutes before the end."""
        fleet = Fleet(self.store)
        manager = RuleManager(groups(RULES), self.store, self.store)
        since = {"long": 12, "soon": 24, "brief": 3, "fired": 6, "over": 6, "ended": 6, "twice": 1}
        for back in range(25, -1, -1):
            at = self.down_ms - back * MINUTE
            for name, minutes in since.items():
                hot = back <= minutes and not (name == "ended" and back <= 1)
                fleet.put(f"{name}_hot", at, 90 if hot else 20)
            fleet.run(manager, at)

    def restart(self) -> tuple[Fleet, RuleManager, list[Alert]]:
        self.store.close()
        self.store = self._open()
        told: list[Alert] = []
        manager = RuleManager(groups(RULES), self.store, self.store, on_alerts=told.extend)
        return Fleet(self.store), manager, told


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    found = Lives(tmp_path_factory.mktemp("restart"))
    yield found
    found.store.close()


def active(manager: RuleManager, group: int = 0) -> dict[str, Alert]:
    return {
        dict(alert.labels)["alertname"]: alert
        for rule in manager.states()[group].rules
        if rule.active is not None
        for alert in rule.active.alerts()
    }


def names(told: list[Alert]) -> list[tuple[str, str]]:
    return sorted((dict(alert.labels)["alertname"], str(alert.state)) for alert in told)


def test_alerts_go_on_where_they_were(lives: Lives) -> None:
    fleet, manager, told = lives.restart()
    up, down = lives.up_ms, lives.down_ms
    for name in ("long", "soon", "brief"):
        fleet.put(f"{name}_hot", up, 92)
    for name in ("over", "twice"):
        fleet.put(f"{name}_hot", up, 20)
    # fired_hot is not scraped again yet, and its last sample is from before the restart
    fleet.run(manager, up)
    found = active(manager)
    assert {name: str(alert.state) for name, alert in found.items()} == {
        "Long": "pending",
        "Soon": "pending",
        "Brief": "pending",
        "Fired": "firing",
        "Over": "firing",  # awaited: what else it reads may not be there yet
    }
    assert found["Long"].active_ms == down - 12 * MINUTE + DOWN_MS  # time nobody saw does not count
    assert found["Soon"].active_ms == up + 10 * MINUTE - 30 * MINUTE  # it waits ten minutes at least
    assert found["Brief"].active_ms == down - 3 * MINUTE + DOWN_MS
    assert found["Fired"].active_ms == down - 6 * MINUTE
    assert str(active(manager, 1)["Late"].state) == "firing"  # it had fired, by what it wrote earlier
    # Of one that was not seen there is nothing to say.
    assert names(told) == [("Fired", "firing"), ("Late", "firing")]
    firing = {dict(labels)["alertname"] for labels in fleet.shows('ALERTS{alertstate="firing"}', up)}
    assert firing == {
        "Fired",
        "Late",
        "Over",
        "Twice",
    }  # the last fades: nobody knows which rule of that name it was

    told.clear()
    fleet.put("fired_hot", up + 2 * MINUTE, 93)
    fleet.put("brief_hot", up + 2 * MINUTE, 93)
    fleet.run(manager, up + 2 * MINUTE)
    assert names(told) == [
        ("Brief", "firing"),
        ("Fired", "firing"),
        ("Late", "firing"),
        ("Over", "resolved"),
    ]
    brief = next(alert for alert in told if dict(alert.labels)["alertname"] == "Brief")
    assert dict(brief.annotations) == {"s": "at 93"}
    assert fleet.shows('ALERTS{alertname="Over"}', up + 2 * MINUTE) == {}

    fleet, manager, told = lives.restart()  # right after: nothing is lost
    at = up + 3 * MINUTE
    fleet.put("long_hot", at, 92)
    fleet.run(manager, at)
    found = active(manager)
    assert found["Long"].active_ms == down - 12 * MINUTE + DOWN_MS + MINUTE
    assert str(found["Brief"].state) == "firing"


def test_what_is_older_than_an_hour_begins_anew(lives: Lives) -> None:
    changed = groups(RULES.replace("long_hot > 80", "vector(1)"))
    manager = RuleManager(changed, lives.store, lives.store)
    at = lives.up_ms + 70 * MINUTE
    manager.evaluate(manager.states()[0], at)
    assert active(manager)["Long"].active_ms == at
