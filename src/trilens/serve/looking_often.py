"""Something that is asked again and again, in the server's loop."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from trilens.model.errors import TrilensError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

log = logging.getLogger(__name__)


class LookingOften:
    """`look` raises TrilensError where there is no answer: that is told once, until there is one again."""

    def __init__(self, look: Callable[[], Awaitable[None]], every_s: float, unanswered: str) -> None:
        """`unanswered` is what the log says then."""
        self._look = look
        self._every_s = every_s
        self._unanswered = unanswered
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._go_on())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _go_on(self) -> None:
        is_told = False
        while True:
            try:
                await self._look()
                is_told = False
            except TrilensError as e:
                if not is_told:
                    log.warning(self._unanswered, extra={"error": str(e)})
                    is_told = True
            except Exception:
                log.exception("a defect in looking, which goes on: %s", self._unanswered)
            await asyncio.sleep(self._every_s)
