"""Trackers that are followed, over a store: what is kept over restarts, and what /api/experiments shows."""

from __future__ import annotations

import time
import uuid
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from trilens.model.errors import ConfigError, TrackerError
from trilens.model.run import RankProcess, RunFacts, RunId, Tracker, WriterId
from trilens.model.run_commit import RunCommit
from trilens.model.tracked_run import MetricPoint, TrackedRun, TrackerChange
from trilens.serve.openapi import document
from trilens.serve.trackers import Following, stop_all
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(StoreOptions(data_dir=tmp_path_factory.mktemp("store")), upkeep=False)
    yield opened
    opened.close()


class Told:
    """A tracker that tells what it is given, a run's cursor being how often it was told of."""

    system = "tensorboard"
    in_pieces = True

    def __init__(self, where: str, *changes: TrackerChange | Exception) -> None:
        self.where = where
        self._changes = changes

    def tell(self, *changes: TrackerChange) -> None:
        """From the next pass on, in place of what was told."""
        self._changes = changes

    def changes(self, cursors: Mapping[str, str]) -> Iterator[TrackerChange]:
        for change in self._changes:
            if isinstance(change, Exception):
                raise change
            yield change


class Figures:
    def __init__(self, *, is_last: bool = True, error: TrackerError | None = None) -> None:
        self.asked: list[str] = []
        self._is_last = is_last
        self._error = error

    def write(self, run: TrackedRun) -> bool:
        self.asked.append(run.tracker.run)
        if self._error is not None:
            raise self._error
        return self._is_last


def piece(where: str, run: str, started_ms: int, **metrics: float) -> TrackerChange:
    tracked = TrackedRun(
        Tracker("tensorboard", run, where), experiment=f"of {where}", started_ms=started_ms, metrics=metrics
    )
    points = [MetricPoint(name, started_ms, value) for name, value in metrics.items()]
    return TrackerChange(tracked, tuple(points), "{}")


class Clock:
    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s


def following(
    store: Store, reader: Told, figures: Figures | None = None, clock: Callable[[], float] = time.monotonic
) -> Following:
    return Following(
        reader, timedelta(hours=1), store.tracked_runs, store, timedelta(days=15), figures, clock
    )


def one_pass(store: Store, followed: Following, figures: Figures | None = None) -> None:
    """With all that a start and a stop of the server are: what was told is on disk then. Figures are written
    after all was read, unless it stops before."""
    followed.start()
    eventually(lambda: followed.status.passed_ms is not None and (figures is None or bool(figures.asked)))
    stop_all([followed])
    on_disk(store, followed)


def on_disk(store: Store, followed: Following) -> None:
    told, mark = followed.status.where, uuid.uuid4().hex
    store.tracked_runs.run(TrackedRun(Tracker("mark", mark, told)), "")
    eventually(lambda: mark in store.tracked_runs.cursors("mark", told))


