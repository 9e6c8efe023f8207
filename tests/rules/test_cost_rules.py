"""Rules over what the ledger tells, and what is written of all of them."""

from __future__ import annotations

import re
from pathlib import Path

from recording_rules import shipped_rules
from trilens.ledger.answers.why import FOR_NOTHING
from trilens.model.ledger import Bucket
from trilens.serve.money.cost_metrics import FAMILIES

PAGE = (Path(__file__).parents[2] / "docs" / "cost-metrics.md").read_text()


def test_for_nothing_means_the_same_as_in_cost_why() -> None:
    (rule,) = [one for one in shipped_rules("cost.yml") if one.record == "trilens:cost_wasted_rate:per_hour"]
    (written,) = re.findall(r'bucket!~"([^"]+)"', rule.expr)
    assert {one.value for one in Bucket} - {*written.split("|")} == {one.value for one in FOR_NOTHING}


def test_the_page_names_every_metric_and_record_and_nothing_else() -> None:
    named = set(re.findall(r"`(trilens_\w+|trilens:\w+:\w+)`", PAGE))
    told = {family.metric for family in FAMILIES}
    records = {rule.record for rule in shipped_rules("cost.yml")}
    assert {name for name in named if not name.startswith("trilens_ledger_")} == told | records
