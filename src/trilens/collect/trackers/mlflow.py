"""MLflow, over its REST API: runs, params, tags and metrics are read; figures are written back.

MLflow does not tell what changed since a moment. So each pass asks for the runs that run, and for those that
began or ended since the last one; of these only metrics whose last point is another than before are read,
from the page of their history on at which the last pass ended.

Where there is nothing, MLflow answers `{}`, and so may a proxy that answers for it. So what a pass has read
is marked for each experiment that it was told of: one that appears later is read from its beginning.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeGuard

from trilens.collect.trackers.passed_over import PassedOver
from trilens.model.errors import TrackerAway, TrackerError
from trilens.model.run import Tracker
from trilens.model.tracked_run import OURS, MetricPoint, TrackedRun, TrackerChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.collect.trackers.json_api import JsonApi

log = logging.getLogger(__name__)

SYSTEM: Final = "mlflow"
_API: Final = "/api/2.0/mlflow"
_RUNS: Final = 200  # a page
_POINTS: Final = 5_000  # likewise
_OVERLAP_MS: Final = 60_000  # clocks differ, and a run is told as ended a moment later
_STATES: Final = {
    "RUNNING": "running",
    "SCHEDULED": "scheduled",
    "FINISHED": "finished",
    "FAILED": "failed",
    "KILLED": "killed",
}
_NEXT: Final = "next_page_token"
_LONGEST_TAG: Final = 5_000  # characters, as MLflow's own limit
_MALFORMED: Final = (AttributeError, LookupError, TypeError, ValueError)  # what no MLflow would have said


class _Place(NamedTuple):
    """How far a metric's history was read: the page, how much of it, and the point that was the last then."""

    token: str = ""
    taken: int = 0
    last: str | None = None


