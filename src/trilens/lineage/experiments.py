"""Experiments: all runs alike, whoever told of them.

A run that reports itself and is tracked as well is one run. It is known to be the same by the tag that the
tracker has, or by what the program said of its tracker; likeness of names proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from trilens.model.tracked_run import RUN_TAG

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.run import RunFacts, RunId
    from trilens.model.tracked_run import TrackedRun


class ReportedRun(NamedTuple):
    """A run that reports itself, with what is worked out of its records."""

    facts: RunFacts
    state: str | None
    ended_ms: int | None = None
    step: int | None = None
    metrics: Mapping[str, float] = {}
    gpu_hours: float | None = None


@dataclass(frozen=True, slots=True)
class ExperimentRun:
    """What a run itself says comes before what its trackers say."""

    reported: ReportedRun | None = None
    tracked: tuple[TrackedRun, ...] = ()
    started_ms: int | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


class Experiment(NamedTuple):
    name: str | None  # None: of runs that name none
    runs: tuple[ExperimentRun, ...]  # the latest first


def experiments(
    reported: Sequence[ReportedRun], tracked: Sequence[TrackedRun], *, by_tag_alone: bool = False
) -> list[Experiment]:
    """Those with the latest run first. `by_tag_alone` takes no program's word for which run of a tracker it
    is, which may be another's: the tag is the tracker's own."""
    of_run = _tracked_of(reported, tracked, by_tag_alone=by_tag_alone)
    joined = {id(one) for found in of_run.values() for one in found}
    grouped: defaultdict[str | None, list[ExperimentRun]] = defaultdict(list)
    for run in reported:
        found = of_run.get(run.facts.run, [])
        name = run.facts.experiment or next((one.experiment for one in found if one.experiment), None)
        grouped[name].append(_run(run, found))
    for one in tracked:
        if id(one) not in joined:
            grouped[one.experiment].append(_run(None, [one]))
    ordered = [Experiment(name, tuple(sorted(runs, key=_latest_first))) for name, runs in grouped.items()]
    return sorted(ordered, key=lambda experiment: _latest_first(experiment.runs[0]))


def _tracked_of(
    reported: Sequence[ReportedRun], tracked: Iterable[TrackedRun], *, by_tag_alone: bool
) -> dict[RunId, list[TrackedRun]]:
    by_id = {str(run.facts.run): run.facts.run for run in reported}
    told = () if by_tag_alone else reported
    by_tracker = {
        (tracker.system, tracker.run): run.facts.run for run in told for tracker in run.facts.trackers
    }
    found: defaultdict[RunId, list[TrackedRun]] = defaultdict(list)
    for one in tracked:
        run = by_id.get(one.tags.get(RUN_TAG, "")) or by_tracker.get((one.tracker.system, one.tracker.run))
        if run is not None:
            found[run].append(one)
    return found


def _run(reported: ReportedRun | None, tracked: Sequence[TrackedRun]) -> ExperimentRun:
    starts = [one.started_ms for one in tracked if one.started_ms is not None]
    params: dict[str, str] = {}
    metrics: dict[str, float] = {}
    for one in tracked:
        params |= one.params
        metrics |= one.metrics
    if reported is not None:
        starts.append(reported.facts.created_ms)
        params |= {name: str(value) for name, value in reported.facts.config.items()}
        metrics |= reported.metrics
    return ExperimentRun(reported, tuple(tracked), min(starts, default=None), params, metrics)


def _latest_first(run: ExperimentRun) -> tuple[bool, int]:
    return run.started_ms is None, -(run.started_ms or 0)
