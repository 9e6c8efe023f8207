"""How Trilens' own API is asked: parameters, the work in a thread that may be stopped, an envelope."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.params import read_params

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.serve.params import Params
    from trilens.serve.runner import QueryRunner


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Questions:
    """The same for all that answer any."""

    runner: QueryRunner
    max_body: int
    now_ms: Callable[[], int] = clock_ms

    async def params(self, request: Request) -> Params:
        return await read_params(request, self.max_body)

    async def answer(
        self, request: Request, read: Callable[[QueryGuard], Any], warnings: Sequence[str] = ()
    ) -> Response:
        """What `read` returns, as JSON. It may add to the warnings."""

        def body(guard: QueryGuard) -> bytes:
            return success(msgspec.json.encode(read(guard)), warnings)

        return await self.answer_bytes(request, body)

    async def answer_bytes(self, request: Request, body: Callable[[QueryGuard], bytes]) -> Response:
        """The whole body, made and compressed in a thread of the runner."""
        guard, gzip = self.runner.guard(), accepts_gzip(request)
        return packed_response(await self.runner.run(request, guard, lambda: pack(body(guard), gzip)))
