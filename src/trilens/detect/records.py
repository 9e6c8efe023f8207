"""What the ranks of runs told of their steps, as it came in: the last ones of each, by this server's clock.

A program's clock is not this server's. How far they are apart is seen in when its words come: never before
they were made, and some at once. So the least of "heard less told" over the last of them is the difference,
and a little of the way here: of heartbeats, which never wait anywhere. Of steps alone where there are none,
and while a program says that it is further than they are: those that have waited, because this server was
away, then look as if they were made when they came, which is better than as if nothing had been made since.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.scene import RankView, Steps, ToldBy
from trilens.model.run import Ending
from trilens.model.step_phases import DATA_PHASES, SYNC_PHASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from trilens.model.run import NoteRecord, RankProcess, RunFacts, RunId, StepRecord
    from trilens.model.run_commit import RunCommit

MOST_STEPS: Final = 512  # of a rank
_FEWEST_STEPS: Final = 128  # where there are very many ranks
_STEPS_IN_ALL: Final = 2_000_000  # about 110 MB
_WORDS: Final = 16  # that the clock is measured by
_NOTES_MS: Final = 10 * 60_000
_MOST_NOTES: Final = 32
_FORGET_MS: Final = 15 * 60_000  # a life that nobody asks for
_LOSSES: Final = ("loss", "train_loss", "train/loss")
_NORMS: Final = ("grad_norm", "gradient_norm", "train/grad_norm")

LifeKey = tuple["RunId", int, int]  # run, rank and attempt


class _Doing(NamedTuple):
    what: str | None
    since_ms: int


class _Life:
    """One life of one rank."""

    __slots__ = (
        "_beats_ms",
        "_floats",
        "_ints",
        "_late_ms",
        "_seen",
        "_shift_ms",
        "_stop",
        "asked_ms",
        "doing",
        "notes",
    )

    def __init__(self, now_ms: int) -> None:
        self._ints = np.empty((2, 32), np.int64)  # step, end by the program's clock
        self._floats = np.empty((5, 32))
        self._stop = 0
        self._late_ms: deque[int] = deque(maxlen=_WORDS)  # of steps
        self._beats_ms: deque[int] = deque(maxlen=_WORDS)
        self._shift_ms = 0
        self._seen: Steps | None = None
        self.doing: _Doing | None = None
        self.notes: deque[NoteRecord] = deque(maxlen=_MOST_NOTES)
        self.asked_ms = now_ms

    def add(self, steps: Sequence[StepRecord], received_ms: int, kept: int) -> None:
        steps = steps[-kept:]
        if self._stop + len(steps) > self._ints.shape[1]:
            self._make_room(len(steps), kept)
        at, ints, floats = self._stop, self._ints, self._floats
        for one in steps:
            phases, values = one.phases, one.values
            ints[0, at] = one.step
            ints[1, at] = (one.start_us + one.duration_us) // 1000
            floats[0, at] = one.duration_us / 1000
            floats[1, at] = sum(phases.get(name, 0) for name in DATA_PHASES) / 1000
            floats[2, at] = sum(phases.get(name, 0) for name in SYNC_PHASES) / 1000
            floats[3, at] = _first(values, _LOSSES)
            floats[4, at] = _first(values, _NORMS)
            at += 1
        self._stop = at
        self._late_ms.append(received_ms - int(ints[1, at - 1]))
        self._seen = None

    def beats(self, process: RankProcess) -> None:
        if process.told_ms is not None:
            self._beats_ms.append(process.heard_ms - process.told_ms)
        is_behind = process.step is not None and self._stop and process.step > self._ints[0, self._stop - 1]
        told = self._late_ms if is_behind or not self._beats_ms else self._beats_ms
        shift_ms = min(told, default=0)
        if shift_ms != self._shift_ms:
            self._shift_ms, self._seen = shift_ms, None

    def _make_room(self, more: int, kept: int) -> None:
        """In new arrays: whoever looks at the old ones still sees what was there."""
        held = min(self._stop, kept)
        width = min(max(2 * (held + more), 32), kept + kept // 2 + more)
        first = self._stop - held
        ints, floats = np.empty((2, width), np.int64), np.empty((5, width))
        ints[:, :held] = self._ints[:, first : self._stop]
        floats[:, :held] = self._floats[:, first : self._stop]
        self._ints, self._floats, self._stop = ints, floats, held

    def steps(self, kept: int) -> Steps:
        if self._seen is None:
            there = slice(max(self._stop - kept, 0), self._stop)
            step, end = self._ints[:, there]
            self._seen = Steps(step, end + self._shift_ms, *self._floats[:, there])
        return self._seen

    def does(self, process: RankProcess) -> _Doing:
        if self.doing is None or self.doing.what != process.phase:
            self.doing = _Doing(process.phase, process.heard_ms)
        return self.doing


class RankRecords:
    """Thread-safe."""

    def __init__(self) -> None:
        self._lives: dict[LifeKey, _Life] = {}
        self._facts: dict[RunId, RunFacts] = {}
        self._lock = threading.Lock()

    def take(self, commit: RunCommit, received_ms: int) -> None:
        by_life: defaultdict[LifeKey, list[StepRecord]] = defaultdict(list)
        for step in commit.steps:
            by_life[step.run, step.rank, step.attempt].append(step)
        with self._lock:
            for key, steps in by_life.items():
                self._life(key, received_ms).add(steps, received_ms, self._kept)
            for note in commit.notes:
                self._life((note.run, note.rank, note.attempt), received_ms).notes.append(note)
            for facts in commit.facts:
                self._facts[facts.run] = facts

    def facts(self, run: RunId) -> RunFacts | None:
        return self._facts.get(run)

    def processes(
        self,
        heard: Iterable[RankProcess],
        now_ms: int,
        row_of: Callable[[RankProcess], int | None] = lambda process: None,
        listens: Callable[[RankProcess], bool | None] = lambda process: None,
    ) -> dict[RunId, list[RankView]]:
        """The latest life of each rank, by run; ranks in order."""
        latest: dict[tuple[RunId, int], RankProcess] = {}
        for process in heard:
            key = (process.run, process.rank)
            known = latest.get(key)
            if known is None or known.attempt < process.attempt:
                latest[key] = process
        views: defaultdict[RunId, list[RankView]] = defaultdict(list)
        answers = {key: listens(one) for key, one in latest.items() if one.ending is Ending.LOST}
        with self._lock:
            for (run, rank), process in sorted(latest.items()):
                life = self._life((run, rank, process.attempt), now_ms)
                life.asked_ms = now_ms
                view = self._view(life, process, now_ms, row_of(process), answers.get((run, rank)))
                views[run].append(view)
            self._forget(now_ms)
        return dict(views)

    def _view(
        self, life: _Life, process: RankProcess, now_ms: int, row: int | None, listens: bool | None
    ) -> RankView:
        while life.notes and life.notes[0].t_ms < now_ms - _NOTES_MS:
            life.notes.popleft()
        life.beats(process)
        doing = life.does(process)
        is_alive = process.ending is None
        return RankView(
            process.rank,
            ToldBy.RECORDS,
            life.steps(self._kept),
            process.heard_ms,
            process,
            doing.what if is_alive else None,
            doing.since_ms if is_alive and doing.what is not None else None,
            tuple(life.notes) if life.notes else (),
            row,
            listens,
        )

    @property
    def _kept(self) -> int:
        return min(max(_STEPS_IN_ALL // max(len(self._lives), 1), _FEWEST_STEPS), MOST_STEPS)

    def _life(self, key: LifeKey, now_ms: int) -> _Life:
        life = self._lives.get(key)
        if life is None:
            life = self._lives[key] = _Life(now_ms)
        return life

    def _forget(self, now_ms: int) -> None:
        old = [key for key, life in self._lives.items() if life.asked_ms < now_ms - _FORGET_MS]
        for key in old:
            del self._lives[key]
        if old:
            runs = {run for run, _, _ in self._lives}
            self._facts = {run: facts for run, facts in self._facts.items() if run in runs}


def _first(values: Mapping[str, float], names: Sequence[str]) -> float:
    for name in names:
        if (value := values.get(name)) is not None:
            return value
    return float("nan")
