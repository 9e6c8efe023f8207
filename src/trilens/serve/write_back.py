"""Figures go to the run in its tracker: when that is, and how each kind of tracker takes them.

Only what changed is written, so that a restart of the server or a second one writes nothing twice.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.model.tracked_run import OURS
from trilens.serve.run_verdicts import OF_VERDICT
from trilens.serve.tracker_figures import COST, LOOKED_AFTER_MS, OF_LEDGER, PROVISIONAL, SOON_S

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.collect.trackers.mlflow import MlflowServer
    from trilens.collect.trackers.wandb_api import WandbProject
    from trilens.model.tracked_run import TrackedRun
    from trilens.serve.tracker_figures import Figure, Known

    Figures = Mapping[str, Figure | None]  # None is "not known any more"

_UNKNOWN: Final = "unknown"  # in place of what was written, and is not known any more


class TakesFigures(Protocol):
    def stands(self, run: TrackedRun) -> Mapping[str, Figure]:
        """What the run had when it was last read."""

    def takes(self, run: TrackedRun) -> bool: ...

    def send(self, run: TrackedRun, figures: Figures) -> None: ...


class WriteBack:
    """Writes what changed, at the end at once, before and after that now and then."""

    def __init__(self, known: Callable[[TrackedRun], Known | None], tracker: TakesFigures) -> None:
        self._known = known
        self._tracker = tracker
        self._written: dict[str, _Written] = {}

    def write(self, run: TrackedRun) -> bool:
        """Whether that was the last: the run is over, and nothing of it will change."""
        name, before = run.tracker.run, self._written.get(run.tracker.run)
        is_over = run.state not in ("running", "scheduled")
        if before is not None and is_over == before.is_over and time.monotonic() < before.next_s:
            return False
        stands = before.figures if before is not None else self._tracker.stands(run)
        if before is None and is_over and _is_long_ago(run) and _is_settled(stands):
            return True  # else a restart would work out the cost of every run there ever was
        known = self._known(run)
        if known is not None and self._tracker.takes(run):
            changed = {name: value for name, value in known.figures.items() if stands.get(name) != value}
            kept = {name: stands[name] for name in known.unasked if name in stands}
            still = {*known.figures, *kept}
            gone = [name for name in (*OF_LEDGER, *OF_VERDICT) if name in stands and name not in still]
            if changed or gone:
                self._tracker.send(run, {**known.figures, **dict.fromkeys(gone)})
                stands = {**known.figures, **kept}
        if is_over and (_is_long_ago(run) if known is None else known.again_s is None):
            self._written.pop(name, None)
            return True
        again_s = known.again_s if known is not None and known.again_s is not None else SOON_S
        self._written[name] = _Written(time.monotonic() + again_s, is_over, stands)
        return False


class _Written(NamedTuple):
    next_s: float
    is_over: bool
    figures: Mapping[str, Figure]


def _is_settled(stands: Mapping[str, Figure]) -> bool:
    return COST in stands and stands.get(PROVISIONAL) == "false"


def _is_long_ago(run: TrackedRun) -> bool:
    """Its program's records may come late, from a spool."""
    return run.ended_ms is not None and run.ended_ms < time.time_ns() // 1_000_000 - LOOKED_AFTER_MS


class ToMlflow:
    """As tags, which stand on the run's page, and numbers as metrics too, by which runs are sorted and
    compared. A metric cannot be taken back: it is written as not a number."""

    def __init__(self, server: MlflowServer) -> None:
        self._server = server

    def stands(self, run: TrackedRun) -> Mapping[str, Figure]:
        return {name: _read(text) for name, text in run.tags.items() if _is_ours(name) and text != _UNKNOWN}

    def takes(self, run: TrackedRun) -> bool:
        return True

    def send(self, run: TrackedRun, figures: Figures) -> None:
        tags = {name: _text(value) for name, value in figures.items()}
        numbers = {
            name: float("nan") if value is None else value
            for name, value in figures.items()
            if not isinstance(value, str)
        }
        self._server.write(run.tracker.run, tags, numbers, time.time_ns() // 1_000_000)


class ToWandb:
    """Only at the end: a summary is written as a whole, and while a program runs it writes its own."""

    def __init__(self, project: WandbProject) -> None:
        self._project = project

    def stands(self, run: TrackedRun) -> Mapping[str, Figure]:
        texts = {name: text for name, text in run.tags.items() if _is_ours(name)}
        return {**texts, **{name: value for name, value in run.metrics.items() if _is_ours(name)}}

    def takes(self, run: TrackedRun) -> bool:
        return run.state != "running"

    def send(self, run: TrackedRun, figures: Figures) -> None:
        self._project.write(run.tracker.run, figures)


def _is_ours(name: str) -> bool:
    return name.startswith(OURS)


def _text(value: Figure | None) -> str:
    if value is None:
        return _UNKNOWN
    return value if isinstance(value, str) else f"{value:.15g}"


def _read(text: str) -> Figure:
    try:
        return float(text)
    except ValueError:
        return text
