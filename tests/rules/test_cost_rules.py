"""Rules over what the ledger tells: those that need days, and what is written of all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recording_rules import series, shipped_alerts, shipped_rules
from trilens.ledger.answers.why import FOR_NOTHING
from trilens.model.ledger import Bucket
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.serve.money.cost_metrics import FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "cost-metrics.md").read_text()
HOUR_MS = 3_600_000
RATE = "trilens:cluster_cost_rate:per_hour"


@pytest.mark.parametrize(
    ("days", "before", "now", "fires"),
    [(7, 10.0, 16.0, True), (7, 10.0, 14.0, False), (1, 10.0, 40.0, False)],
    ids=["half more", "a little more", "too new to tell"],
)
def test_a_cluster_that_spends_half_more_than_in_the_last_week(
    days: int, before: float, now: float, fires: bool
) -> None:
    (alert,) = [one for one in shipped_alerts("cost.yml") if one.record == "TrilensBurnRateHigh"]
    source, end = MemorySource(), days * 24
    points = [(hour * HOUR_MS, before if hour < end else now) for hour in range(end + 1)]
    source.add({"__name__": RATE, "cluster": "c", "currency": "EUR"}, points)
    found = series(Engine(source).instant(alert.expr, end * HOUR_MS, QueryGuard()))
    assert bool(found) is fires


def test_for_nothing_means_the_same_as_in_cost_why() -> None:
    (rule,) = [one for one in shipped_rules("cost.yml") if one.record == "trilens:cost_wasted_rate:per_hour"]
    (written,) = re.findall(r'bucket!~"([^"]+)"', rule.expr)
    assert {one.value for one in Bucket} - {*written.split("|")} == {one.value for one in FOR_NOTHING}


def test_the_page_names_every_metric_record_and_alert_and_nothing_else() -> None:
    named = set(re.findall(r"`(trilens_\w+|trilens:\w+:\w+|Trilens\w+)`", PAGE))
    told = {family.metric for family in FAMILIES}
    records = {rule.record for rule in shipped_rules("cost.yml")}
    alerts = {rule.record for rule in shipped_alerts("cost.yml")}
    assert {name for name in named if not name.startswith("trilens_ledger_")} == told | records | alerts
