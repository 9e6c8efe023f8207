"""A team sees its own, and of others nothing: in lists, by name, in sums, in errors, or after an admin."""

from __future__ import annotations

import json
import re
from io import BytesIO
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import httpx
import pytest

from memory_api import running
from narrowed_routes import NARROWED, ONE_RUN, ONE_WORKLOAD
from trilens.model.matcher import Matcher
from trilens.serve.access.sight import WHOLE, Sight
from trilens.serve.app import all_routes, build_app
from two_teams import (
    CANARY,
    CLAIMED,
    ELSEWHERE,
    HALF_KNOWN,
    HOUR,
    NODE,
    NOW_MS,
    OWN,
    SAMPLE_OF_ALL,
    THEIRS,
    TWIN,
    UNNAMED,
    gpu_of,
    run_of,
    sample_of,
    two_teams,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.model.workload import WorkloadKey
    from two_teams import TwoTeams

    Ask = Callable[..., httpx.Response]

SPAN = {"from": str(HOUR / 1000), "to": str(NOW_MS / 1000), "at": str(NOW_MS / 1000)}
PATH = f"/api/workloads/lab/shared/Job/{OWN.name}"
ABOUT = {
    "/api/events": {"from": SPAN["from"], "to": SPAN["to"]},
    "/api/incidents": {"all": "true", "from": SPAN["from"], "to": SPAN["to"]},
    "/api/findings": {"all": "true", "from": SPAN["from"], "to": SPAN["to"]},
    "/api/workloads": {"at": SPAN["at"]},
    "/api/gpus": {"at": SPAN["at"]},
    "/api/output": {"namespace": "shared", "pod": f"{OWN.name}-0"},
    "/api/experiments/courses": {"experiment": "shared"},
    "/allocation": {"window": "2d", "aggregate": "label:team"},
    "/api/silences": {"all": "true"},
    "/api/v1/query": {"query": 'use or {pod=~".+"}', "time": SPAN["at"]},
    "/api/v1/query_range": {"query": '{pod=~".+"}', "start": SPAN["at"], "end": SPAN["at"], "step": "60"},
    "/api/v1/series": {"match[]": '{pod=~".+"}'},
    "/api/why": {"subject": OWN.name},
    "/api/case": {"subject": OWN.name},
    "/api/fixes/proposals": {"subject": OWN.name},
}
# Of one thing each, which its path names: asked for as own and as another's.
OF_ONE = {
    ONE_WORKLOAD,
    f"{ONE_WORKLOAD}/ranks",
    f"{ONE_WORKLOAD}/timeline",
    "/api/services/{cluster}/{namespace}/{name:path}",
    "/api/gpus/{uuid}/life",
    "/api/incidents/{id}",
    ONE_RUN,
    f"{ONE_RUN}/artifacts/{{artifact}}",
    f"{ONE_RUN}/checkpoints",
    f"{ONE_RUN}/checkpoints/{{step}}",
    f"{ONE_RUN}/checkpoints/{{step}}/batches",
    f"{ONE_RUN}/curve",
    f"{ONE_RUN}/spikes",
    f"{ONE_RUN}/steps",
    f"{ONE_RUN}/steps/{{step}}",
    f"{ONE_RUN}/traces",
}
SAMPLE, LABEL = "/api/samples/{sample:path}", "/api/v1/label/{name}/values"  # of nothing known: an empty list
CHANGES = {  # by POST: tests of their own
    "/api/fixes/{id}/approve",
    "/api/fixes/{id}/undo",
    "/api/incidents/{id}/acknowledge",
    "/api/silences/{id}/expire",
}
OUTPUT = "/api/output?namespace=shared&pod="
MONEY = {"from": str(HOUR / 1000), "to": str(HOUR / 1000 + 3600)}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoTeams]:
    with two_teams(tmp_path_factory.mktemp("two-teams")) as found:
        yield found


