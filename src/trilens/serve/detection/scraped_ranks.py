"""Ranks of programs that tell only metrics, in the names that people know, from any exporter."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.scene import RankView, Steps, ToldBy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.serve.detection.asked import Asked
    from trilens.serve.own_queries import Shown

_KEPT: Final = 240  # looks at which something was new
_FORGET_MS: Final = 15 * 60_000
_CLOCK_LOOKS: Final = 16
# Programs with the SDK tell their steps one by one: these series have the run that they are of.
_LAST_STEP: Final = 'training_last_step_timestamp_seconds{run=""}'
_LABELS: Final = ("cluster", "namespace", "pod", "job", "job_name", "instance", "rank")


class ProgramName(NamedTuple):
    """Whose series these are. What no label says is empty."""

    cluster: str
    namespace: str
    pod: str
    job: str
    job_name: str
    instance: str
    rank: str


class ScrapedRank(NamedTuple):
    name: ProgramName
    view: RankView


# By a program's clock. Objects of Python would take six times as much, of every program for an hour.
_POINT: Final = np.dtype([("step", "i8"), ("end_ms", "i8"), ("loss", "f8"), ("grad_norm", "f8")])


class _Program:
    def __init__(self) -> None:
        self._points = np.empty(_KEPT, _POINT)  # of which the latest takes the place of the oldest
        self._added = 0
        self._late_ms: deque[int] = deque(maxlen=_CLOCK_LOOKS)
        self._steps: Steps | None = None
        self.heard_ms = 0
        self.step = -1
        self.end_ms: int | None = None

    def add(self, step: int, end_ms: int, loss: float, grad_norm: float) -> None:
        self._points[self._added % _KEPT] = (step, end_ms, loss, grad_norm)
        self._added += 1
        self._late_ms.append(self.heard_ms - end_ms)
        self._steps = None
        self.step, self.end_ms = step, end_ms

    def steps(self) -> Steps:
        """The same as before where nothing was added: it is looked at more often than it is scraped."""
        if self._steps is None:
            self._steps = self._made()
        return self._steps

    def _made(self) -> Steps:
        points = self._points[np.arange(max(0, self._added - _KEPT), self._added) % _KEPT]
        step, end_ms = points["step"], points["end_ms"]
        took = np.diff(end_ms, prepend=end_ms[:1]) / np.maximum(np.diff(step, prepend=step[:1] - 1), 1)
        nothing = np.full(len(points), np.nan)
        return Steps(
            step,
            end_ms + (min(self._late_ms) if self._late_ms else 0),
            took,
            nothing,
            nothing,
            points["loss"],
            points["grad_norm"],
        )


class ScrapedRanks:
    """Not thread-safe."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._programs: dict[ProgramName, _Program] = {}

    def look(self, now_ms: int) -> list[ScrapedRank]:
        """Raises TrilensError where there is no answer."""
        ended = self._by_program(_LAST_STEP)
        if not ended and not self._programs:
            return []
        heard = self._by_program(f"timestamp({_LAST_STEP})")
        steps = self._by_program('training_step{run=""}')
        losses = self._by_program('training_loss{run=""}')
        norms = self._by_program('training_gradient_norm{run=""}')
        for name, end_s in ended.items():
            program = self._programs.setdefault(name, _Program())
            program.heard_ms = round(heard.get(name, now_ms / 1000) * 1000)
            end_ms = round(end_s * 1000)
            if program.end_ms == end_ms:
                continue
            step = steps.get(name)
            nan = float("nan")
            number = round(step) if step is not None and not np.isnan(step) else program.step + 1
            program.add(number, end_ms, losses.get(name, nan), norms.get(name, nan))
        self._programs = {
            name: one for name, one in self._programs.items() if one.heard_ms > now_ms - _FORGET_MS
        }
        return _ranks(self._programs)

    def _by_program(self, query: str) -> dict[ProgramName, float]:
        return {_name(one.labels): one.value for one in self._shown(query)}

    def _shown(self, query: str) -> Sequence[Shown]:
        return self._asked.vector(query)


def _name(labels: Mapping[str, str]) -> ProgramName:
    found = {name: labels.get(name, "") for name in _LABELS}
    if labels.get("exported_pod"):  # the scrape's own pod took the name
        found["pod"], found["namespace"] = labels["exported_pod"], labels.get("exported_namespace", "")
    return ProgramName(**found)


def _ranks(programs: Mapping[ProgramName, _Program]) -> list[ScrapedRank]:
    """A program that does not say its rank has the place that it comes at."""
    taken: dict[tuple[str, ...], int] = {}
    found = []
    for name in sorted(programs):
        group = (name.cluster, name.namespace, name.job_name or name.job)
        place = taken[group] = taken.get(group, -1) + 1
        rank = int(name.rank) if name.rank.isascii() and name.rank.isdigit() else place
        program = programs[name]
        found.append(ScrapedRank(name, RankView(rank, ToldBy.METRICS, program.steps(), program.heard_ms)))
    return found