class MlflowServer:
    system = SYSTEM
    in_pieces = False

    def __init__(self, api: JsonApi, experiments: Sequence[str] = ()) -> None:
        """Only these experiments, by name, where any is named."""
        self._api = api
        self._wanted = frozenset(experiments)
        self.where = api.where
        self._since_ms: dict[str, int] = {}  # by experiment, once all of its runs were seen
        self._missing: frozenset[str] = frozenset()
        self._again: set[str] = set()  # runs that could not be read, and may not be among those that changed
        self._passed_over = PassedOver("a run of MLflow")

    def changes(self, cursors: Mapping[str, str]) -> Iterator[TrackerChange]:
        began_ms = time.time_ns() // 1_000_000
        experiments = self._experiments()
        missing = self._wanted - set(experiments.values())
        if missing - self._missing:
            log.info("MLflow has no such experiment yet", extra={"experiments": sorted(missing)})
        self._missing = missing
        for run in self._changed(experiments):
            try:
                yield from self._run(run, experiments, cursors.get(_id(run)))
            except TrackerAway:
                raise
            except (TrackerError, *_MALFORMED) as e:  # deleted while it was read, most of the time
                self._again.add(_id(run))
                self._passed_over.say(_id(run), e)
            else:
                self._again.discard(_id(run))
                self._passed_over.was_read(_id(run))
        self._since_ms |= dict.fromkeys(experiments, began_ms - _OVERLAP_MS)

    def write(self, run: str, tags: Mapping[str, str], metrics: Mapping[str, float], t_ms: int) -> None:
        """Set again, a tag replaces what it was. A metric is a new point of its history."""
        self._api.post(
            f"{_API}/runs/log-batch",
            {
                "run_id": run,
                "tags": [{"key": key, "value": value[:_LONGEST_TAG]} for key, value in tags.items()],
                "metrics": [
                    {
                        "key": key,
                        "value": "NaN" if math.isnan(value) else value,  # JSON has no such number
                        "timestamp": t_ms,
                        "step": 0,
                    }
                    for key, value in metrics.items()
                ],
            },
        )

    def _experiments(self) -> dict[str, str]:
        """Names by id."""
        found: dict[str, str] = {}
        token = ""
        while True:
            page = {"max_results": 1000, **({"page_token": token} if token else {})}
            answer = self._api.post(f"{_API}/experiments/search", page)
            for one in _listed(answer, "experiments"):
                if not self._wanted or one.get("name") in self._wanted:
                    found[str(one["experiment_id"])] = str(one.get("name", ""))
            token = answer.get(_NEXT, "")
            if not token:
                return found

    def _changed(self, experiments: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        if not experiments:
            return
        read_alike: dict[int | None, list[str]] = {}
        for experiment in experiments:
            read_alike.setdefault(self._since_ms.get(experiment), []).append(experiment)
        seen: set[str] = set()
        for run in self._once_more():
            seen.add(_id(run))
            yield run
        for since_ms, some in read_alike.items():
            for condition in _changed_since(since_ms):
                for run in self._search(some, condition):
                    if _id(run) not in seen:
                        seen.add(_id(run))
                        yield run

    def _once_more(self) -> Iterator[dict[str, Any]]:
        for run in sorted(self._again):
            try:
                found = self._api.get(f"{_API}/runs/get", {"run_id": run}).get("run")
            except TrackerAway:
                raise
            except TrackerError:
                self._again.discard(run)
                continue
            if not _is_object(found) or not _is_object(found.get("info")):
                continue  # MLflow tells of a run, or refuses
            if found["info"].get("lifecycle_stage") == "active":
                yield found
            else:
                self._again.discard(run)

    def _search(self, experiments: list[str], condition: str) -> Iterator[dict[str, Any]]:
        token = ""
        while True:
            asked = {
                "experiment_ids": experiments,
                "filter": condition,
                "run_view_type": "ACTIVE_ONLY",
                "max_results": _RUNS,
                "order_by": ["attributes.start_time ASC"],
                **({"page_token": token} if token else {}),
            }
            answer = self._api.post(f"{_API}/runs/search", asked)
            yield from _listed(answer, "runs")
            token = answer.get(_NEXT, "")
            if not token:
                return

    def _run(
        self, run: Mapping[str, Any], experiments: Mapping[str, str], cursor: str | None
    ) -> Iterator[TrackerChange]:
        tracked = self._tracked(run, experiments)
        reached: dict[str, Any] = json.loads(cursor) if cursor else {}
        told = _facts_digest(tracked)
        kept = reached.get("")
        for metric in _logged(run.get("data", {})):
            key = str(metric["key"])
            before = _Place(*reached[key]) if key in reached else _Place()
            if before.last == _stamp(metric):
                continue
            for points, place in self._history(_id(run), key, before, _stamp(metric)):
                reached[key] = place
                kept = reached[""] = told
                yield TrackerChange(tracked, tuple(points), json.dumps(reached))
        if kept != told:
            yield TrackerChange(tracked, (), json.dumps({**reached, "": told}))

    def _history(
        self, run: str, key: str, place: _Place, last: str
    ) -> Iterator[tuple[list[MetricPoint], _Place]]:
        """A page at a time. A server that knows no pages gives all at once: what was taken is passed over."""
        while True:
            asked: dict[str, str | int] = {"run_id": run, "metric_key": key, "max_results": _POINTS}
            if place.token:
                asked["page_token"] = place.token
            answer = self._api.get(f"{_API}/metrics/get-history", asked)
            found = _listed(answer, "metrics")
            points = [_point(key, one) for one in found[place.taken :]]
            following = answer.get(_NEXT, "")
            place = _Place(following) if following else _Place(place.token, len(found), last)
            yield points, place
            if not following:
                return

    def _tracked(self, run: Mapping[str, Any], experiments: Mapping[str, str]) -> TrackedRun:
        info, data = run.get("info", {}), run.get("data", {})
        tags = {str(tag["key"]): str(tag.get("value", "")) for tag in data.get("tags", ())}
        metrics = _logged(data)
        experiment_id = str(info.get("experiment_id", ""))
        return TrackedRun(
            Tracker(SYSTEM, _id(run), self.where),
            experiment=experiments.get(experiment_id),
            name=info.get("run_name") or tags.get("mlflow.runName"),
            state=_STATES.get(str(info.get("status"))),
            started_ms=_whole(info.get("start_time")),
            ended_ms=_whole(info.get("end_time")),
            user=info.get("user_id") or tags.get("mlflow.user"),
            params={str(param["key"]): str(param.get("value", "")) for param in data.get("params", ())},
            tags=tags,
            metrics={str(one["key"]): _number(one.get("value")) for one in metrics},
            step=max((_whole(one.get("step")) or 0 for one in metrics), default=None),
            url=f"{self.where}/#/experiments/{experiment_id}/runs/{_id(run)}",
        )


def _changed_since(since_ms: int | None) -> list[str]:
    if since_ms is None:
        return [""]
    return [
        "attributes.status = 'RUNNING'",
        f"attributes.start_time >= {since_ms}",
        f"attributes.end_time >= {since_ms}",
    ]


def _listed(answer: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """MLflow leaves a list out that is empty. What says other things instead does not speak for it."""
    found = answer.get(name, [])
    if (answer and name not in answer and _NEXT not in answer) or not _is_list_of_objects(found):
        raise TrackerError(f"an answer of MLflow was to have {name}, and has {', '.join([*answer][:5])}")
    return found


def _is_list_of_objects(found: object) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(found, list) and all(map(_is_object, found))


def _is_object(found: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(found, dict)


def _facts_digest(run: TrackedRun) -> str:
    """Changes when anything but metrics did."""
    told = json.dumps([run.name, run.state, run.ended_ms, sorted(run.params), sorted(run.tags.items())])
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def _logged(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The last point of each metric, without what was written back."""
    return [metric for metric in data.get("metrics", ()) if not str(metric["key"]).startswith(OURS)]


def _stamp(metric: Mapping[str, Any]) -> str:
    return f"{metric.get('timestamp')}/{metric.get('step')}/{metric.get('value')}"


def _point(key: str, told: Mapping[str, Any]) -> MetricPoint:
    return MetricPoint(
        key, _whole(told.get("timestamp")) or 0, _number(told.get("value")), _whole(told.get("step"))
    )


def _number(value: object) -> float:
    """MLflow writes what JSON has no number for as text."""
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _whole(value: object) -> int | None:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError, OverflowError):
        return None


def _id(run: Mapping[str, Any]) -> str:
    info = run.get("info", {})
    return str(info.get("run_id") or info.get("run_uuid"))