@pytest.fixture(scope="module")
def ask(fleet: TwoTeams) -> Iterator[Ask]:
    """As `role`; an admin has asked for the same just before, so that what is remembered is his."""
    with running(build_app(fleet.parts())) as url, httpx.Client(base_url=url, timeout=60) as client:

        def asked(path: str, role: str = "nlp in lab", **params: Any) -> httpx.Response:
            given = params or None  # else those in the path are dropped
            client.get(path, params=given, headers={"role": "admin"})
            return client.get(path, params=given, headers={"role": role})

        yield asked


def data(answer: httpx.Response) -> Any:
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def of_one(path: str, key: WorkloadKey) -> str:
    named = {
        **key._asdict(),
        "run": run_of(key),
        "step": "1",
        "artifact": "0.0.0",
        "uuid": gpu_of(key).uuid,
        "id": "20261104-0000-a1" if key is OWN else "20261104-0000-a2",
    }
    return re.sub(r"\{(\w+)(:path)?\}", lambda found: named[found[1]], path)


def test_each_route_of_one_thing_is_asked_by_a_team(fleet: TwoTeams) -> None:
    assert {one.path for one in all_routes(fleet.parts()) if one.narrowed} == NARROWED, (
        "none is left out here"
    )
    assert {path for path in NARROWED if "{" in path} == {*OF_ONE, SAMPLE, LABEL, *CHANGES}


@pytest.mark.parametrize("path", sorted(OF_ONE))
def test_one_thing_that_is_own_is_answered_and_anothers_is_not_there(ask: Ask, path: str) -> None:
    own, theirs = of_one(path, OWN), of_one(path, THEIRS)
    params = {} if "{run}" in path or "{id}" in path else {"from": SPAN["from"], "to": SPAN["to"]}
    answer = ask(own, **params)
    assert answer.status_code == 200, answer.text
    assert CANARY not in answer.text.lower()
    assert ask(theirs, "admin", **params).status_code == 200, "there is something to hide"
    for role in ("nlp in lab", "nlp", "nobody"):
        assert ask(theirs, role, **params).status_code == 404
    assert ask(own, "nobody", **params).status_code == 404


def test_nothing_that_is_narrowed_says_anything_of_others(fleet: TwoTeams, ask: Ask) -> None:
    """Every route there is of more than one thing: one that is opened later is asked here, too."""
    asked = 0
    for one in all_routes(fleet.parts()):
        if not one.narrowed or "{" in one.path or "GET" not in (one.methods or ()):
            continue
        params = ABOUT.get(one.path, MONEY)
        for role in ("nlp in lab", "nobody"):
            answer = ask(one.path, role, **params)
            assert CANARY not in answer.text.lower(), f"{one.path} as {role}: {answer.text[:2000]}"
            assert answer.status_code < 500, f"{one.path}: {answer.text}"
            asked += 1
        of_cluster = ask(one.path, "lab", **params).text
        assert ELSEWHERE.cluster not in of_cluster, f"{one.path}: {of_cluster[:2000]}"
        assert ELSEWHERE.name not in of_cluster, f"{one.path}: {of_cluster[:2000]}"
    assert asked > 30


def test_an_admin_sees_the_others(ask: Ask) -> None:
    """Else what is asked above would show nothing to anybody."""
    of_fleet = ("workloads", "gpus", "events", "incidents", "findings", "runs", "experiments", "fleet")
    of_pages = ("now", "workload-table", "fixes", "silences", "v1/rules", "v1/alerts", "v1/metadata")
    asked = ("v1/query", "v1/query_range", "v1/series", "v1/label/team/values")
    of_money = ("cost", "cost/why", "cost/now", "cost/focus")
    for path in (f"/api/{one}" for one in (*of_fleet, *of_pages, *asked, *of_money)):
        assert CANARY in ask(path, "admin", **ABOUT.get(path, MONEY)).text.lower(), path