def eventually(holds: Callable[[], bool]) -> None:
    """A thread that gives no event to wait for."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_run_that_is_told_in_pieces_is_whole_after_a_restart(store: Store) -> None:
    told = Told("pieces", piece("pieces", "a", NOW_MS - 9_000, loss=3.0, acc=0.1))
    one_pass(store, following(store, told))
    one_pass(store, following(store, Told("pieces", piece("pieces", "a", NOW_MS - 1_000, loss=2.0))))
    [run] = store.tracked_runs.runs(system="tensorboard", where="pieces")
    assert run.started_ms == NOW_MS - 9_000
    assert run.metrics == {"loss": 2.0, "acc": 0.1}


@pytest.mark.parametrize(("after_s", "acc"), [(86_399, 0.1), (86_401, 0.5)])
def test_a_run_that_goes_on_after_a_day_is_whole_as_the_store_has_it(
    store: Store, after_s: int, acc: float
) -> None:
    """It was not held meanwhile: there may be as many as were ever logged."""
    where, clock = f"after {after_s}", Clock()
    reader = Told(where, piece(where, "a", NOW_MS - 9_000, loss=3.0, acc=0.1))
    followed = following(store, reader, clock=clock)
    followed.read_once()
    on_disk(store, followed)
    [kept] = store.tracked_runs.runs(system="tensorboard", where=where)
    store.tracked_runs.run(replace(kept, metrics={"loss": 3.0, "acc": 0.5}), "{}")
    on_disk(store, followed)
    clock.s += after_s
    reader.tell()
    followed.read_once()
    reader.tell(piece(where, "a", NOW_MS - 1_000, loss=2.0))
    followed.read_once()
    on_disk(store, followed)
    [run] = store.tracked_runs.runs(system="tensorboard", where=where)
    assert run.metrics == {"loss": 2.0, "acc": acc}
    assert run.started_ms == NOW_MS - 9_000


def test_runs_that_changed_are_counted_once_as_far_as_they_are_known(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.serve.trackers._COUNTED_ONCE", 2)
    changes = [piece("counted", run, NOW_MS, loss=1.0) for run in "abacab"]
    followed = following(store, Told("counted", *changes))
    followed.read_once()
    assert followed.status.runs == 4  # b was the one that had not changed for longest when c came


def test_figures_that_were_not_taken_are_tried_again_after_a_restart_and_then_no_more(store: Store) -> None:
    change = piece("written", "a", NOW_MS, loss=1.0)
    away = Figures(error=TrackerError("gone"))
    refused = following(store, Told("written", change), away)
    one_pass(store, refused, away)
    assert refused.status.refused == "gone"
    taken = Figures()
    again = following(store, Told("written"), taken)
    one_pass(store, again, taken)
    assert taken.asked == ["a"]


@pytest.mark.parametrize("error", [TrackerError("away"), ConfigError("no file with the key"), KeyError("x")])
def test_what_is_wrong_is_the_status(store: Store, error: Exception) -> None:
    followed = following(store, Told("trouble", error))
    followed.start()
    eventually(lambda: followed.status.trouble is not None)
    assert followed.status.trouble in (str(error), "a defect; the server's log says more")
    stop_all([followed])


@pytest.fixture(scope="module")
def url(store: Store) -> Iterator[str]:
    run = RunId("r-1")
    process = RankProcess(
        run, 0, WriterId("w"), NOW_MS - 3_600_000, gpus=("GPU-1", "GPU-2"), ended_ms=NOW_MS, heard_ms=NOW_MS
    )
    facts = RunFacts(run, NOW_MS, experiment="shown", trackers=(Tracker("tensorboard", "joined", ""),))
    store.runs.commit(RunCommit(facts=[facts], processes=[process]))
    told = [
        piece("api", "joined", NOW_MS, loss=float("nan")),
        *(piece("api", f"other-{number}", NOW_MS - 10_000 - number) for number in range(3)),
    ]
    followed = following(store, Told("api", *told))
    one_pass(store, followed)
    with running(Api(runs=store.runs, tracked=store.tracked_runs, followed=[followed]).build()) as base:
        yield base


def ask(url: str, path: str, **params: object) -> Any:
    answer = httpx.get(f"{url}{path}", params={name: str(value) for name, value in params.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_run_that_a_tracker_knows_too_is_shown_once(url: str) -> None:
    [shown] = ask(url, "/api/experiments", experiment="shown")["data"]
    [run] = shown["runs"]
    assert (run["run"], run["gpu_hours"], run["metrics"]) == ("r-1", 2.0, {"loss": "nan"})
    assert [one["run"] for one in run["trackers"]] == ["joined"]


def test_an_experiment_beyond_the_latest_runs_is_found_by_name(url: str) -> None:
    cut = ask(url, "/api/experiments", limit=1)
    assert "only the latest 1 runs" in cut["warnings"][0]
    assert "of api" not in [one["experiment"] for one in cut["data"]]
    [found] = ask(url, "/api/experiments", limit=4, experiment="of api")["data"]
    assert [run["trackers"][0]["run"] for run in found["runs"]] == ["other-0", "other-1", "other-2"]
    assert "warnings" not in ask(url, "/api/experiments")


def test_the_schema_is_that_of_the_answers(url: str) -> None:
    schema = document()
    types = schema["components"]["schemas"]
    for path, kind in (("/api/experiments", "ExperimentAnswer"), ("/api/trackers", "TrackerAnswer")):
        operation = schema["paths"][path]["get"]
        answer = operation["responses"]["200"]["content"]["application/json"]["schema"]
        assert answer["properties"]["data"]["items"]["$ref"].endswith(f"/{kind}")
        found = ask(url, path)["data"]
        assert found
        for one in found:
            _check(one, types[kind], types)


def _check(value: Any, schema: dict[str, Any], types: dict[str, Any]) -> None:
    """Every field is in the schema, and every required one is there; as far as objects and lists go."""
    if "$ref" in schema:
        schema = types[schema["$ref"].rpartition("/")[2]]
    if isinstance(value, list):
        for one in value:
            _check(one, schema["items"], types)
    elif isinstance(value, dict) and "properties" in schema:
        assert set(value) == set(schema["required"]) == set(schema["properties"])
        for name, one in value.items():
            _check(one, schema["properties"][name], types)
