"""W&B's server, over the GraphQL API that its own Python package uses: runs and their history are read, and
figures go to a run's summary."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from trilens.collect.trackers.passed_over import PassedOver
from trilens.collect.trackers.wandb_files import SYSTEM
from trilens.collect.trackers.wandb_values import number, step_of
from trilens.model.errors import TrackerAway, TrackerError
from trilens.model.run import Tracker
from trilens.model.tracked_run import OURS, MetricPoint, TrackedRun, TrackerChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.collect.trackers.json_api import JsonApi

_PAGE: Final = 50
_ROWS: Final = 1_000  # of a run's history in one answer; of more, W&B gives a sample
_MALFORMED: Final = (AttributeError, LookupError, TypeError, ValueError)  # what no W&B would have said
_STATES: Final = {"running": "running", "finished": "finished", "failed": "failed"}
_STATES_DEAD: Final = ("crashed", "killed")
_RUNS: Final = """
query Runs($entity: String!, $project: String!, $cursor: String, $perPage: Int!) {
  project(name: $project, entityName: $entity) {
    runs(after: $cursor, first: $perPage, order: "+created_at") {
      edges {
        node {
          id name displayName state config summaryMetrics tags createdAt heartbeatAt
          user { username }
        }
      }
      pageInfo { endCursor hasNextPage }
    }
  }
}"""
_HISTORY: Final = """
query HistoryPage(
  $entity: String!, $project: String!, $run: String!, $minStep: Int64!, $maxStep: Int64!, $pageSize: Int!
) {
  project(name: $project, entityName: $entity) {
    run(name: $run) { history(minStep: $minStep, maxStep: $maxStep, samples: $pageSize) }
  }
}"""
_SUMMARY: Final = """
query Summary($entity: String!, $project: String!, $run: String!) {
  project(name: $project, entityName: $entity) { run(name: $run) { id summaryMetrics } }
}"""
_WRITE: Final = """
mutation UpsertBucket($id: String, $summaryMetrics: JSONString) {
  upsertBucket(input: {id: $id, summaryMetrics: $summaryMetrics}) { bucket { id } }
}"""


class WandbProject:
    """One project, `entity/project`."""

    system = SYSTEM
    in_pieces = False

    def __init__(self, api: JsonApi, project: str) -> None:
        self._api = api
        entity, _, name = project.partition("/")
        self._named = {"entity": entity, "project": name}
        self.where = f"{api.where}/{project}"
        self._passed_over = PassedOver("a run of W&B")

    def changes(self, cursors: Mapping[str, str]) -> Iterator[TrackerChange]:
        """`cursors` says the next step to be read of each run, and its state then."""
        for node in self._runs():
            run = str(node["name"])
            step, _, state = cursors.get(run, "0").partition(" ")
            if state and state != "running" and state == node.get("state"):
                continue  # it was over when it was last read through
            try:
                yield from self._run(node, run, int(step))
            except TrackerAway:
                raise
            except (TrackerError, *_MALFORMED) as e:
                self._passed_over.say(run, e)
            else:
                self._passed_over.was_read(run)

    def write(self, run: str, figures: Mapping[str, float | str | None]) -> None:
        """Adds to the summary, or takes out of it where None, which is sent as a whole: only for a run that
        no program writes any more. What it says already is not written again."""
        found = self._project(_SUMMARY, {"run": run}).get("run")
        if not found:
            raise TrackerError(f"{self.where} has no run {run}")
        before = _decoded(found.get("summaryMetrics"))
        summary = {
            name: value
            for name, value in {**before, **figures}.items()
            if value is not None or name not in figures
        }
        if summary != before:
            self._ask(_WRITE, {"id": found["id"], "summaryMetrics": json.dumps(summary)})

    def _runs(self) -> Iterator[dict[str, Any]]:
        cursor: str | None = None
        while True:
            page = self._project(_RUNS, {"cursor": cursor, "perPage": _PAGE}).get("runs") or {}
            yield from (edge["node"] for edge in page.get("edges", ()))
            if not page.get("pageInfo", {}).get("hasNextPage"):
                return
            cursor = page["pageInfo"]["endCursor"]

    def _run(self, node: Mapping[str, Any], run: str, step: int) -> Iterator[TrackerChange]:
        tracked = self._tracked(node, run)
        last = tracked.step if tracked.step is not None else -1
        width = _ROWS
        while step <= last:
            asked = {"run": run, "minStep": step, "maxStep": step + width, "pageSize": _ROWS}
            lines = (self._project(_HISTORY, asked).get("run") or {}).get("history") or ()
            if len(lines) >= _ROWS and width > _ROWS:
                width = max(_ROWS, width // 8)  # maybe only a sample of them
                continue
            points = tuple(point for line in lines for point in _points(_decoded(line)))
            step += width
            yield TrackerChange(tracked, points, f"{min(step, last + 1)} reading")
            if len(lines) < _ROWS // 4:  # steps that are counted in tokens are far between
                width *= 4
        yield TrackerChange(tracked, (), f"{last + 1} {node.get('state')}")

    def _tracked(self, node: Mapping[str, Any], run: str) -> TrackedRun:
        config = {key: value for key, value in _decoded(node.get("config")).items() if key != "_wandb"}
        summary = _decoded(node.get("summaryMetrics"))
        state = str(node.get("state"))
        is_over = state != "running"
        return TrackedRun(
            Tracker(SYSTEM, run, self.where),
            experiment=self._named["project"],
            name=node.get("displayName"),
            state="killed" if state in _STATES_DEAD else _STATES.get(state),
            started_ms=_ms(node.get("createdAt")),
            ended_ms=_ms(node.get("heartbeatAt")) if is_over else None,
            user=(node.get("user") or {}).get("username"),
            params={key: _plain(value) for key, value in config.items()},
            tags={**dict.fromkeys(node.get("tags") or (), ""), **_written(summary)},
            metrics=dict(_numbers(summary)),
            step=step_of(summary.get("_step")),
            url=f"{self.where}/runs/{run}",
        )

    def _project(self, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        found = self._ask(query, {**self._named, **variables}).get("project")
        if not isinstance(found, dict):
            raise TrackerError(f"there is no project {self.where}, or the key may not see it")
        return found

    def _ask(self, query: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._api.post("/graphql", {"query": query, "variables": dict(variables)})
        if errors := answer.get("errors"):
            raise TrackerError(f"{self.where} refused: {errors[0].get('message', errors[0])}")
        data: dict[str, Any] = answer.get("data") or {}
        return data


def _points(row: Mapping[str, Any]) -> Iterator[MetricPoint]:
    seconds = number(row.get("_timestamp"))
    if seconds is not None and math.isfinite(seconds):
        for name, value in _numbers(row):
            yield MetricPoint(name, round(seconds * 1000), value, step_of(row.get("_step")))


def _numbers(row: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for name, value in row.items():
        told = number(value)
        if told is not None and not name.startswith("_"):
            yield name, told


def _written(summary: Mapping[str, Any]) -> dict[str, str]:
    """Texts that Trilens wrote: W&B's own tags have no values."""
    return {
        name: value for name, value in summary.items() if name.startswith(OURS) and isinstance(value, str)
    }


def _decoded(text: object) -> dict[str, Any]:
    """W&B sends objects as text."""
    try:
        found = json.loads(text) if isinstance(text, str) else text
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _plain(value: object) -> str:
    """A config's value, which the server wraps with a description."""
    if isinstance(value, dict) and "value" in value:
        value = value["value"]
    return value if isinstance(value, str) else json.dumps(value)


def _ms(text: object) -> int | None:
    """Times are in UTC, with or without saying so."""
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