def test_workloads(ask: Ask) -> None:
    assert [one["name"] for one in data(ask("/api/workloads", at=SPAN["at"]))] == [OWN.name]
    of_team = {one["name"] for one in data(ask("/api/workloads", "nlp", at=SPAN["at"]))}
    assert of_team == {OWN.name, ELSEWHERE.name}
    of_cluster = {one["name"] for one in data(ask("/api/workloads", "lab", at=SPAN["at"]))}
    assert of_cluster == {OWN.name, THEIRS.name, "canary-nobodys"}
    assert data(ask("/api/workloads", "nobody", at=SPAN["at"])) == []
    assert data(ask(PATH, at=SPAN["at"]))["workload"]["name"] == OWN.name


@pytest.mark.parametrize(
    ("there", "not_there"),
    [
        (f"/api/workloads/lab/shared/Job/{THEIRS.name}", "/api/workloads/lab/shared/Job/no-such-thing"),
        (f"/api/runs/{run_of(THEIRS)}", "/api/runs/no-such-thing"),
        (f"/api/runs/{run_of(THEIRS)}/steps", "/api/runs/no-such-thing/steps"),
        (f"/api/runs/{run_of(THEIRS)}/steps/1", "/api/runs/no-such-thing/steps/1"),
        (f"/api/runs/{run_of(THEIRS)}/curve", "/api/runs/no-such-thing/curve"),
        (f"/api/runs/{run_of(THEIRS)}/spikes", "/api/runs/no-such-thing/spikes"),
        (f"/api/runs/{run_of(THEIRS)}/traces", "/api/runs/no-such-thing/traces"),
        (f"/api/runs/{run_of(THEIRS)}/checkpoints", "/api/runs/no-such-thing/checkpoints"),
        (f"/api/runs/{run_of(THEIRS)}/checkpoints/1", "/api/runs/no-such-thing/checkpoints/1"),
        (
            f"/api/runs/{run_of(THEIRS)}/checkpoints/1/batches",
            "/api/runs/no-such-thing/checkpoints/1/batches",
        ),
        (
            f"/api/samples/{SAMPLE_OF_ALL}?run={run_of(THEIRS)}",
            f"/api/samples/{SAMPLE_OF_ALL}?run=no-such-thing",
        ),
        (f"/api/runs/{run_of(THEIRS)}/artifacts/0.0.0", "/api/runs/no-such-thing/artifacts/0.0.0"),
        ("/api/incidents/20261104-0000-a2", "/api/incidents/no-such-thing"),
        (
            f"/api/output?namespace=shared&pod={THEIRS.name}-0",
            "/api/output?namespace=shared&pod=no-such-thing",
        ),
    ],
)
def test_what_is_anothers_is_answered_as_what_is_not_there(ask: Ask, there: str, not_there: str) -> None:
    theirs, nobodys = ask(there), ask(not_there)
    name = there.rpartition("=")[2] if "=" in there else there.split("/")[-1 if "runs" not in there else 3]
    assert theirs.status_code == nobodys.status_code == 404
    other = not_there.rpartition("=")[2] if "=" in not_there else "no-such-thing"
    assert theirs.text.replace(name, "X") == nobodys.text.replace(other, "X")


def test_runs_and_experiments(ask: Ask) -> None:
    assert [one["run"] for one in data(ask("/api/runs"))["runs"]] == [run_of(OWN)]
    assert data(ask(f"/api/runs/{run_of(OWN)}"))["run"]["run"] == run_of(OWN)
    (experiment,) = data(ask("/api/experiments"))
    assert [one["run"] for one in experiment["runs"]] == [run_of(OWN)]
    (run,) = experiment["runs"]
    assert [one["run"] for one in run["trackers"]] == ["w-own"], (
        "which its own tag names; the other it claims"
    )
    of_all = next(one for one in data(ask("/api/experiments", "admin")) if one["experiment"] == "shared")
    assert {"w-own", "w-theirs"} == {
        tracked["run"] for one in of_all["runs"] for tracked in one["trackers"] if one["run"] == run_of(OWN)
    }


