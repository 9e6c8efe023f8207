"""docs/platform-metrics.md names what is exported and recorded, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from recording_rules import shipped_rules
from trilens.resolve.kube_state.families import FAMILIES, SELDOM_READ
from trilens.serve.kube_state_page import MARKER

PAGE = Path(__file__).parents[2] / "docs" / "platform-metrics.md"
# Steps on the way, told by no page: they may change with any version.
INNER = {
    "trilens:workload_member:info",
    "trilens:workload_pod_scraped:info",
    "trilens:workload_node:info",
    "trilens:workload_node_scraped:info",
    "trilens:node:info",
}
RULES = tuple(shipped_rules("kubernetes.yml", "node.yml"))


def test_every_exported_metric_has_its_line() -> None:
    listed = dict(re.findall(r"^\| `(kube_\w+)` \| (.+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    told = {f.metric: f.help for f in FAMILIES if not f.metric.startswith("kube_pod_init_container_")}
    assert listed == told
    assert f"`{MARKER}`" in PAGE.read_text(encoding="utf-8")


def test_every_record_is_named_and_nothing_else() -> None:
    named = set(re.findall(r"trilens:\w+:\w+", PAGE.read_text(encoding="utf-8")))
    assert named == {rule.record for rule in RULES} - INNER


def test_every_series_that_the_rules_read_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    read = {name for rule in RULES for name in re.findall(r"(?<![:\w])(?:kube|node)_\w+\b", rule.expr)}
    named = set(re.findall(r"`(\w+)`", text))
    assert read
    assert {name for name in read if name not in named and name.removeprefix("node_") not in named} == set()


def test_what_the_rules_read_of_kube_state_metrics_is_exported() -> None:
    read = {name for rule in RULES for name in re.findall(r"\bkube_\w+\b", rule.expr)}
    assert read
    assert read <= {family.metric for family in FAMILIES} - SELDOM_READ


def test_what_is_not_stored_is_among_what_is_exported() -> None:
    assert {family.metric for family in FAMILIES} > SELDOM_READ
