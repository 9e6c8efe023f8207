"""What `trilens demo --fault` shows, and how it follows a show."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from trilens.cli.demo_faults import show_table
from trilens.cli.demo_show import Show
from trilens.cli.demo_stage import SHOWN, chosen, stage
from trilens.cli.main import app
from trilens.model.errors import ConfigError
from trilens.simulate.scenario import FaultKind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.cli.demo_show import Act

DOCS = Path(__file__).parents[2] / "docs"
# They page nobody within the time of a show: docs/demo.md says so.
NOT_SHOWN = {FaultKind.BAD_BATCH, FaultKind.IMAGE_PULL, FaultKind.PREEMPTION, FaultKind.SPOT_RECLAIM}
(HANG,) = chosen("hang")
(STUCK,) = chosen("stuck-data")


class Cluster:
    """A simulator, a server and an Alertmanager, as one says that they are."""

    def __init__(self) -> None:
        self.watched = 0.0
        self.struck: list[Mapping[str, Any]] = []
        self.mended: list[int] = []
        self.truths: list[dict[str, Any]] = []
        self.fires: list[dict[str, Any]] = []
        self.holds: list[dict[str, Any]] | None = []

    def watched_s(self) -> float:
        return self.watched

    def strike(self, fault: Mapping[str, Any]) -> dict[str, Any] | None:
        self.struck.append(fault)
        if fault["kind"] == "preemption":
            return None
        truth = {"number": len(self.truths), "kind": fault["kind"], "to_ms": None, "node": "n-0", "rank": 3,
                 "namespace": "demo", "workload": f"{fault['job']}-1"}  # fmt: skip
        self.truths.append(truth)
        return truth

    def mend(self, number: int) -> None:
        self.mended.append(number)

    def faults(self) -> list[dict[str, Any]]:
        return self.truths

    def firing(self) -> list[dict[str, Any]]:
        return self.fires

    def arrived(self) -> list[dict[str, Any]] | None:
        return self.holds


def alert(name: str, **labels: str) -> dict[str, Any]:
    return {"labels": {"alertname": name, **labels}, "annotations": {"summary": f"{name}!"}}


def show_of(cluster: Cluster, *names: str, has_alertmanager: bool = True) -> Show:
    faults = chosen(",".join(names))
    scenario = stage(faults)
    return Show(
        faults,
        lambda one: one.fault(scenario),
        cluster,
        has_alertmanager=has_alertmanager,
        to_type=lambda arguments: f"trilens {arguments}",
    )


def said(show: Show, at_s: float) -> list[str]:
    return [text for _, text in show.look(at_s)]


def begun(cluster: Cluster, *names: str, has_alertmanager: bool = True) -> tuple[Show, Act]:
    show = show_of(cluster, *names, has_alertmanager=has_alertmanager)
    cluster.watched = 100.0
    list(show.look(0.0))
    return show, show.acts[0]


def test_each_kind_of_fault_is_shown_or_said_not_to_be() -> None:
    shown = {one.strikes["kind"] for one in SHOWN}
    assert shown | NOT_SHOWN == set(FaultKind)
    assert not shown & NOT_SHOWN
    text = (DOCS / "demo.md").read_text()
    assert all(f"`{kind}`" in text for kind in NOT_SHOWN)
    for one in SHOWN:
        assert f"| `{one.name}` | {one.what} | [{one.alert}](alerts.md#{one.alert.lower()}) |" in text


def test_each_alert_is_one_of_the_pack() -> None:
    rules = resources.files("trilens.rules")
    groups = [
        group
        for file in rules.iterdir()
        if file.name.startswith("alerts-")
        for group in yaml.safe_load(file.read_text())["groups"]
    ]
    known = {rule.get("alert") for group in groups for rule in group["rules"]}
    assert {one.alert for one in SHOWN} <= known


def test_all_of_them_fit_into_one_cluster() -> None:
    scenario = stage(SHOWN)
    assert [job.name for job in scenario.jobs] == [one.name for one in SHOWN]
    nodes = [f"{pool.name}-{at:04d}" for pool in scenario.pools for at in range(pool.nodes)]
    (silent,) = chosen("node-not-ready")
    assert nodes[silent.fault(scenario)["node"]] == "node-not-ready-0001"


def test_names_are_chosen_in_the_order_of_the_list() -> None:
    assert [one.name for one in chosen("nan, hang,hang")] == ["hang", "nan"]
    assert chosen("all") == list(SHOWN)
    quick = chosen("quick")
    assert HANG in quick
    assert all(one.lasts_s + one.resolves_s <= 120 for one in quick)
    with pytest.raises(ConfigError, match="hagn") as caught:
        chosen("nan,hagn")
    assert caught.value.hint is not None
    assert "'hang'" in caught.value.hint


def test_a_fault_waits_until_its_cluster_is_known() -> None:
    cluster = Cluster()
    show = show_of(cluster, "hang")
    cluster.watched = HANG.after_s - 1.0
    assert said(show, 0.0) == []
    cluster.watched = HANG.after_s + 1.0
    (text,) = said(show, 1.0)
    assert text == f"begins: {HANG.what} (n-0, demo/hang-1, rank 3)"
    assert cluster.struck[0]["job"] == "hang"


def test_an_act_goes_from_its_beginning_to_its_end() -> None:
    cluster = Cluster()
    show, act = begun(cluster, "stuck-data")
    other = alert("FindingStall", workload="gil-held-1")
    cluster.fires = [other, alert("FindingHang", workload="stuck-data-1")]
    assert said(show, 5.0) == []
    cluster.fires.append(alert("FindingStall", workload="stuck-data-1"))
    fires = said(show, 10.0)
    assert fires == ["FindingStall fires: FindingStall!", "why: trilens why demo/stuck-data-1"]
    assert said(show, STUCK.lasts_s + 5.0) == [], "it lasts until it has arrived"
    assert cluster.mended == []
    cluster.holds = cluster.fires[-1:]
    assert said(show, STUCK.lasts_s + 6.0) == ["FindingStall is in Alertmanager: FindingStall!"]
    list(show.look(STUCK.lasts_s + 7.0))
    assert cluster.mended == [0]
    cluster.truths[0]["to_ms"] = 1
    assert said(show, STUCK.lasts_s + 8.0) == ["is over"]
    cluster.fires = [other]
    assert said(show, STUCK.lasts_s + 9.0) == [], "the Alertmanager still has it"
    cluster.holds = None
    assert said(show, STUCK.lasts_s + 10.0) == [], "the Alertmanager does not answer"
    cluster.holds = []
    assert said(show, STUCK.lasts_s + 11.0) == ["FindingStall is resolved, in Alertmanager too"]
    assert show.is_over
    assert act.is_shown
    assert act.resolved_s == STUCK.lasts_s + 11.0


def test_what_would_stay_is_ended_by_a_restart_of_its_job() -> None:
    cluster = Cluster()
    show, act = begun(cluster, "hang", has_alertmanager=False)
    cluster.fires = [alert("FindingHang", workload="hang-1", rank="3", node="hang-0000")]
    list(show.look(10.0))
    for at_s in (HANG.lasts_s, HANG.lasts_s + 1.0):
        list(show.look(at_s))
    assert [one["kind"] for one in cluster.struck] == ["hang", "preemption"]
    cluster.truths[0]["to_ms"] = 1
    assert said(show, HANG.lasts_s + 2.0) == ["is over: the job was restarted"]
    cluster.fires = []
    assert said(show, HANG.lasts_s + 3.0) == ["FindingHang is resolved"]
    assert act.is_shown


def test_an_alert_that_names_another_rank_is_not_right(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster()
    show, act = begun(cluster, "hang", has_alertmanager=False)
    cluster.fires = [alert("FindingHang", workload="hang-1", rank="2")]
    list(show.look(10.0))
    cluster.truths[0]["to_ms"] = 1
    cluster.fires = []
    list(show.look(11.0))
    assert act.resolved_s is not None
    assert act.wrong == {"rank": "3"}
    assert not act.is_shown
    show_table(show.acts, has_alertmanager=False)
    table = capsys.readouterr().out
    assert "hang-1 rank 2; not rank 3" in table
    assert "0 of 1 shown" in table
    assert "arrived" not in table


def test_what_never_fires_is_given_up() -> None:
    cluster = Cluster()
    show, act = begun(cluster, "stuck-data")
    list(show.look(STUCK.lasts_s + 1.0))
    assert cluster.mended == [], "its alert may only be late"
    list(show.look(STUCK.longest_s))
    assert cluster.mended == [0]
    cluster.truths[0]["to_ms"] = 1
    list(show.look(200.0))
    assert not show.is_over
    assert said(show, 1000.0) == ["FindingStall never fired"]
    assert show.is_over
    assert not act.is_shown


def test_the_command_lists_what_it_can_show() -> None:
    answer = CliRunner().invoke(app, ["demo", "--list-faults"], catch_exceptions=False)
    assert answer.exit_code == 0
    assert all(one.name in answer.stdout and one.alert in answer.stdout for one in SHOWN)
    told = json.loads(CliRunner().invoke(app, ["demo", "--list-faults", "--json"]).stdout)
    assert [one["name"] for one in told] == [one.name for one in SHOWN]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fault", "hang", "--gpus", "64"], "--gpus"),
        (["--fault", "hang", "--once"], "does not go with --once"),
        (["--list-faults", "--once"], "does not go with --once"),
        (["--json"], "goes with --fault"),
    ],
    ids=["gpus", "once", "list", "json"],
)
def test_options_that_do_not_go_together_are_refused(arguments: list[str], complaint: str) -> None:
    answer = CliRunner().invoke(app, ["demo", *arguments])
    assert answer.exit_code == 2
    assert complaint in answer.output