def test_who_saw_a_sample_is_told_of_own_runs(ask: Ask) -> None:
    def runs(sample: object, role: str = "nlp in lab") -> set[str]:
        return {one["run"] for one in data(ask(f"/api/samples/{sample}", role))}

    assert runs(SAMPLE_OF_ALL) == runs(sample_of(OWN)) == {run_of(OWN)}
    assert runs(SAMPLE_OF_ALL, "nlp") == {run_of(OWN), run_of(ELSEWHERE)}
    assert {run_of(OWN), run_of(THEIRS)} < runs(SAMPLE_OF_ALL, "admin"), "asked before and after"
    assert runs(sample_of(THEIRS)) == runs("no-such-thing") == runs(SAMPLE_OF_ALL, "nobody") == set()
    assert runs(sample_of(THEIRS), "admin") == {run_of(THEIRS)}


def test_a_checkpoint_of_anothers_run_that_was_loaded_is_not_followed(ask: Ask) -> None:
    path = f"/api/runs/{run_of(OWN)}/checkpoints/1"
    (part,) = data(ask(path, "admin"))["parts"]
    assert part["run"] == run_of(THEIRS), "there is something to hide"
    assert [one["dataset"] for one in data(ask(f"{path}/batches", "admin"))["batches"]] == [
        "canary-texts"
    ] * 2
    assert data(ask(path))["parts"] == []
    assert data(ask(f"{path}/batches"))["batches"] == []


def test_money_is_what_own_workloads_held(ask: Ask) -> None:
    cost = data(ask("/api/cost", **MONEY))
    assert [one["keys"]["team"] for one in cost["lines"]] == ["nlp", "nlp"]
    assert [one["now"]["amount"] for one in cost["totals"]] == ["12"]  # 3 GPUs, an hour, 4 each
    of_all = data(ask("/api/cost", "admin", **MONEY))
    assert [one["now"]["amount"] for one in of_all["totals"]] == ["44"]
    others = data(ask("/api/cost", where="team=canary-vision", **MONEY))
    assert (others["lines"], others["totals"]) == ([], [])
    hours = data(ask("/api/ledger/hours", **MONEY))
    assert [(one["amount"], one["gpu_ms"]) for one in hours] == [("12.000000000", 3 * 3_600_000)]
    why = data(ask("/api/cost/why", **MONEY))
    assert [(one["team"], one["amount"]) for one in why["causes"]] == [("nlp", "6")]
    assert ask("/api/cost", share="by-cost", **MONEY).status_code == 400


def test_gpus_that_own_workloads_hold(ask: Ask) -> None:
    (gpu,) = data(ask("/api/gpus", at=SPAN["at"]))
    assert (gpu["uuid"], [one["pod"] for one in gpu["holders"]]) == (f"GPU-{OWN.name}", [f"{OWN.name}-0"])


def test_of_an_event_that_hit_both_the_other_is_cut(ask: Ask) -> None:
    alone, both = sorted(
        data(ask("/api/events", **ABOUT["/api/events"])), key=lambda one: one["text"] == "bus"
    )
    assert (alone["pid"], both["pid"], both["process"]) == (4711, None, None)
    assert [one["pod"] for one in both["victims"]] == [f"{OWN.name}-0"]


def test_incidents_of_own_workloads_and_what_is_cut_of_those_of_several(ask: Ask) -> None:
    found = {one["id"][-2:]: one for one in data(ask("/api/incidents"))}
    assert found.keys() == {"a1", "a3", "a4"}
    assert (found["a1"]["lost"], found["a1"]["title"]) == ("777.000000000", f"D001 of {OWN.name}")
    assert (found["a4"]["lost"], found["a4"]["title"]) == ("777.000000000", f"{NODE} is broken"), (
        "own, by its machine"
    )
    cut = found["a3"]
    assert cut["title"] == f"NodeDown on {NODE}"
    assert cut["workloads"] == [f"shared/Job/{OWN.name}"]
    assert cut["lost"] is None, "what all of them lost"
    assert [one["name"] for one in cut["symptoms"]] == ["NodeDown", "D001"]
    assert data(ask("/api/incidents/20261104-0000-a3")) == cut


