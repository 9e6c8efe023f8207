"""/api/doctor: what this server cannot see, what that costs, and what to do."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.serve.asked_loop import AskedLoop
from trilens.serve.checkup.evidence import Evidence
from trilens.serve.checkup.finding import Layer
from trilens.serve.checkup.layers import OF_A_SERVER, examine_layers
from trilens.serve.checkup.unconnected import UNCONNECTED
from trilens.serve.envelope import accepts_gzip, pack, packed_response, success
from trilens.serve.pages.apis import PageApi
from trilens.serve.pages.doctor_advice import ADVICE, AREAS, ELSEWHERE
from trilens.serve.pages.doctor_answers import DoctorAnswer, DoctorArea, DoctorFinding, DoctorLayer
from trilens.serve.pages.doctor_inside import InsideServer
from trilens.serve.pages.shared_answer import seen_to
from trilens.serve.params import read_params
from trilens.serve.questions import clock_ms
from trilens.serve.routes import route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from trilens.serve.checkup.evidence import Server
    from trilens.serve.checkup.finding import Examined, Finding
    from trilens.serve.routes import GuardedRoute

    State = Literal["problem", "note", "unconnected", "ok"]

_FRESH_S: Final = 15.0  # it goes through every workload: looked at no more often,
_OLDEST_S: Final = 600.0  # and for so long what it last saw is told, with when that was, while it looks again
_ALONE_S: Final = 540.0  # before that it looks by itself, so that who comes first has not to wait
_WORST_FIRST: Final[tuple[State, ...]] = ("problem", "note", "unconnected", "ok")
_MOST_BODY: Final = 1 << 16


class DoctorApi(PageApi):
    """`routes` are those of this server, which the checks ask. One examination serves all who wait for it."""

    def __init__(self, routes: Sequence[BaseRoute], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._routes = routes
        self._clock_s = clock_s
        self._last: DoctorAnswer | None = None
        self._made_s = 0.0
        self._looking: asyncio.Task[DoctorAnswer] | None = None
        self._loop: AskedLoop | None = None

    def begun(self, loop: AskedLoop) -> None:
        self._loop = loop

    def routes(self) -> list[GuardedRoute]:
        return [route("/api/doctor", self.examine)]

    async def examine(self, request: Request) -> Response:
        params = await read_params(request, _MOST_BODY)
        answer = await self._answer(fresh=params.first("fresh") == "true")
        told = msgspec.structs.replace(answer, now_ms=clock_ms())
        return packed_response(pack(success(msgspec.json.encode(told)), accepts_gzip(request)))

    def looked(self) -> None:
        """The fleet was looked at, so there is something to examine: in any thread."""
        is_due = self._last is None or self._clock_s() - self._made_s >= _ALONE_S
        if is_due and self._looking is None and self._loop is not None:
            self._loop.soon(self._begin)

    def _begin(self) -> asyncio.Task[DoctorAnswer]:
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(seen_to)
        return self._looking

    async def _answer(self, *, fresh: bool) -> DoctorAnswer:
        age_s = self._clock_s() - self._made_s
        if self._last is not None and age_s < _FRESH_S and not fresh:
            return self._last
        looking = self._begin()
        if self._last is not None and age_s < _OLDEST_S and not fresh:
            return self._last
        return await asyncio.shield(looking)  # who goes away does not take it from the others

    async def _look(self) -> DoctorAnswer:
        try:
            server = InsideServer(self._routes, self._loop or AskedLoop(asyncio.get_running_loop()))
            self._last = await asyncio.to_thread(examination, server)
            self._made_s = self._clock_s()
            return self._last
        finally:
            self._looking = None


def examination(server: Server) -> DoctorAnswer:
    began_ms = clock_ms()
    evidence = Evidence(server)
    layers, found = [], []
    unconnected = [Layer(one.name, lambda _: "", UNCONNECTED.get(one.name, ())) for one in OF_A_SERVER]
    for seen, open_ends in zip(
        examine_layers(OF_A_SERVER, evidence), examine_layers(unconnected, evidence), strict=True
    ):
        of_it = [*_findings(seen, "note"), *_findings(open_ends, "unconnected")]
        layers.append(DoctorLayer(seen.layer, seen.sees, _worst([one.kind for one in of_it])))
        found += of_it
    areas = []
    for area in AREAS:
        within = sorted(
            (one for one in found if one.layer in area.layers), key=lambda one: _WORST_FIRST.index(one.kind)
        )
        areas.append(
            DoctorArea(
                area.area,
                area.title,
                area.gives,
                _worst([one.kind for one in within]),
                [one for one in layers if one.layer in area.layers],
                within,
            )
        )
    return DoctorAnswer(began_ms, began_ms, clock_ms() - began_ms, areas, ELSEWHERE)


def _findings(of: Examined, otherwise: Literal["note", "unconnected"]) -> list[DoctorFinding]:
    return [_finding(of.layer, one, "problem" if one.is_problem else otherwise) for one in of.found]


def _finding(layer: str, finding: Finding, kind: Literal["problem", "note", "unconnected"]) -> DoctorFinding:
    """The lines after a remedy's first are of a file."""
    words, _, lines = finding.remedy.partition("\n")
    advice = ADVICE.get(finding.check)
    where, copy = (None, lines) if lines else (advice.where, advice.copy) if advice else (None, None)
    return DoctorFinding(layer, finding.check, kind, finding.what, finding.means, words, where, copy)


def _worst(states: Sequence[State]) -> State:
    return min(states, key=_WORST_FIRST.index, default="ok")
