"""Which rules are blind, by what a real store holds."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rules_at_work import Fleet, groups
from trilens.model.labels import make_labels
from trilens.serve.rule_sight import RuleSight
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """
groups:
- name: g
  rules:
  - {alert: Ecc, expr: DCGM_FI_DEV_ECC_DBE_VOL_TOTAL > 0}
  - {alert: Hot, expr: 'DCGM_FI_DEV_GPU_TEMP{Hostname=~"n.*"} > 83'}
"""


def test_blind_rules_are_told_and_see_again_when_the_metric_comes(tmp_path: Path) -> None:
    store = Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)
    try:
        fleet = Fleet(store)
        fleet.put("DCGM_FI_DEV_GPU_TEMP", fleet.now_ms, 50, Hostname="n1")
        sight = RuleSight(lambda: groups(TEXT), store)
        sight.start()
        sight.look()
        (group,) = groups(TEXT)
        assert list(sight.blind()) == [(group, group.rules[0])]
        shown = fleet.shows("trilens_rule_blind", time.time_ns() // 1_000_000)
        told = {
            "__name__": "trilens_rule_blind",
            "alertname": "Ecc",
            "missing": "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        }
        assert shown == {make_labels(told): 1}
        (family,) = sight.metrics()
        assert [sample.labels["alertname"] for sample in family.samples] == ["Ecc"]
        fleet.put("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", fleet.now_ms, 0, Hostname="n1")
        sight.look()
        assert sight.blind() == {}
        assert fleet.shows("trilens_rule_blind", time.time_ns() // 1_000_000) == {}
        sight.stop()
    finally:
        store.close()