def test_a_team_acknowledges_what_is_its_own_alone(fleet: TwoTeams) -> None:
    with running(build_app(fleet.parts())) as url:

        def acknowledge(id: str) -> int:
            path = f"{url}/api/incidents/20261104-0000-{id}/acknowledge"
            return httpx.post(path, params={"by": "me"}, headers={"role": "nlp fixer"}).status_code

        assert [acknowledge(id) for id in ("a1", "a2", "a3")] == [200, 404, 403]
    assert [one.acknowledged_by for one in fleet.incidents.open()] == ["nlp fixer", "", "", ""]


def test_selectors_reach_own_series_alone(ask: Ask) -> None:
    def workloads(query: str, role: str = "nlp in lab") -> list[str]:
        found = data(ask("/api/v1/query", role, query=query, time=SPAN["at"]))["result"]
        return sorted(one["metric"].get("workload", "") for one in found)

    assert workloads("use") == [OWN.name]
    assert {*workloads('{pod!=""}', "nlp")} == {ELSEWHERE.name, OWN.name}
    assert workloads('use{team="canary-vision"}') == []
    assert workloads('use{team=~".*"} or on() vector(1)') == [OWN.name]
    assert workloads("use", "nobody") == []
    assert (
        data(ask("/api/v1/query", query="sum(count_over_time(use[5m]))", time=SPAN["at"]))["result"][0][
            "value"
        ][1]
        == "1"
    ), "and sums are of these"
    assert data(ask("/api/v1/label/team/values")) == ["nlp"]
    assert list(data(ask("/api/v1/metadata"))) == ["use"]
    federated = ask("/federate", **{"match[]": '{pod!=""}'})
    assert CANARY not in federated.text


def test_alerts_and_how_a_rule_stands_are_own(ask: Ask) -> None:
    assert [one["labels"]["workload"] for one in data(ask("/api/v1/alerts"))["alerts"]] == [OWN.name]
    ((rule,),) = [one["rules"] for one in data(ask("/api/v1/rules"))["groups"]]
    assert ([one["labels"]["workload"] for one in rule["alerts"]], rule["state"]) == ([OWN.name], "firing")
    ((rule,),) = [one["rules"] for one in data(ask("/api/v1/rules", "nobody"))["groups"]]
    assert (rule["alerts"], rule["state"], "lastError" in rule) == ([], "inactive", False)


def test_the_page_now_is_of_own_money_and_incidents(ask: Ask) -> None:
    now = data(ask("/api/now", **MONEY))
    assert now["money"]["spent"] == "12"
    assert [one["team"] for one in now["teams"]] == ["nlp"]
    assert {one["id"][-2:] for one in now["incidents"]} == {"a1", "a3", "a4"}
    assert data(ask("/api/now", "admin", **MONEY))["money"]["spent"] == "44", "asked before and after"


def test_the_map_and_the_table_have_what_own_workloads_hold(ask: Ask) -> None:
    fleet = data(ask("/api/fleet"))
    assert fleet["gpus"]["uuid"] == [f"GPU-{OWN.name}"]
    assert fleet["nodes"]["name"] == [NODE]
    assert [one["name"] for one in fleet["workloads"]] == [OWN.name]
    assert [one["text"][:8] for one in fleet["findings"] if one["gpu"]] == ["GPU GPU-"], "its fault, of all"
    assert CANARY not in json.dumps(fleet)
    of_cluster = data(ask("/api/fleet", "lab"))
    assert set(of_cluster["nodes"]["cluster"]) == {"lab"}
    assert "canary-free" in of_cluster["nodes"]["name"], "with nobody on it"
    assert data(ask("/api/workload-table"))["name"] == [OWN.name]
    assert data(ask("/api/workload-table", state="all"))["name"] == [OWN.name]


