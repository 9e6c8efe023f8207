"""A run as an experiment tracker knows it: MLflow, Weights & Biases, TensorBoard."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.model.run import Tracker

OURS = "trilens."  # how names begin that Trilens writes to a tracker
RUN_TAG = "trilens.run"  # what a run in a tracker is tagged with, to name the same run here


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """(system, where, run) names it. None is "the tracker does not say"."""

    tracker: Tracker
    experiment: str | None = None
    name: str | None = None
    state: str | None = None  # running, finished, failed, killed
    started_ms: int | None = None
    ended_ms: int | None = None
    user: str | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)  # the last value of each
    step: int | None = None  # the highest of any metric
    url: str | None = None  # its page, for people


class MetricPoint(NamedTuple):
    metric: str
    t_ms: int
    value: float
    step: int | None = None


class TrackerChange(NamedTuple):
    """What is new of a run. `cursor` is where to go on, once the rest of this is kept."""

    run: TrackedRun
    points: tuple[MetricPoint, ...]
    cursor: str
