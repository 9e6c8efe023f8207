"""/api/services: what servers of models do, how their objectives stand, and one of them over time."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.model.errors import NotFound
from trilens.promql.bounded import bounded
from trilens.serve.access.sight import WHOLE, sight_of
from trilens.serve.envelope import success
from trilens.serve.own_queries import Times
from trilens.serve.pages import services_curves as curves
from trilens.serve.pages import services_figures as figures
from trilens.serve.pages.apis import PageApi
from trilens.serve.pages.services_answers import ServiceDetail
from trilens.serve.pages.shared_answer import seen_to
from trilens.serve.routes import route
from trilens.serve.rules import readable_objectives

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.alert.slo.file import Objective
    from trilens.serve.access.sight import Sight
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute
    from trilens.settings.tree import Settings

_FRESH_S: Final = 12.0  # the next look is due, and makes the next one
_WATCHED_S: Final = 30.0  # nobody asked for so long: it is not made
_SPAN_MS: Final = 12 * 3_600_000
_ONE: Final = "/api/services/{cluster}/{namespace}/{name:path}"  # a PodMonitor's job is namespace/name
_NONE: Final = "-"  # in a path, as it cannot be empty there


class ObjectivesInForce:
    """Read from their files once for each reading of the settings. Thread-safe."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings
        self._read: tuple[Settings, Sequence[Objective]] | None = None

    def __call__(self) -> Sequence[Objective]:
        settings, read = self._settings(), self._read
        if read is None or read[0] is not settings:
            self._read = read = (settings, readable_objectives(settings))
        return read[1]


class ServicesApi(PageApi):
    """What there is now is the same for all who look, and made before they ask while somebody does."""

    def __init__(
        self,
        queries: OwnQueries,
        objectives: Callable[[], Sequence[Objective]],
        questions: Questions,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._queries = queries
        self._objectives = objectives
        self._questions = questions
        self._clock_s = clock_s
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked_s = 0.0
        self._made: tuple[float, bytes] | None = None
        self._making: asyncio.Task[bytes] | None = None

    def routes(self) -> list[GuardedRoute]:
        return [route("/api/services", self.every, narrowed=True), route(_ONE, self.one, narrowed=True)]

    def looked(self) -> None:
        """The fleet was looked at: in any thread."""
        if self._loop is not None and self._clock_s() - self._asked_s <= _WATCHED_S:
            with suppress(RuntimeError):  # the server stops, and its loop with it
                self._loop.call_soon_threadsafe(self._begin)

    async def every(self, request: Request) -> Response:
        params, sight = await self._questions.params(request), sight_of(request)
        if params.first("at") or not sight.is_whole:
            body = await self._body(params.moment_ms("at", self._questions.now_ms()), sight)
        else:
            body = await self._body_now()
        return await self._questions.answer_bytes(request, lambda _guard: body)

    async def _body_now(self) -> bytes:
        self._loop, self._asked_s = asyncio.get_running_loop(), self._clock_s()
        made = self._made
        if made is not None and self._asked_s - made[0] <= _FRESH_S:
            return made[1]
        return await asyncio.shield(self._begin())  # who goes away does not take it from the others

    def _begin(self) -> asyncio.Task[bytes]:
        if self._making is None:
            self._making = asyncio.create_task(self._make())
            self._making.add_done_callback(seen_to)
        return self._making

    async def _make(self) -> bytes:
        try:
            made_s, body = self._clock_s(), await self._body(self._questions.now_ms())
            self._made = made_s, body
            return body
        finally:
            self._making = None

    async def _body(self, at_ms: int, sight: Sight = WHOLE) -> bytes:
        asked = bounded(figures.query(), sight.matchers)
        found = await self._queries.matrix(asked, Times(at_ms, 1, 1), figures.LABELS)

        def told() -> bytes:
            services = figures.services(found, self._objectives(), at_ms)
            if not sight.is_whole:  # objectives that nothing of his is measured by are others'
                services = msgspec.structs.replace(services, unmatched=[])
            return success(msgspec.json.encode(services))

        return await asyncio.to_thread(told)

    async def one(self, request: Request) -> Response:
        params = await self._questions.params(request)
        from_ms, to_ms = params.span_ms(self._questions.now_ms(), _SPAN_MS)
        cluster, namespace, name = (request.path_params[part] for part in ("cluster", "namespace", "name"))
        key = figures.ServiceKey(_told(cluster), _told(namespace), name)
        times, objectives = curves.times_of(from_ms, to_ms), await asyncio.to_thread(self._objectives)
        own = sight_of(request).matchers
        asked = bounded(figures.query(key), own)
        at_end = await self._queries.matrix(asked, Times(to_ms, 1, 1), figures.LABELS)
        found = await asyncio.to_thread(figures.one_service, at_end, objectives, key)
        if found is None:
            raise NotFound(
                f"nothing serves as {name!r} in namespace {namespace!r} of cluster {cluster!r} then",
                hint="see /api/services for those that do",
            )
        query = bounded(curves.query_of(key, found.named_by, times.step_ms), own)
        over_time = await self._queries.matrix(query, times, curves.LABELS)

        def read(_guard: object) -> ServiceDetail:
            return ServiceDetail(
                found.service,
                found.models,
                from_ms,
                to_ms,
                times.step_ms,
                [times.start_ms + at * times.step_ms for at in range(times.moments)],
                curves.curves_of(over_time),
                curves.slo_curves_of(over_time, objectives),
            )

        return await self._questions.answer(request, read)


def _told(part: str) -> str:
    return "" if part == _NONE else part