def test_what_a_workload_cost_is_what_was_booked_on_the_team(ask: Ask) -> None:
    """It was another's before, which paid for an hour of a GPU."""
    costs = {role: data(ask("/api/workload-table", role)) for role in ("nlp in lab", "lab")}
    own = {role: dict(zip(one["name"], one["cost"], strict=True))[OWN.name] for role, one in costs.items()}
    assert own == {"nlp in lab": 12.0, "lab": 16.0}
    (goodput,) = costs["nlp in lab"]["goodput"]
    assert goodput == 0.5


def test_services_of_own_workloads(ask: Ask) -> None:
    (service,) = data(ask("/api/services", at=SPAN["at"]))["services"]
    assert service["name"] == OWN.name
    assert {one["name"] for one in data(ask("/api/services", "admin", at=SPAN["at"]))["services"]} == {
        OWN.name,
        THEIRS.name,
    }
    span = {"from": SPAN["from"], "to": SPAN["to"]}
    assert ask(f"/api/services/lab/shared/{OWN.name}", **span).status_code == 200
    assert ask(f"/api/services/lab/shared/{THEIRS.name}", **span).status_code == 404


def test_one_workload_over_time(ask: Ask) -> None:
    for what in ("timeline", "ranks"):
        assert data(ask(f"{PATH}/{what}", **MONEY))
        theirs = PATH.replace(OWN.name, THEIRS.name)
        assert ask(f"{theirs}/{what}", **MONEY).status_code == 404
    told = data(ask(f"{PATH}/timeline", **MONEY))
    assert CANARY not in json.dumps(told)
    assert len(told["troubles"]) == 4  # three incidents and a finding


def test_a_gpu_while_it_was_own(ask: Ask) -> None:
    span = {"from": SPAN["from"], "to": SPAN["to"]}
    life = data(ask(f"/api/gpus/GPU-{OWN.name}/life", **span))
    assert [one["pod"] for one in life["held"]] == [f"{OWN.name}-0"]
    assert life["reporting"] == [], "when others had it is not told"
    assert [one["text"] for one in life["events"]] == ["bus", "bus"], "of whom it hit besides nothing is told"
    of_all = data(ask(f"/api/gpus/GPU-{OWN.name}/life", "admin", **span))
    assert len([one for one in of_all["events"] if CANARY in one["text"]]) == 3
    theirs, nobodys = ask(f"/api/gpus/GPU-{THEIRS.name}/life", **span), ask("/api/gpus/GPU-none/life", **span)
    assert (theirs.status_code, nobodys.status_code) == (404, 404)
    assert theirs.text.replace(f"GPU-{THEIRS.name}", "X") == nobodys.text.replace("GPU-none", "X")


def test_a_case_of_an_own_workload_has_nothing_of_others(ask: Ask) -> None:
    span = {"from": SPAN["from"], "to": SPAN["to"]}
    why = ask("/api/why", subject=f"lab/shared/Job/{OWN.name}", **span)
    assert why.status_code == 200, why.text
    told = bundle(ask)
    assert OWN.name in told
    assert CANARY not in told
    assert "not this team's to see" in told
    assert CANARY in bundle(ask, "admin")


def test_a_case_has_what_was_told_of_its_own_alone(ask: Ask) -> None:
    """In a namespace that is shared, of a job that is called nearly as the own one is, too."""
    own = ("pod", "pod by name", "job", "claim", "place in the queue")
    theirs = ("pod", "pod that had the own one's name", "job", "claim", "preempts", "gang", "gang by name")
    for role in ("nlp", "nlp in lab", "lab", "admin"):
        told = bundle(ask, role)
        assert [one for one in own if f'"told of the own {one}"' not in told] == [], role
        seen = [one for one in theirs if f'"canary {one}"' in told]
        assert seen == ([*theirs] if role in ("lab", "admin") else []), role


