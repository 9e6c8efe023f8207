"""The order in which the parts of a server begin; they end in the opposite one."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    _Act = Callable[[], Awaitable[object]]


class _Threaded(Protocol):
    def start(self) -> object: ...

    def stop(self) -> object: ...


class _Looped(Protocol):
    async def start(self) -> object: ...

    async def stop(self) -> object: ...


class Step(NamedTuple):
    start: _Act | None = None
    stop: _Act | None = None


def threaded(part: _Threaded | None) -> Step:
    """One with threads of its own, where there is one: beginning and ending may take their time."""
    return Step(in_thread(part.start), in_thread(part.stop)) if part is not None else Step()


def looped(part: _Looped | None) -> Step:
    """One that lives in the server's loop, where there is one."""
    return Step(part.start, part.stop) if part is not None else Step()


def in_thread(act: Callable[[], object]) -> _Act:
    return partial(asyncio.to_thread, act)


class Life:
    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = steps

    async def start(self) -> None:
        for step in self._steps:
            if step.start is not None:
                await step.start()

    async def stop(self) -> None:
        """Whatever had begun: a part that never did has nothing to end. Goes on when a step fails."""
        async with AsyncExitStack() as stack:
            for step in self._steps:
                if step.stop is not None:
                    stack.push_async_callback(step.stop)
