"""An answer that many ask for at once: made for the first of them, the same for all within a moment."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from trilens.serve.envelope import accepts_gzip, pack, packed_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.serve.questions import Questions

LASTS_S: Final = 2.0


class SharedAnswer:
    """Thread-safe. `make` gives the whole body."""

    def __init__(
        self,
        make: Callable[[QueryGuard], bytes],
        questions: Questions,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make = make
        self._questions = questions
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._made_s = 0.0
        self._packed: dict[bool, tuple[bytes, bool]] = {}

    async def answer(self, request: Request) -> Response:
        runner, gzip = self._questions.runner, accepts_gzip(request)
        guard = runner.guard()
        return packed_response(await runner.run(request, guard, lambda: self._body(guard, gzip)))

    def _body(self, guard: QueryGuard, gzip: bool) -> tuple[bytes, bool]:
        with self._lock:  # who comes meanwhile waits for this one instead of making his own
            if not self._packed or self._clock_s() - self._made_s > LASTS_S:
                self._packed = {False: (self._make(guard), False)}
                self._made_s = self._clock_s()
            if gzip not in self._packed:
                self._packed[gzip] = pack(self._packed[False][0], gzip)
            return self._packed[gzip]
