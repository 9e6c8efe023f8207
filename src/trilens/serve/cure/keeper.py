"""Does what somebody told it to, or the policy approved beforehand; and keeps a record of each deed.

The intent is on disk before anything is changed: after a kill in between, the next start looks at the object
and writes down what became of it. One thing at a time is done to nodes: their budget cannot be overrun.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from trilens.diagnose.cure.faults import fault_found, fault_told
from trilens.model.errors import NotReadYet, TrilensError
from trilens.serve.cure.answering import Answering
from trilens.serve.cure.book import FixBook
from trilens.serve.cure.clusters import CuredClusters
from trilens.serve.cure.cure_metrics import cure_metrics
from trilens.serve.cure.deeds import Deeds
from trilens.serve.cure.orders import Orders
from trilens.serve.cure.permission import Permission
from trilens.serve.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
    from pathlib import Path

    from prometheus_client import Metric

    from trilens.diagnose.cure.faults import NodeFault
    from trilens.model.event import EventRecord
    from trilens.model.finding import FindingInterval
    from trilens.model.fix import Fix
    from trilens.serve.cure.answering import FaultLog
    from trilens.serve.cure.book import FixLog
    from trilens.serve.cure.told import Told
    from trilens.settings.cure import CurePolicy
    from trilens.settings.kubernetes import KubernetesSettings

log = logging.getLogger(__name__)

_AGAIN_S: Final = 2.0
_ANSWER_S: Final = 120.0


class CureKeeper:
    """A thread with an event loop of its own; everything public may be called from any other."""

    def __init__(
        self,
        policy: CurePolicy | None,
        settings: KubernetesSettings,
        folder: Path,
        records: FixLog,
        events: FaultLog,
        clusters_with: Callable[[str], Sequence[str]],
        *,
        clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`clusters_with` are the watched clusters that have a node of that name now."""
        self._clock_ms = clock_ms
        self._clusters = CuredClusters(settings, folder)
        self._permission = Permission(policy, self._clusters)
        self._book = FixBook(records, clock_ms)
        deeds, lock = Deeds(self._clusters, self._book, self._permission), asyncio.Lock()
        parts = (self._clusters, self._permission, self._book, deeds, lock, clock_ms)
        self._orders = Orders(*parts)
        self._answering = Answering(*parts, events, clusters_with)
        self._waiting: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._started_ms = 0
        self._thread = LoopThread("trilens-cure", self._work)

    def start(self) -> None:
        self._started_ms = self._clock_ms()
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    def use_policy(self, policy: CurePolicy | None) -> None:
        """From here on. What was left over is looked at again, as at a start."""
        self._permission.policy = policy
        self._queue(self._take_up)

    def take_event(self, event: EventRecord) -> None:
        """Never waits."""
        self._take(fault_told(event))

    def take_findings(self, findings: Iterable[FindingInterval]) -> None:
        """What detectors see of DCGM's gauges, where no agent reads the kernel's log. Never waits."""
        for one in findings:
            self._take(fault_found(one))

    def metrics(self) -> Iterator[Metric]:
        return cure_metrics(self._book)

    async def dry_run(self, told: Told) -> Fix:
        return await self._answer(self._orders.dry_run(told))

    async def do(self, told: Told) -> Fix:
        return await self._answer(self._orders.do(told))

    async def approve(self, id: str, by: str) -> Fix:
        return await self._answer(self._orders.approve(id, by))

    async def undo(self, id: str, by: str) -> Fix:
        return await self._answer(self._orders.undo(id, by))

    async def _answer(self, question: Coroutine[Any, Any, Fix]) -> Fix:
        async def kept() -> Fix:
            fix = await question
            await self._book.kept()  # whoever looks next finds it
            return fix

        try:
            asked = asyncio.wrap_future(self._thread.submit(kept()))
        except RuntimeError as e:
            question.close()
            raise NotReadYet(f"nothing is done now: {e}") from e
        try:
            return await asyncio.wait_for(asyncio.shield(asked), _ANSWER_S)  # who goes away ends no deed
        except TimeoutError as e:
            raise NotReadYet("it is not done yet", hint="trilens fix log tells what becomes of it") from e

    def _take(self, fault: NodeFault | None) -> None:
        if fault is not None and self._permission.policy is not None:
            self._queue(partial(self._answering.meet, fault))

    def _queue(self, work: Callable[[], Awaitable[None]]) -> None:
        async def queued() -> None:
            self._waiting.put_nowait(work)

        with suppress(RuntimeError):  # it does not run yet: what came shortly before the start is read then
            self._thread.submit(queued())

    # What follows runs in the thread's own loop.

    async def _work(self) -> None:
        self._waiting.put_nowait(self._take_up)
        try:
            while True:
                await self._attempt(await self._waiting.get())
        finally:
            await self._clusters.close()

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except TrilensError as e:  # the cluster is not known yet, or does not answer now
            level = logging.DEBUG if isinstance(e, NotReadYet) else logging.WARNING
            log.log(level, "a fault waits to be answered", extra={"error": str(e)})
            asyncio.get_running_loop().call_later(_AGAIN_S, self._waiting.put_nowait, work)
        except Exception:  # a defect with one fault must not leave the next unanswered
            log.exception("answering a fault failed")

    async def _take_up(self) -> None:
        for work in await self._answering.left_over(self._started_ms):
            self._waiting.put_nowait(work)
