"""What the pages of the web app ask for, as web/src/pages does, of the span that they show at first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_HOUR_S: Final = 3_600
_SPAN_S: Final = 12 * _HOUR_S
_DRAWN: Final = 'trilens:workload_gpu_utilization:ratio{over="mean"}'  # the first example of the page
_LISTED: Final = "avg by (modelName) (DCGM_FI_DEV_GPU_UTIL)"


class Question(NamedTuple):
    page: str
    path: str
    params: Mapping[str, Any] = {}

    @property
    def shown(self) -> str:
        """Workloads and GPUs of a simulation have names that tell nothing."""
        parts = self.path.split("/")
        if self.path.startswith("/api/gpus/"):
            return "/api/gpus/…/life"
        if self.path.startswith("/api/workloads/"):
            return "/".join([*parts[:3], "…", *parts[7:]])
        return "/api/runs/…/checkpoints" if self.path.startswith("/api/runs/") else self.path


class Subjects(NamedTuple):
    workload: str  # cluster/namespace/kind/name
    run: str
    experiment: str
    gpu: str


def questions(now_s: float, about: Subjects) -> Iterator[Question]:
    """At this moment: live spans end with it, hours are whole."""
    end_s = -(-now_s // _HOUR_S) * _HOUR_S
    hours = {"from": end_s - _SPAN_S, "to": end_s}
    since = {"from": now_s - _SPAN_S}
    span = {**since, "to": now_s}
    workload = f"/api/workloads/{quote(about.workload)}"
    yield Question("Now", "/api/now", hours)
    yield Question("Workloads", "/api/workload-table", {"state": "running"})
    yield Question("Workloads, with those that went", "/api/workload-table", {"state": "all"})
    yield Question("A workload", workload, {"limit": 200})
    yield Question("A workload, its runs", "/api/runs", {"workload": about.workload, "limit": 5})
    yield Question("A workload, over time", f"{workload}/timeline", {**since, "points": 360})
    yield Question("A workload, by rank", f"{workload}/ranks", {**since, "columns": 180, "rows": 256})
    yield Question("A workload, one rank", f"{workload}/timeline", {**since, "points": 360, "rank": 7})
    yield Question("A workload, checkpoints", f"/api/runs/{quote(about.run)}/checkpoints")
    yield Question("Fleet", "/api/fleet")
    yield Question("A GPU's life", f"/api/gpus/{about.gpu}/life", span)
    yield Question("Money", "/api/cost", {**hours, "by": ["team", "bucket"]})
    yield Question("Money, over time", "/api/cost", {**hours, "by": ["hour", "bucket"], "compare": "false"})
    yield Question("Money, budgets", "/api/cost/now", {"by": "team"})
    yield Question("Money, for nothing", "/api/cost/why", hours)
    yield Question("Money, what a step cost", "/api/cost/units", {**hours, "per": "step"})
    yield Question("Experiments", "/api/experiments")
    yield Question("Experiments, one", "/api/experiments", {"experiment": about.experiment})
    yield Question("Experiments, courses", "/api/experiments/courses", {"experiment": about.experiment})
    yield Question("Services", "/api/services")
    yield Question("Incidents", "/api/incidents", span)
    yield Question("Incidents, alerts", "/api/v1/alerts")
    yield Question("Incidents, rules", "/api/v1/rules", {"type": "alert", "exclude_alerts": "true"})
    yield Question("Explore, graph", "/api/v1/query_range", {**_graph(now_s), "query": _DRAWN, "limit": 100})
    yield Question("Explore, table", "/api/v1/query", {"query": _LISTED, "time": now_s, "limit": 1000})
    yield Question("Explore, names", "/api/v1/label/__name__/values")
    yield Question("Doctor", "/api/doctor")


def _graph(now_s: float) -> dict[str, float]:
    return {"start": now_s - _SPAN_S, "end": now_s, "step": 120}
