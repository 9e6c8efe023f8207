"""An answer that many ask for at once: the same for all within a moment, and made before they ask."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.serve.envelope import accepts_gzip, pack, packed_response

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.serve.questions import Questions

LASTS_S: Final = 2.0
FRESH_S: Final = 12.0  # of one that was made after a look: the next look is due, and makes the next one
OLD_S: Final = 60.0
_WATCHED_S: Final = 30.0  # nobody asked for so long: it is made seldom,
_SELDOM_S: Final = 30.0  # so that who comes first has not to wait


def seen_to(task: asyncio.Task[Any]) -> None:
    """What went wrong is told to who waits; where nobody does, the next one who asks will meet it."""
    if not task.cancelled():
        task.exception()


class _Made(NamedTuple):
    """For so long it is the answer; until `told_s` it is told once more, while the next one is made."""

    at_s: float
    lasts_s: float
    told_s: float
    packed: dict[bool, tuple[bytes, bool]]  # by whether it is for who takes gzip


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
        self._made: _Made | None = None
        self._asked_s: float | None = None
        self._planning = threading.Lock()
        self._is_due = False  # one waits to be made, or is being made
        self._looks = 0

    async def answer(self, request: Request) -> Response:
        runner, gzip = self._questions.runner, accepts_gzip(request)
        self._asked_s = now_s = self._clock_s()
        made = self._made
        age_s = now_s - made.at_s if made is not None else 0.0
        if made is not None and gzip in made.packed and age_s <= made.told_s:
            if age_s > made.lasts_s:
                self._make_later()
            return packed_response(made.packed[gzip])
        guard = runner.guard()
        return packed_response(await runner.run(request, guard, lambda: self._body(guard, gzip)))

    def looked(self, *, for_nobody: bool = True) -> None:
        """The fleet was looked at: what this is made of is new. In any thread. `for_nobody` has it made
        now and then while nobody asks, too."""
        made, now_s = self._made, self._clock_s()
        is_watched = self._asked_s is not None and now_s - self._asked_s <= _WATCHED_S
        is_old = made is None or now_s - made.at_s >= _SELDOM_S
        if is_watched or (for_nobody and is_old):
            with self._planning:
                self._looks += 1
            self._make_later()

    def _make_later(self) -> None:
        with self._planning:
            if self._is_due:
                return
            self._is_due = True
        self._questions.runner.later(self._prepare)

    def _prepare(self, guard: QueryGuard) -> None:
        """And once more after it, where the fleet was looked at meanwhile: this one may be of before. What
        takes long waits for the next look, or it would be made all the time."""
        with self._lock:
            looks, began_s = self._looks, self._clock_s()
            try:
                body = self._make(guard)
                self._made = _Made(
                    self._clock_s(), FRESH_S, OLD_S, {False: (body, False), True: pack(body, gzip=True)}
                )
            finally:
                with self._planning:
                    self._is_due = False
                    is_of_before = self._looks != looks
                if is_of_before and self._clock_s() - began_s <= LASTS_S:
                    self._make_later()

    def _body(self, guard: QueryGuard, gzip: bool) -> tuple[bytes, bool]:
        with self._lock:  # who comes meanwhile waits for this one instead of making his own
            made = self._made
            if made is None or self._clock_s() - made.at_s > made.lasts_s:
                body = self._make(guard)
                self._made = made = _Made(self._clock_s(), LASTS_S, LASTS_S, {False: (body, False)})
            if gzip not in made.packed:
                made.packed[gzip] = pack(made.packed[False][0], gzip)
            return made.packed[gzip]
