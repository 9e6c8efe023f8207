"""From what a cluster shows to the verdict, over the real decoder: every end of the trees is reached."""

from __future__ import annotations

import io
from functools import cache
from typing import TYPE_CHECKING

import pytest
from scenario_files import Scenario, scenarios

from trilens.diagnose.bundle import read_bundle, write_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.tree import all_trees
from trilens.diagnose.walk import why

if TYPE_CHECKING:
    from trilens.model.verdict import Verdict

# Those whose ends these scenarios have to reach.
TREES = ("start", "pending", "no-gpu", "blind", "hang", "slower", "not-learning", "checkpoints", "service")


@cache
def _verdicts(scenario_name: str) -> tuple[Verdict, ...]:
    [scenario] = [one for one in scenarios() if one.name == scenario_name]
    return tuple(why(scenario.case()))


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda one: one.name)
def test_a_scenario_comes_to_its_verdict(scenario: Scenario) -> None:
    expected = scenario.expected
    verdicts = _verdicts(scenario.name)
    causes = [verdict.cause for verdict in verdicts]
    assert expected["cause"] in causes
    verdict = verdicts[causes.index(expected["cause"])]
    if expected.get("first", True):
        assert causes[0] == expected["cause"], causes
    if expected.get("alone"):
        assert len(causes) == 1, causes
    assert verdict.confidence >= expected.get("at_least", 0)
    assert verdict.confidence < expected.get("below", 1.01)
    for part in expected.get("text_has", ()):
        assert part in verdict.text
    for part in expected.get("fix_has", ()):
        assert part in "\n".join(verdict.fix)
    for said in (verdict.text, *verdict.fix):
        assert "<" not in said.replace("<left out>", ""), f"a name that nobody told: {said}"
    assert not [one for asked in verdict.way for one in asked.facts if not one.text or not one.source]
    assert not [one.what for one in verdict.missing if "failed" in one.what]


@pytest.mark.parametrize("tree", TREES)
def test_every_end_has_a_scenario(tree: str) -> None:
    reached = {scenario.expected["cause"] for scenario in scenarios()}
    assert sorted(set(all_trees()[tree].ends) - reached) == []


@pytest.mark.parametrize(
    "name",
    [
        "untolerated-taint",
        "runtime-class-unused",
        "service-monitor-not-selected",
        "dead-gpu",
        "data-storage-slow",
        "bad-batch",
        "kv-cache-full",
    ],
)
def test_a_bundle_of_it_comes_to_the_same(name: str) -> None:
    [scenario] = [one for one in scenarios() if one.name == name]
    kept = io.BytesIO()
    write_bundle(scenario.case().file, kept)
    assert why(Case(read_bundle(kept))) == list(_verdicts(name))
