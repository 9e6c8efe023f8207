"""/api/services: what servers of models do, how their objectives stand, and one of them over time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from trilens.model.errors import NotFound
from trilens.serve.own_queries import Times
from trilens.serve.pages import services_curves as curves
from trilens.serve.pages import services_figures as figures
from trilens.serve.pages.services_answers import ServiceDetail
from trilens.serve.pages.services_openapi import ONE_SERVICE
from trilens.serve.routes import route
from trilens.serve.rules import readable_objectives

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from trilens.alert.slo.file import Objective
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.pages.services_answers import ServicesAnswer
    from trilens.serve.questions import Questions
    from trilens.settings.tree import Settings

_SPAN_MS: Final = 12 * 3_600_000
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


class ServicesApi:
    def __init__(
        self, queries: OwnQueries, objectives: Callable[[], Sequence[Objective]], questions: Questions
    ) -> None:
        self._queries = queries
        self._objectives = objectives
        self._questions = questions

    def routes(self) -> list[Route]:
        return [route("/api/services", self.every), route(ONE_SERVICE, self.one)]

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        at_ms = params.moment_ms("at", self._questions.now_ms())
        found = await self._queries.matrix(figures.query(), Times(at_ms, 1, 1), figures.LABELS)

        def read(_guard: object) -> ServicesAnswer:
            return figures.services(found, self._objectives(), at_ms)

        return await self._questions.answer(request, read)

    async def one(self, request: Request) -> Response:
        params = await self._questions.params(request)
        from_ms, to_ms = params.span_ms(self._questions.now_ms(), _SPAN_MS)
        cluster, namespace, name = (request.path_params[part] for part in ("cluster", "namespace", "name"))
        key = figures.ServiceKey(_told(cluster), _told(namespace), name)
        times, objectives = curves.times_of(from_ms, to_ms), await asyncio.to_thread(self._objectives)
        at_end = await self._queries.matrix(figures.query(key), Times(to_ms, 1, 1), figures.LABELS)
        found = await asyncio.to_thread(figures.one_service, at_end, objectives, key)
        if found is None:
            raise NotFound(
                f"nothing serves as {name!r} in namespace {namespace!r} of cluster {cluster!r} then",
                hint="see /api/services for those that do",
            )
        query = curves.query_of(key, found.named_by, times.step_ms)
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
