"""The record of what was done: the intent, what came of it, and how many of each."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.model.errors import NotFound
from trilens.model.fix import Deed, FixState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.diagnose.cure.faults import NodeFault
    from trilens.model.fix import Fix, FixTarget

log = logging.getLogger(__name__)

_KEPT_S: Final = 5.0
_LATEST: Final = 200


class FixLog(Protocol):
    """Thread-safe."""

    def put(self, fix: Fix) -> None: ...

    def settled(self, timeout_s: float) -> bool: ...

    def get(self, id: str) -> Fix | None: ...

    def open(self) -> Sequence[Fix]: ...

    def latest(self, limit: int) -> Sequence[Fix]: ...


class Answered(NamedTuple):
    """What is in the record about a fault."""

    fix: Fix | None  # its answer
    others: tuple[Fix, ...]  # cordons of that node that are open, upon other faults


class FixBook:
    """Belongs to one event loop, but for `counts`, `waiting` and `delay_s`."""

    def __init__(self, records: FixLog, clock_ms: Callable[[], int]) -> None:
        self._records = records
        self._clock_ms = clock_ms
        self._counts: Counter[tuple[Deed, FixState]] = Counter()
        self._waits: frozenset[str] = frozenset()
        self.delay_s: float | None = None  # from the fault to the last cordon that the server did by itself

    @property
    def counts(self) -> Mapping[tuple[Deed, FixState], int]:
        """What became of how many, since the start."""
        return dict(self._counts)

    @property
    def waiting(self) -> int:
        """So many wait for somebody to approve them."""
        return len(self._waits)

    async def load(self) -> Sequence[Fix]:
        """All that is open."""
        found = await asyncio.to_thread(self._records.open)
        self._waits = frozenset(fix.id for fix in found if fix.state is FixState.WAITING)
        return found

    async def kept(self) -> bool:
        """Waits until all that was told is on disk, or too long; whether it is."""
        return await asyncio.to_thread(self._records.settled, _KEPT_S)

    async def get(self, id: str) -> Fix:
        def asked() -> Fix | None:
            self._records.settled(_KEPT_S)
            return self._records.get(id)

        fix = await asyncio.to_thread(asked)
        if fix is None:
            raise NotFound(f"there is no fix {id!r}", hint="trilens fix log lists them")
        return fix

    async def answered(self, fault: NodeFault, node: FixTarget) -> Answered:
        return await asyncio.to_thread(self._answered, fault, node)

    def _answered(self, fault: NodeFault, node: FixTarget) -> Answered:
        self._records.settled(_KEPT_S)
        opened = [one for one in self._records.open() if one.target == node and one.deed is Deed.CORDON]
        others = tuple(one for one in opened if one.id != fault.id)
        if (own := self._records.get(fault.id)) is not None:
            return Answered(own, others)
        same = (one for one in self._records.latest(_LATEST) if _is_same(one, fault, node))
        return Answered(next(same, None), others)

    async def begin(self, fix: Fix) -> bool:
        """The intent, on disk before anything is changed; whether it is there."""
        self._put(fix)
        return await self.kept()

    def wait(self, fix: Fix, why: str) -> Fix:
        """For somebody to approve it."""
        fix = replace(fix, state=FixState.WAITING, held_back=why, before={}, after={})
        self._put(fix)
        self._counts[fix.deed, fix.state] += 1
        said = {"fix": fix.id, "deed": fix.deed, "target": str(fix.target), "why": why}
        log.warning("a fix waits for approval", extra=said)
        return fix

    def end(self, fix: Fix, state: FixState) -> Fix:
        fix = replace(fix, state=state, ended_ms=self._clock_ms())
        self._put(fix)
        self._counts[fix.deed, state] += 1
        level = logging.INFO if state is FixState.DONE else logging.WARNING
        said = {"fix": fix.id, "deed": fix.deed, "target": str(fix.target), "by": fix.by}
        log.log(level, "a fix is %s", state, extra={**said, "result": fix.result})
        return fix

    def undone(self, fix: Fix, by: str) -> None:
        self._put(replace(fix, undone_by=by))

    def _put(self, fix: Fix) -> None:
        self._records.put(fix)
        self._waits = self._waits | {fix.id} if fix.state is FixState.WAITING else self._waits - {fix.id}


def _is_same(fix: Fix, fault: NodeFault, node: FixTarget) -> bool:
    """Whether a fault that a detector sees is one that was answered when the kernel's log told it."""
    found = fault.source.startswith("finding ")
    return found and fix.fault == fault.name and fix.target == node and fix.t_ms >= fault.t_ms