def bundle(ask: Ask, role: str = "nlp in lab", subject: str = f"lab/shared/Job/{OWN.name}") -> str:
    answer = ask("/api/case", role, subject=subject, **{"from": SPAN["from"], "to": SPAN["to"]})
    assert answer.status_code == 200, answer.text
    with ZipFile(BytesIO(answer.content)) as file:
        return "".join(file.read(name).decode() for name in file.namelist())


def test_who_says_that_anothers_run_is_in_his_pod_sees_nothing_of_it(ask: Ask) -> None:
    theirs = (run_of(THEIRS), HALF_KNOWN)
    for role in ("nlp", "nlp in lab"):
        told = bundle(ask, role)
        assert run_of(OWN) in told
        assert not [one for one in theirs if one in told]
        assert data(ask(f"{PATH}/timeline", role, **MONEY))["program"]["runs"] == [run_of(OWN)]
        assert data(ask(f"{PATH}/ranks", role, **MONEY))["run"] == run_of(OWN)
        for run in theirs:
            assert ask(f"/api/runs/{run}", role).status_code == 404
    assert "canary note" in bundle(ask, "admin")
    of_all = data(ask(f"{PATH}/timeline", "admin", **MONEY))["program"]["runs"]
    assert {*theirs} < {*of_all}, "there is something to hide"


def test_what_a_step_costs_is_told_of_runs_that_are_seen(ask: Ask) -> None:
    def runs(role: str) -> set[str]:
        return {
            one["keys"]["run"] for one in data(ask("/api/cost/units", role, per="step", **MONEY))["lines"]
        }

    assert runs("nlp") == runs("nlp in lab") == {run_of(OWN)}
    assert {CLAIMED, run_of(OWN)} <= runs("admin")


@pytest.mark.parametrize("subject", [f"lab/shared/Job/{OWN.name}", f"lab/shared/pod/{OWN.name}-0"])
@pytest.mark.parametrize("role", ["nlp", "nlp in lab", "lab", "admin"])
def test_a_case_has_nothing_of_who_is_called_alike_in_another_cluster(
    ask: Ask, role: str, subject: str
) -> None:
    told = bundle(ask, role, subject)
    assert TWIN.cluster not in told
    assert "canary-twin" not in told
    assert "own:1" in told
    assert role in ("lab", "admin") or "canary-nobody" not in told, "an event of its pod"
    assert "trilens:node_cpu:ratio" in told or '"node-cpu"' in told


def test_of_what_names_no_cluster_who_is_bound_to_clusters_has_nothing(ask: Ask) -> None:
    has_it = {role: UNNAMED in bundle(ask, role) for role in ("admin", "nlp", "lab", "nlp in lab")}
    assert has_it == {"admin": True, "nlp": True, "lab": False, "nlp in lab": False}


@pytest.mark.parametrize("role", ["lab", "admin"])
def test_a_case_of_a_node_has_nothing_of_its_namesake(ask: Ask, role: str) -> None:
    told = bundle(ask, role, f"lab/node/{NODE}")
    assert f"GPU-{OWN.name}" in told
    assert TWIN.cluster not in told
    assert "canary-twin" not in told


@pytest.mark.parametrize("subject", [THEIRS.name, f"pod/{THEIRS.name}-0", f"node/{NODE}", "20261104-0000-a2"])
def test_no_case_of_what_is_not_seen(ask: Ask, subject: str) -> None:
    theirs, nobodys = ask("/api/why", subject=subject), ask("/api/why", subject="no-such-thing")
    assert theirs.status_code == nobodys.status_code == 404
    assert theirs.text.replace(subject, "X") == nobodys.text.replace("no-such-thing", "X")


