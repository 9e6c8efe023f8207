"""Takes part in the election: looks at the lease every few seconds, and renews it while it is ours."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from trilens.model.errors import KubeApiError
from trilens.serve.replicas.lease import LeaseTaken

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.serve.replicas.election import Election, Held

log = logging.getLogger(__name__)

_JITTER: Final = 0.2  # so that those who wait do not all ask at once


class Lease(Protocol):
    async def read(self) -> Held | None: ...

    async def write(self, held: Held) -> None: ...

    async def close(self) -> None: ...


def clock_s() -> float:
    """Goes on while the process is stopped and while the machine sleeps: others do not wait for us."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Elector:
    """Belongs to one event loop."""

    def __init__(self, election: Election, lease: Lease, on_lost: Callable[[], None]) -> None:
        """`on_lost` is called once this server was sure that it works, and is not any more."""
        self._election = election
        self._lease = lease
        self._on_lost = on_lost
        self._trouble = ""
        self._task: asyncio.Task[None] | None = None
        self.won = asyncio.Event()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Gives the lease back; call it when nothing is done any more that needs it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            async with asyncio.timeout(self._election.timing.retry_s):
                if (given_back := self._election.gives_back(_utc())) is not None:
                    await self._lease.write(given_back)
                    self._election.wrote(given_back, clock_s())
        except (KubeApiError, LeaseTaken, TimeoutError) as e:
            log.warning("the lease is not given back: the next one waits until it is over", extra=_why(e))
        finally:
            await self._lease.close()

    async def turn(self) -> None:
        """Look once, and take or renew the lease where it is ours to take: never a second time."""
        if not self._election.leads(clock_s()):
            if self.won.is_set():  # after a pause, say: what is remembered here is older than what others did
                return
            self._election.saw(await self._lease.read(), clock_s())
        sent_s = clock_s()
        wanted = self._election.due(sent_s, _utc())
        if wanted is None:
            return
        try:
            await self._lease.write(wanted)
        except LeaseTaken:
            self._election.saw(await self._lease.read(), clock_s())
            return
        self._election.wrote(wanted, sent_s)
        if not self.won.is_set():
            log.info("this server works from now on", extra={"holder": self._election.me})
            self.won.set()

    async def _run(self) -> None:
        timing = self._election.timing
        while True:
            try:
                async with asyncio.timeout(timing.sure_s / 2):
                    await self.turn()
                self._say("")
            except (KubeApiError, TimeoutError) as e:
                self._say(str(e) or "no answer from the API server")
            except Exception as e:  # nobody would take over, or look whether the lease is lost
                log.exception("a turn of the election failed, which is a defect")
                self._say(repr(e))
            if self.won.is_set() and not self._election.leads(clock_s()):
                self._on_lost()
                return
            await asyncio.sleep(timing.retry_s * random.uniform(1, 1 + _JITTER))  # noqa: S311 - no secret

    def _say(self, trouble: str) -> None:
        if trouble and not self._trouble:
            log.warning("the lease cannot be read or renewed", extra={"error": trouble})
        self._trouble = trouble


def _utc() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _why(error: Exception) -> dict[str, str]:
    return {"error": str(error) or type(error).__name__}
