"""Training ranks that tell a Trilens server of their steps, as the SDK would (docs/sdk-protocol.md)."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final

import aiohttp
import orjson

if TYPE_CHECKING:
    from trilens.simulate.telling import Sending, TellingRank
    from trilens.simulate.world import World

log = logging.getLogger(__name__)

# The SDK sends every two seconds, but not all ranks of a cluster from one process to a server beside it.
_INTERVAL_S: Final = 5.0
_RANKS: Final = 64
_LOOK_S: Final = 0.5
_AT_ONCE: Final = 64  # requests; a server writes what comes together together
_TIMEOUT_S: Final = 30.0


class RecordSender:
    """Reads the world on the event loop that it runs on, and only there."""

    def __init__(self, world: World, server: str) -> None:
        self._world = world
        # As much as all of them together send with 64 ranks, however many there are.
        self._least_s = _INTERVAL_S * max(1.0, len(world.telling.ranks) / _RANKS)
        self._address = f"{server.rstrip('/')}/api/v1/runs/records"
        self._interval_s = self._least_s
        self._free = asyncio.Semaphore(_AT_ONCE)
        self._has_spoken = False  # something was taken, or it was said that nothing is
        self._due_s: dict[TellingRank, float] = {}  # infinite while it sends

    async def send(self) -> None:
        """Until it is cancelled. Raises where the server cannot read what comes."""
        self._world.telling.leave_out_old(self._world.now_ms)
        clock_s = asyncio.get_running_loop().time
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(timeout=timeout) as session, asyncio.TaskGroup() as sendings:
            while True:
                ranks, now_ms = self._world.telling.ranks.values(), self._world.now_ms
                self._due_s = {rank: self._due_s.get(rank, 0.0) for rank in ranks}
                living_first = any(rank.is_behind(now_ms) for rank in ranks)
                for rank, due_s in self._due_s.items():
                    if due_s <= clock_s() and not (living_first and rank.can_wait(now_ms)):
                        self._due_s[rank] = math.inf
                        sendings.create_task(self._tell(session, rank))
                await asyncio.sleep(_LOOK_S)

    async def _tell(self, session: aiohttp.ClientSession, rank: TellingRank) -> None:
        """One thing, so that a rank with much to tell does not keep the others waiting."""
        async with self._free:
            sending = rank.next(self._world.now_ms, self._interval_s)
            has_more = sending is not None and await self._is_taken(session, sending) and rank.taken()
        self._due_s[rank] = asyncio.get_running_loop().time() + (0 if has_more else self._interval_s)

    async def _is_taken(self, session: aiohttp.ClientSession, sending: Sending) -> bool:
        """What is not is sent again later."""
        body = orjson.dumps(sending.line)
        query = {"for_dead": "true"} if sending.for_dead else {}
        try:
            async with session.post(self._address, data=body, params=query) as answer:
                if answer.status == 200:
                    self._has_spoken = True
                    told = orjson.loads(await answer.read())["data"]
                    self._interval_s = max(self._least_s, told["interval_s"])
                    return True
                if answer.status in (400, 413):  # our own mistake: no other try would end better
                    raise RuntimeError(f"{self._address} refuses records: {await answer.text()}")
                self._say_once(f"status {answer.status}: {(await answer.text())[:500]}")
        except (aiohttp.ClientError, TimeoutError) as e:
            self._say_once(str(e) or type(e).__name__)
        return False

    def _say_once(self, why: str) -> None:
        """A server that has worked may go away for a while, or for good."""
        if not self._has_spoken:
            self._has_spoken = True
            log.warning("nothing is taken at %s yet, and it is tried again: %s", self._address, why)
