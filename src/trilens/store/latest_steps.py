"""The last steps of lives that were asked for lately, kept as they stand on disk: of a run with thousands of
ranks those of one lie far apart, and a page asks every few seconds. As a RunMemory it is told by
whoever writes what is on disk now."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from trilens.model.run_sums import LastSteps, StepTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId, StepRecord
    from trilens.model.run_sums import Tail

    Life = tuple[RunId, int, int]  # with its rank and attempt

MOST_LIVES: Final = 64
_MANY_STEPS: Final = 500  # of one: those that nobody asks for any more go
_MOST_STEPS: Final = 2_000  # of one for which nobody has asked meanwhile: it goes itself


class _Kept:
    """All steps of a life from `first_step` on, by n, and the values of the last of them."""

    __slots__ = ("first_step", "times", "values")

    def __init__(self, first_step: int, read: LastSteps | None) -> None:
        self.first_step = first_step
        self.times = [*read.times] if read is not None else []
        self.values: Mapping[str, float] = read.values if read is not None else {}

    def add(self, step: StepRecord) -> None:
        if step.step < self.first_step:
            return
        is_last = not self.times or step.n > self.times[-1].n
        if not is_last and any(one.n == step.n for one in self.times):
            return  # it was on disk when the others were read
        self.times.append(time_of(step))
        if is_last:
            self.values = step.values
        else:
            self.times.sort(key=lambda one: one.n)

    def since(self, first_step: int) -> LastSteps | None:
        if len(self.times) > _MANY_STEPS and first_step > self.first_step:
            self.times = [one for one in self.times if one.step >= first_step]
            self.first_step = first_step
        times = [one for one in self.times if one.step >= first_step]
        return LastSteps(times, self.values) if times else None


class LatestSteps:
    """Thread-safe. Of the lives that were asked for last."""

    def __init__(
        self, read: Callable[[Sequence[Tail], QueryGuard | None], Mapping[RunId, LastSteps]]
    ) -> None:
        """`read` is of one life of each run."""
        self._read = read
        self._reading = threading.Lock()  # who asks for the same meanwhile waits for it
        self._lock = threading.Lock()
        self._lives: dict[Life, _Kept] = {}
        self._meanwhile: dict[Life, list[StepRecord]] = {}  # written while their lives are read
        self._forgotten = 0

    def of(self, wanted: Sequence[Tail], guard: QueryGuard | None = None) -> dict[RunId, LastSteps]:
        """Of runs that have any; one life of each."""
        if len(wanted) > MOST_LIVES:
            return dict(self._read(wanted, guard))
        found = self._known(wanted)
        if found is None:
            with self._reading:
                found = self._known(wanted)
                if found is None:
                    found = self._read_in(wanted, guard)
        return found

    def put(self, written: Iterable[StepRecord]) -> None:
        """They are on disk."""
        with self._lock:
            if not self._lives and not self._meanwhile:
                return
            for step in written:
                life = (step.run, step.rank, step.attempt)
                if (kept := self._lives.get(life)) is not None:
                    kept.add(step)
                    if len(kept.times) > _MOST_STEPS:
                        del self._lives[life]
                if life in self._meanwhile:
                    self._meanwhile[life].append(step)

    def forget(self) -> None:
        """Something was deleted."""
        with self._lock:
            self._lives, self._forgotten = {}, self._forgotten + 1

    def _known(self, wanted: Sequence[Tail]) -> dict[RunId, LastSteps] | None:
        with self._lock:
            if self._missing(wanted):
                return None
            self._asked_for({_life(tail): self._lives[_life(tail)] for tail in wanted})
            return self._found(wanted, self._lives)

    def _missing(self, wanted: Sequence[Tail]) -> list[Tail]:
        known = ((tail, self._lives.get(_life(tail))) for tail in wanted)
        return [tail for tail, kept in known if kept is None or kept.first_step > tail.first_step]

    def _read_in(self, wanted: Sequence[Tail], guard: QueryGuard | None) -> dict[RunId, LastSteps]:
        with self._lock:
            missing = self._missing(wanted)
            self._meanwhile = {_life(tail): [] for tail in missing}
            lives, forgotten = dict(self._lives), self._forgotten
        try:
            read = self._read(missing, guard)
        except BaseException:
            self._meanwhile = {}
            raise
        with self._lock:
            newer, self._meanwhile = self._meanwhile, {}
            for tail in missing:
                kept = lives[_life(tail)] = _Kept(tail.first_step, read.get(tail.run))
                for step in newer[_life(tail)]:
                    kept.add(step)
            if forgotten == self._forgotten:
                self._asked_for({_life(tail): lives[_life(tail)] for tail in missing})
            return self._found(wanted, lives)

    def _asked_for(self, lives: Mapping[Life, _Kept]) -> None:
        for life, kept in lives.items():
            self._lives.pop(life, None)
            self._lives[life] = kept  # the last asked for at the end
        for oldest in [*self._lives][:-MOST_LIVES]:
            del self._lives[oldest]

    def _found(self, wanted: Sequence[Tail], lives: Mapping[Life, _Kept]) -> dict[RunId, LastSteps]:
        each = ((tail, lives.get(_life(tail))) for tail in wanted)
        found = ((tail.run, kept.since(tail.first_step)) for tail, kept in each if kept is not None)
        return {run: steps for run, steps in found if steps is not None}


def time_of(step: StepRecord) -> StepTime:
    return StepTime(step.run, step.step, step.n, step.start_us, step.duration_us, step.samples, step.tokens)


def _life(tail: Tail) -> Life:
    return tail.run, tail.rank, tail.attempt
