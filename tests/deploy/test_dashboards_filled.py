"""Every query of the dashboards has an answer on the demo's fleet; those about trouble, with that trouble."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import httpx
import pytest
from dashboard_queries import Asked, asked, boards, chosen, everything, filled

from recording_rules import Recorder, series
from servers import free_port, running
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens_process import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

PATIENCE_S: Final = 400.0  # rules build on rules, each a minute apart; and the machine may be busy
_LOOK_AGAIN_S: Final = 5.0
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
# What somebody chooses on the boards, which is what all that is told below is of.
ONE_OF_EACH: Final = {
    "cluster": "c1",
    "team": "vision",
    "namespace": "research",
    "workload": "train",
    "model": "m",
    "instance": "trilens-0:9333",
}
_SERVICE: Final = {"cluster": "c1", "namespace": "research", "pod": "train-0", "job": "chat", "instance": "a"}
_ITSELF: Final = {"job": "trilens", "instance": "trilens-0:9333"}
_BUDGET: Final = {"of": "team", "name": "vision", "currency": "USD"}
_CONTAINER: Final = {"cluster": "c1", "namespace": "research", "pod": "train-0", "container": "main"}
_POD: Final = {
    "cluster": "c1",
    "namespace": "research",
    "pod": "train-0",
    "workload": "train",
    "kind": "Job",
    "team": "vision",
}


Told = tuple[tuple[str, dict[str, str], float], ...]


class Trouble(NamedTuple):
    """Why a query has no answer while all is well, and what is told when it has one: name, labels, growth."""

    reason: str
    told: Told


_HELD: Final = ("trilens_workload_pod_info", _POD, 0.0)
ONLY_IN_TROUBLE: Final[dict[tuple[str, str, int], Trouble]] = {
    ("fleet", "Nodes that lack GPUs", 0): Trouble(
        "all GPUs of the demo report, until one is lost",
        (("trilens_gpu_lost", {"cluster": "c1", "node": "n1"}, 0.0),),
    ),
    ("fleet", "Nodes that are not ready", 0): Trouble(
        "all nodes of the demo are ready",
        (
            (
                "kube_node_status_condition",
                {"cluster": "c1", "node": "n1", "condition": "Ready", "status": "unknown"},
                0.0,
            ),
        ),
    ),
    ("workload", "Containers that wait", 0): Trouble(
        "no container of the demo crashes again and again",
        (
            ("kube_pod_container_status_waiting_reason", {**_CONTAINER, "reason": "CrashLoopBackOff"}, 0.0),
            _HELD,
        ),
    ),
    ("inference", "Requests that fail", 0): Trouble(
        "the demo's servers are vLLM, which counts no failures",
        (
            ("nv_inference_request_success", {**_SERVICE, "model": "m", "version": "1"}, 600.0),
            ("nv_inference_request_failure", {**_SERVICE, "model": "m", "version": "1"}, 60.0),
            _HELD,
        ),
    ),
    ("inference", "Requests that fail", 1): Trouble(
        "no proxy stands before the demo's servers",
        (
            ("vllm:request_success_total", {**_SERVICE, "model_name": "m"}, 600.0),
            ("vllm:num_requests_running", {**_SERVICE, "model_name": "m"}, 0.0),
            (
                "istio_requests_total",
                {**_SERVICE, "reporter": "destination", "response_code": "503"},
                600.0,
            ),
            _HELD,
        ),
    ),
    ("cost", "Spent of the budget", 0): Trouble(
        "the demo has no budgets",
        (("trilens_budget_amount", _BUDGET, 0.0), ("trilens_budget_spent", _BUDGET, 1.0)),
    ),
    ("cost", "Expected by the end of the month", 0): Trouble(
        "the demo has no budgets",
        (("trilens_budget_amount", _BUDGET, 0.0), ("trilens_budget_expected", _BUDGET, 0.0)),
    ),
    ("cost", "GPUs without a price", 0): Trouble(
        "the demo's GPUs have prices",
        (("trilens_cost_unpriced_gpus", {"cluster": "c1", "gpu_model": "H300"}, 0.0),),
    ),
    ("itself", "Days until it is full", 0): Trouble(
        "a demo is not six hours old, and its disk may well have been emptied by others meanwhile",
        (("trilens_disk_free_bytes", _ITSELF, -1e9),),
    ),
    ("itself", "Messages that wait", 0): Trouble(
        "the demo tells nobody",
        (("trilens_notifications_oldest_seconds", {**_ITSELF, "receiver": "pager", "outlet": "x"}, 0.0),),
    ),
    ("itself", "Since the last backup", 0): Trouble(
        "no backup is made of a demo", (("trilens_backup_last_success_timestamp_seconds", _ITSELF, 0.0),)
    ),
}


# Of each board a series whose labels are a choice that somebody may make: one team, one workload, one model.
CHOICES: Final = {
    "fleet": "trilens_gpu_capacity",
    "workload": 'trilens:training_loss:mean{kind!="Job"}',  # those are a sweep's, and soon over
    "cost": "trilens_team_goodput_ratio",
    "inference": "trilens:inference_request_duration:seconds",
    "itself": 'trilens_build_info{job="trilens"}',
}
_ABOUT: Final = {name: _POD[name] for name in ("cluster", "namespace", "kind", "workload")}
_RUNS: Final = ("trilens_workload_phase", {**_ABOUT, "team": "vision", "phase": "running"}, 0.0)
NOT_OF_EACH: Final[dict[tuple[str, str, int], Trouble]] = {
    ("workload", "Alerts about them", 0): Trouble(
        "nothing need be wrong with the one that was chosen",
        (("ALERTS", {**_ABOUT, "alertname": "GpuHot", "alertstate": "firing"}, 0.0), _RUNS),
    ),
    ("workload", "Findings about them", 0): Trouble(
        "the same", (("trilens_finding", {**_ABOUT, "team": "", "finding": "stall"}, 0.0), _RUNS)
    ),
}
TROUBLE: Final = {**ONLY_IN_TROUBLE, **NOT_OF_EACH}


def _key(one: Asked) -> tuple[str, str, int]:
    return one.board, one.panel, one.number


def _one(_selector: str, label: str) -> list[str]:
    return [ONE_OF_EACH[label]]


@pytest.mark.parametrize("key", TROUBLE, ids=lambda key: " ".join(map(str, key)))
def test_a_panel_about_trouble_shows_it(key: tuple[str, str, int]) -> None:
    """Of all, and of the one that has it: with all chosen a label that is asked for in vain is not seen."""
    (expr,) = [one.expr for one in asked() if _key(one) == key]
    source, at_ms = MemorySource(), 7 * _HOUR_MS
    for name, labels, by_hour in TROUBLE[key].told:
        times = range(0, at_ms + 1, _MINUTE_MS)
        start = 1.0 if by_hour >= 0 else 1e11
        samples = [(t_ms, start + by_hour * t_ms / _HOUR_MS) for t_ms in times]
        source.add({"__name__": name, **labels}, samples)
    recorder = Recorder(source)
    for back in (2, 1, 0):  # a rule may build on what one of a later file records
        recorder.evaluate(at_ms - back * _MINUTE_MS)
    for values in (everything, _one):
        variables = chosen(boards()[key[0]], values)
        answer = Engine(source).instant(filled(expr, variables), at_ms, QueryGuard())
        assert len(answer.labels) > 0, variables


def _shown(board: str, panel: str, told: Told) -> list[float]:
    """By its first query, after a day in which this was told all the time."""
    expr = next(one.expr for one in asked() if (one.board, one.panel) == (board, panel))
    source, at_ms = MemorySource(), 24 * _HOUR_MS
    for name, labels, value in told:
        source.add({"__name__": name, **labels}, [(t_ms, value) for t_ms in range(0, at_ms + 1, _MINUTE_MS)])
    query = filled(expr, chosen(boards()[board], everything))
    return list(series(Engine(source).instant(query, at_ms, QueryGuard())).values())


def test_of_two_teams_the_larger_one_counts_more() -> None:
    large, small = {"cluster": "c1", "team": "nlp"}, {"cluster": "c1", "team": "vision"}
    told = (
        ("trilens_cost_gpus", {**large, "bucket": "productive"}, 8.0),
        ("trilens_cost_gpus", {**large, "bucket": "stalled"}, 1.0),
        ("trilens_cost_gpus", {**small, "bucket": "stalled"}, 1.0),
        ("trilens_team_goodput_ratio", large, 0.9),
        ("trilens_team_goodput_ratio", small, 0.0),
    )
    assert _shown("cost", "Goodput, last day", told) == [pytest.approx(0.81)]


def test_a_memory_error_is_counted_once() -> None:
    gpu = {"cluster": "c1", "UUID": "GPU-1"}
    told = tuple(
        ("trilens:ecc_double_bit:total", {**gpu, "counted": counted}, errors)
        for counted, errors in (("volatile", 1.0), ("aggregate", 3.0))
    )
    assert _shown("fleet", "Memory errors and remapped rows", told) == [1]


_PLACE: Final = {"cluster": "c1", "Hostname": "n1", "pci_bus_id": "1b:00", "UUID": "GPU-1"}
_LATER: Final = {**_PLACE, "Hostname": "n2", "UUID": "GPU-2"}
_NEW: Final = {**_PLACE, "Hostname": "n3", "UUID": "GPU-3"}


def test_the_first_xid_of_a_code_is_one() -> None:
    """Whose series begins with it; and the log that an agent reads at its first start is no news."""
    at_ms = 24 * _HOUR_MS
    source = MemorySource()

    def counted(name: str, labels: dict[str, str], *since: tuple[int, float]) -> None:
        """From so many minutes ago on it stood at so many."""
        ends = [minutes for minutes, _ in since[1:]] + [-1]
        for (minutes, value), end in zip(since, ends, strict=True):
            times = range(at_ms - minutes * _MINUTE_MS, at_ms - end * _MINUTE_MS, _MINUTE_MS)
            source.add({"__name__": name, **labels}, [(t_ms, value) for t_ms in times])

    counted("trilens_gpu_xid_any_total", _PLACE, (90, 5.0), (20, 6.0), (10, 7.0))
    counted("trilens_gpu_xid_total", {**_PLACE, "xid": "13"}, (90, 5.0), (10, 6.0))
    counted("trilens_gpu_xid_total", {**_PLACE, "xid": "79"}, (20, 1.0))
    counted("trilens_gpu_xid_any_total", _LATER, (30, 4.0))
    counted("trilens_gpu_xid_total", {**_LATER, "xid": "31"}, (30, 4.0))
    counted("trilens_gpu_xid_any_total", _NEW, (30, 0.0), (10, 2.0))
    counted("trilens_gpu_xid_total", {**_NEW, "xid": "48"}, (10, 2.0))
    query = next(one for one in asked() if one.panel == "Xids in the last hour")
    expr = filled(query.expr, chosen(boards()["fleet"], everything))
    found = series(Engine(source).instant(expr, at_ms, QueryGuard()))
    assert {dict(labels)["xid"]: value for labels, value in found.items()} == {
        "13": 1.0,
        "79": 1.0,
        "48": 2.0,
    }


def test_the_watchdog_is_no_alert_of_its_own() -> None:
    watchdog = {"alertname": "TrilensWatchdog", "layer": "trilens", "severity": "none"}
    told = (("ALERTS", {**watchdog, "alertstate": "firing"}, 1.0),)
    assert _shown("itself", "Own alerts", told) == [0.0]


@contextmanager
def _demo(folder: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "trilens.cli.main", "demo", "--gpus", "64", "--interval", "10s"]
    environ = clean_environment(XDG_CACHE_HOME=str(folder), TMPDIR=str(folder))
    with running([*command, "--listen", address], f"http://{address}/readyz", log=folder / "log", **environ):
        yield f"http://{address}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """TRILENS_SITE names a demo that runs already."""
    if known := os.environ.get("TRILENS_SITE"):
        yield known
        return
    with _demo(tmp_path_factory.mktemp("demo")) as url:
        yield url


class Fleet:
    def __init__(self, site: str) -> None:
        self._client = httpx.Client(base_url=site, timeout=60)

    def values(self, selector: str, label: str) -> list[str]:
        asked_for = {"match[]": selector}
        answer = self._client.get(f"/api/v1/label/{label}/values", params=asked_for)
        return [one for one in answer.raise_for_status().json()["data"] if one]

    def series(self, expr: str) -> list[dict[str, str]]:
        """The labels of what answers."""
        answer = self._client.post("/api/v1/query", data={"query": expr})
        assert answer.status_code == 200, f"{expr}: {answer.text}"
        return [one["metric"] for one in answer.json()["data"]["result"]]

    def choice(self, board: str) -> dict[str, str]:
        """Of its variables, whose own queries offer it."""
        labels = self.series(CHOICES[board])[0]

        def offered(selector: str, label: str) -> list[str]:
            assert labels[label] in self.values(selector, label)
            return [labels[label]]

        return chosen(boards()[board], offered)

    def until_answered(self, queries: Iterable[Asked], variables: dict[str, dict[str, str]]) -> None:
        waiting = list(queries)
        deadline = time.monotonic() + PATIENCE_S
        while waiting := [one for one in waiting if not self.series(filled(one.expr, variables[one.board]))]:
            told = "\n".join(f"{one}: {filled(one.expr, variables[one.board])}" for one in waiting)
            assert time.monotonic() < deadline, f"no answer to\n{told}"
            time.sleep(_LOOK_AGAIN_S)


@pytest.mark.whole
def test_every_query_has_an_answer_on_the_fleet_of_the_demo(site: str) -> None:
    fleet = Fleet(site)
    every = {slug: chosen(board, everything) for slug, board in boards().items()}
    well = [one for one in asked() if _key(one) not in ONLY_IN_TROUBLE]
    fleet.until_answered(well, every)
    # And so has a choice: a label that a query asks for in vain is not seen while the choice is "All".
    of_each = [one for one in well if _key(one) not in NOT_OF_EACH]
    fleet.until_answered(of_each, {slug: fleet.choice(slug) for slug in boards()})
    # Each variable's query finds something within the choice of those before it.
    for board in boards().values():
        chosen(board, fleet.values)
