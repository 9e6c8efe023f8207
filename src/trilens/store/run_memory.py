"""What was read lately of runs, kept as it stands on disk: of thousands of ranks, reading it is most of an
answer, and a page asks every few seconds. Whoever writes tells it what is on disk now."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from trilens.model.run import RunId, WriterId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trilens.model.query import QueryGuard


class OfProcess(Protocol):
    """Something of one process of a run, which replaces what was told of it before."""

    @property
    def run(self) -> RunId: ...
    @property
    def rank(self) -> int: ...
    @property
    def attempt(self) -> int: ...
    @property
    def writer(self) -> WriterId: ...


T = TypeVar("T", bound=OfProcess)
_Of = dict[tuple[int, WriterId], T]


class RunMemory(Generic[T]):
    """Thread-safe. Of as many runs as have `most` processes together, those that were asked for last."""

    def __init__(self, read: Callable[[Sequence[RunId], QueryGuard | None], Iterable[T]], most: int) -> None:
        self._read = read
        self._most = most
        self._reading = threading.Lock()  # who asks for the same meanwhile waits for it
        self._lock = threading.Lock()
        self._runs: dict[RunId, _Of[T]] = {}  # in order of rank and attempt
        self._unordered: set[RunId] = set()
        self._meanwhile: dict[RunId, _Of[T]] = {}  # written while their runs are read
        self._forgotten = 0

    def of(self, runs: Sequence[RunId], guard: QueryGuard | None = None) -> list[T]:
        """By run, rank and attempt."""
        wanted = sorted(set(runs))
        found = self._known(wanted)
        if found is None:
            with self._reading:
                found = self._known(wanted)
                if found is None:
                    found = self._read_in(wanted, guard)
        return found

    def put(self, written: Iterable[T]) -> None:
        """They are on disk."""
        with self._lock:
            for one in written:
                known = self._runs.get(one.run)
                if known is None:
                    known = self._meanwhile.get(one.run)
                if known is not None:
                    key = (one.rank, one.writer)
                    if key not in known:
                        self._unordered.add(one.run)
                    known[key] = one

    def forget(self) -> None:
        """Something was deleted."""
        with self._lock:
            self._runs, self._forgotten = {}, self._forgotten + 1

    def _known(self, wanted: Sequence[RunId]) -> list[T] | None:
        with self._lock:
            if any(run not in self._runs for run in wanted):
                return None
            for run in wanted:
                known = self._runs.pop(run)
                if run in self._unordered:
                    known = _ordered(known)
                self._runs[run] = known  # the last asked for at the end
            self._unordered.difference_update(wanted)
            return [one for run in wanted for one in self._runs[run].values()]

    def _read_in(self, wanted: Sequence[RunId], guard: QueryGuard | None) -> list[T]:
        with self._lock:
            every = {run: self._runs[run] for run in wanted if run in self._runs}
            missing = [run for run in wanted if run not in every]
            self._meanwhile = {run: {} for run in missing}
            forgotten = self._forgotten
        found: dict[RunId, _Of[T]] = {run: {} for run in missing}
        try:
            for one in self._read(missing, guard):
                found[one.run][one.rank, one.writer] = one
        except BaseException:
            self._meanwhile = {}
            raise
        with self._lock:
            newer, self._meanwhile = self._meanwhile, {}
            every |= {run: _ordered(told | newer[run]) for run, told in found.items()}
            if forgotten == self._forgotten:
                self._runs |= {run: every[run] for run in missing}
                self._let_go()
            return [one for run in wanted for one in every[run].values()]

    def _let_go(self) -> None:
        there = sum(map(len, self._runs.values()))
        for run in [*self._runs]:
            if there <= self._most:
                break
            there -= len(self._runs.pop(run))


def _ordered(told: _Of[T]) -> _Of[T]:
    return dict(sorted(told.items(), key=lambda one: (one[1].rank, one[1].attempt)))
