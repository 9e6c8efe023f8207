"""The benchmark of one round: that it evaluates what it says, on a fleet so small that it takes seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from bench import report
from bench.one_round import measure
from bench.round_peer import PeerResult, with_interval
from bench.rules import passes

from trilens.detect.detectors import all_detectors
from trilens.rules import rule_files

if TYPE_CHECKING:
    from bench.one_round import RoundResult


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> RoundResult:
    return measure(tmp_path_factory.mktemp("round"), 64, warm_s=60, rounds=1)


def test_all_detectors_and_all_groups_are_in_a_round_and_none_fails(found: RoundResult) -> None:
    codes = {part.removeprefix("detector ") for part in found.by_part if part.startswith("detector ")}
    assert codes == {one.code for one in all_detectors()}
    groups = [part for part in found.by_part if part.startswith("rules: ")]
    text = "\n".join(entry.read_text(encoding="utf-8") for entry in rule_files())
    assert len(groups) == found.groups == text.count("\n- name: ")
    assert found.recording_rules == text.count("- record: ")
    assert found.alerting_rules == text.count("- alert: ")
    assert found.failures == 0


def test_the_fleet_is_one(found: RoundResult) -> None:
    assert found.jobs > 2
    assert found.ranks_that_tell > 32
    assert found.series > 64 * 40
    assert found.recorded > 64 * 20


def test_it_is_told_with_its_peer(found: RoundResult) -> None:
    told = report.round_of_all(replace(found, peer=PeerResult(10 * found.rules_s, 5, 1)))
    assert "64 GPUs" in told
    assert "The rules of Trilens to it: **0.10**" in told


def test_a_part_takes_its_own_place_among_the_results() -> None:
    before = report.RESULTS.read_text()
    after = report.merged(before, ["## Rules\n\nnew", "## One more\n\nfirst"])
    titles, then = ([line for line in text.splitlines() if line.startswith("#")] for text in (before, after))
    assert then == [*titles[:-1], "## One more", titles[-1]]
    assert "\nnew\n" in after
    assert report.merged(after, []) == after
    assert report.merged(after, [], "# Others\n").startswith("# Others\n\n## ")


def test_passes_are_of_all_groups_without_those_that_were_missed() -> None:
    metrics = """
prometheus_rule_group_iterations_total{rule_group="/x/a.yml;a"} 4
prometheus_rule_group_iterations_total{rule_group="/x/b.yml;b"} 7
prometheus_rule_group_iterations_missed_total{rule_group="/x/a.yml;a"} 0
prometheus_rule_group_iterations_missed_total{rule_group="/x/b.yml;b"} 2
"""
    assert passes(metrics) == 4.5
    assert passes(metrics.replace("prometheus", "trilens")) == 5.5  # which does not count them as done
    assert passes("") == 0


def test_a_group_keeps_all_but_its_interval() -> None:
    for entry in rule_files():
        before = entry.read_text(encoding="utf-8").splitlines()
        after = with_interval("\n".join(before)).splitlines()
        changed = {line.strip() for line, was in zip(after, before, strict=True) if line != was}
        assert changed <= {"interval: 60s"}
