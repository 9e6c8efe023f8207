"""What the server does by itself: faults answered as the policy says, and what was left begun settled."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from trilens.diagnose.cure.change import read_at
from trilens.diagnose.cure.changes import is_done, left_by
from trilens.diagnose.cure.decisions import FRESH_MS, Say
from trilens.diagnose.cure.faults import fault_told
from trilens.diagnose.cure.restarts import resume_of
from trilens.model.errors import NotFound, NotReadYet
from trilens.model.fix import SERVER, Deed, Fix, FixState, FixTarget

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trilens.diagnose.cure.change import Json
    from trilens.diagnose.cure.faults import NodeFault
    from trilens.model.event import EventRecord
    from trilens.serve.cure.book import FixBook
    from trilens.serve.cure.clusters import CuredClusters
    from trilens.serve.cure.deeds import Deeds
    from trilens.serve.cure.permission import Permission

log = logging.getLogger(__name__)

_LATELY: Final = 10_000


class FaultLog(Protocol):
    """Thread-safe."""

    def between(self, from_ms: int, to_ms: int, *, limit: int) -> Sequence[EventRecord]: ...


class Answering:
    """Belongs to one event loop. TrilensError from any of it means: again, later."""

    def __init__(
        self,
        clusters: CuredClusters,
        permission: Permission,
        book: FixBook,
        deeds: Deeds,
        one_at_a_time: asyncio.Lock,
        clock_ms: Callable[[], int],
        events: FaultLog,
        clusters_with: Callable[[str], Sequence[str]],
    ) -> None:
        """`clusters_with` are the watched clusters that have a node of that name now; it may take long."""
        self._clusters = clusters
        self._permission = permission
        self._book = book
        self._deeds = deeds
        self._one_at_a_time = one_at_a_time
        self._clock_ms = clock_ms
        self._events = events
        self._clusters_with = clusters_with

    async def left_over(self, started_ms: int) -> list[Callable[[], Awaitable[None]]]:
        """What was begun when Trilens was last ended, and faults that came in between, in this order."""
        begun = await self._book.load()
        if self._permission.policy is None:
            return []
        now_ms = self._clock_ms()
        lately = await asyncio.to_thread(
            lambda: self._events.between(now_ms - FRESH_MS, now_ms, limit=_LATELY)
        )
        faults = (fault_told(event) for event in sorted(lately, key=lambda one: one.t_ms))
        return [
            # What is younger than the start is being done now.
            *(
                partial(self.settle, fix.id)
                for fix in begun
                if fix.state is FixState.BEGUN and fix.t_ms < started_ms
            ),
            *(partial(self.meet, fault) for fault in faults if fault is not None),
        ]

    async def meet(self, fault: NodeFault) -> None:
        """Done where it was approved beforehand, else held for somebody. The same one is answered once."""
        now_ms = self._clock_ms()
        if self._permission.policy is None or now_ms - fault.t_ms > FRESH_MS:
            return
        named = await asyncio.to_thread(self._clusters_with, fault.node)
        clusters = [one for one in named if fault.cluster in ("", one)]
        if not clusters:
            raise NotReadYet(f"no watched cluster has the node {fault.node}")
        if len(clusters) > 1:
            log.warning("several clusters have a node of this name", extra={"node": fault.node})
            return
        target = FixTarget(clusters[0], "", "Node", "", fault.node)
        async with self._one_at_a_time:
            known, others = await self._book.answered(fault, target)
            if known is not None:
                if known.id == fault.id and known.state is FixState.BEGUN:  # the API server did not answer
                    await self._settle(known)
                return
            if any(one.state is FixState.BEGUN for one in others):
                raise NotReadYet(f"what became of another cordon of {fault.node} is not known yet")
            try:
                node = await self._clusters.of(target).get(target)
            except NotFound:
                log.info("a node with a fault is gone", extra={"node": fault.node, "why": fault.why})
                return
            fix = Fix(
                fault.id,
                now_ms,
                Deed.CORDON,
                target,
                SERVER,
                fault.why,
                fault.source,
                FixState.BEGUN,
                fault=fault.name,
            )
            if (await self._answer(fix, node, fault.t_ms, held_already=bool(others))).state is FixState.DONE:
                self._book.delay_s = (self._clock_ms() - fault.t_ms) / 1000
                for one in others:
                    self._book.end(replace(one, result=f"done by {fix.id}"), FixState.DROPPED)

    async def settle(self, id: str) -> None:
        """An intent of which nobody wrote down what became of it."""
        async with self._one_at_a_time:
            fix = await self._book.get(id)
            if fix.state is FixState.BEGUN:  # else somebody has seen to it meanwhile
                await self._settle(fix)

    async def _settle(self, fix: Fix) -> None:
        if fix.target.cluster not in self._clusters:
            unknown = "not known: its cluster is not watched any more"
            self._book.end(replace(fix, result=unknown), FixState.FAILED)
            return
        cluster = self._clusters.of(fix.target)
        try:
            now: Json | None = await cluster.get(fix.target)
        except NotFound:
            now = None
        resume = resume_of(fix)
        if now is not None and is_done(fix, now) and resume is not None and read_at(now, resume[0]):
            await cluster.patch(fix.target, resume[1], dry_run=False)
            self._book.end(replace(fix, result="resumed after a restart of Trilens"), FixState.DONE)
        elif is_done(fix, now):
            found = replace(fix, after=left_by(fix), result="found done after a restart of Trilens")
            self._book.end(found, FixState.DONE)
        elif fix.by != SERVER or now is None or self._clock_ms() - fix.t_ms > FRESH_MS:
            ended = "Trilens was ended before it was known to be done"
            self._book.end(replace(fix, result=ended), FixState.FAILED)
        elif fix.is_servers_own:
            await self._answer(fix, now, fix.t_ms)
        elif refused := await self._permission.refusal(fix, now):
            self._book.wait(replace(fix, approved_by=""), refused)
        else:
            await self._deeds.carry_out(fix)

    async def _answer(self, fix: Fix, node: Json, fault_ms: int, *, held_already: bool = False) -> Fix:
        """`held_already`: another cordon of that node waits, so this one need not be asked about, too."""
        decision = await self._permission.decision(fix, node, fault_ms=fault_ms, now_ms=self._clock_ms())
        if decision.say is Say.DO:
            return await self._deeds.carry_out(fix)
        if decision.say is Say.WAIT:
            return fix if held_already else self._book.wait(fix, decision.why)
        log.info("a fault is left alone", extra={"node": fix.target.name, "why": decision.why})
        return fix