@pytest.mark.parametrize("path", ["/api/why", "/api/case", "/api/fixes/proposals"])
def test_a_command_in_a_container_is_not_run_by_a_link(ask: Ask, path: str) -> None:
    for role in ("nlp in lab", "admin"):
        answer = ask(path, role, subject=OWN.name, exec="true")
        assert answer.status_code == 400
        assert "by POST alone" in answer.text


def test_fixes_of_own_workloads_and_of_no_node(ask: Ask) -> None:
    assert {one["id"] for one in data(ask("/api/fixes"))} == {f"fix-0-{OWN.name}", f"fix-pod-{OWN.name}"}
    assert "fix-node" in [one["id"] for one in data(ask("/api/fixes", "lab"))]


@pytest.mark.parametrize("deed", ["approve", "undo"])
def test_a_team_approves_and_undoes_its_own_alone(fleet: TwoTeams, deed: str) -> None:
    with running(build_app(fleet.parts())) as url:

        def told(id: str) -> httpx.Response:
            return httpx.post(f"{url}/api/fixes/{id}/{deed}", headers={"role": "nlp fixer"}, timeout=60)

        theirs, nobodys = told(f"fix-1-{THEIRS.name}"), told("no-such-thing")
        assert theirs.status_code == nobodys.status_code == told("fix-node").status_code == 404
        assert theirs.text.replace(f"fix-1-{THEIRS.name}", "X") == nobodys.text.replace("no-such-thing", "X")
        assert told(f"fix-0-{OWN.name}").status_code == 400, "only that no cluster is watched here"


def test_a_silence_of_a_team_takes_its_own_alone(fleet: TwoTeams) -> None:
    with running(build_app(fleet.parts())) as url, httpx.Client(base_url=url, timeout=60) as client:
        as_team = {"role": "nlp fixer"}
        wanted = {
            "matchers": ['workload=~".*"', 'team=~".*"'],
            "to_ms": NOW_MS + 60_000,
            "author": "me",
            "comment": "quiet",
        }
        added = client.post("/api/silences", json=wanted, headers=as_team).json()["data"]
        assert added["matchers"] == [*wanted["matchers"], 'cluster="lab"', 'team="nlp"']
        seen = client.get("/api/silences", headers=as_team).json()["data"]
        assert {tuple(one["matchers"][-2:]) for one in seen} == {
            ('cluster="lab"', 'team="nlp"'),
            ('team="nlp"', 'cluster="lab"'),
        }
        every = client.get("/api/silences", headers={"role": "admin"}).json()["data"]
        assert len(every) == 4
        theirs = next(one["id"] for one in every if one["matchers"] == ['team="canary-vision"'])
        codes = [
            client.post(f"/api/silences/{id}/expire", headers=as_team).status_code
            for id in (theirs, "no-such-thing", added["id"])
        ]
        assert codes == [404, 404, 200]


def test_what_has_no_team_is_seen_by_no_team() -> None:
    sight = Sight(teams=frozenset({"nlp"}))
    assert sight.shows("anywhere", "nlp")
    assert not sight.shows("anywhere", None)
    assert not Sight(teams=frozenset()).shows("anywhere", None)
    assert WHOLE.shows("", None)


def test_selectors_of_a_bound_asker() -> None:
    assert WHOLE.matchers == ()
    assert Sight(teams=frozenset({"nlp"})).matchers == (Matcher("team", "=", "nlp"),)
    several = Sight(frozenset({"a.b", "c|d"}), frozenset({"x"}))
    assert several.matchers == (Matcher("cluster", "=~", r"a\.b|c\|d"), Matcher("team", "=", "x"))
    nothing = Sight(teams=frozenset({""}))
    assert nothing.matchers == (Matcher("team", "=", ""), Matcher("team", "!=", "")), "matches nothing at all"


def test_warnings_do_not_name_others() -> None:
    assert WHOLE.warnings(["canary-west: away"]) == ["canary-west: away"]
    assert CANARY not in json.dumps(Sight(teams=frozenset()).warnings(["canary-west: away"]))
    assert Sight(teams=frozenset()).warnings([]) == []
