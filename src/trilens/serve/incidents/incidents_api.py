"""/api/incidents: what is open now, what was in a span of time, one of them, and that somebody has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from trilens.model.errors import Forbidden, NotFound
from trilens.serve.access.authors import author
from trilens.serve.access.seen_trouble import seen_incidents
from trilens.serve.access.sight import sight_of
from trilens.serve.incidents.incident_answers import incident_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.alert.delivery.held_back import HeldBack
    from trilens.model.incident import Incident
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight
    from trilens.serve.incidents.incident_answers import IncidentAnswer
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

_DAY_MS: Final = 86_400_000
_MOST: Final = 1_000
_GRAVITY: Final = {"critical": 0, "warning": 1, "info": 2}


class OpenIncidents(Protocol):
    """Thread-safe."""

    def open(self) -> Sequence[Incident]: ...

    def acknowledge(self, id: str, by: str) -> Incident: ...


class KeptIncidents(Protocol):
    """Thread-safe."""

    def get(self, id: str, *, guard: QueryGuard | None = None) -> Incident | None: ...

    def during(
        self, from_ms: int, to_ms: int, *, limit: int | None = None, guard: QueryGuard | None = None
    ) -> Sequence[Incident]: ...


class Untold(Protocol):
    """Thread-safe."""

    def held_back(self) -> Mapping[str, Sequence[HeldBack]]:
        """Why nobody, or not everybody, is told of an open incident now, by its id."""


def find_incident(
    lasting: OpenIncidents, kept: KeptIncidents, id: str, guard: QueryGuard | None
) -> Incident | None:
    """As it stands now, where it is open; else as it was kept."""
    found = next((one for one in lasting.open() if one.id == id), None)
    return found or kept.get(id, guard=guard)


class IncidentsApi:
    def __init__(
        self,
        lasting: OpenIncidents,
        kept: KeptIncidents,
        untold: Untold,
        workloads: Workloads,
        questions: Questions,
    ) -> None:
        self._lasting = lasting
        self._kept = kept
        self._untold = untold
        self._workloads = workloads
        self._questions = questions

    async def every(self, request: Request) -> Response:
        """Those that are open; with `from`, `to` or `all` those of that span that are over, too."""
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        wants_past = any(map(params.first, ("from", "to", "all")))
        from_ms, to_ms = params.span_ms(now_ms, _DAY_MS)
        warnings: list[str] = []
        sight = sight_of(request)

        def read(guard: QueryGuard) -> list[IncidentAnswer]:
            known = {one.id: one for one in self._lasting.open() if one.onset_ms <= to_ms}
            if wants_past:
                kept = self._kept.during(from_ms, to_ms, limit=_MOST, guard=guard)
                known = {one.id: one for one in kept} | known
                if len(kept) == _MOST:
                    warnings.append(f"only the latest {_MOST:,} incidents of that time are shown")
            seen = seen_incidents([*known.values()], self._workloads, sight, guard)
            return sorted(self._answers((one for one in seen if _is(one, params)), sight), key=_order)

        return await self._questions.answer(request, read, warnings)

    async def one(self, request: Request) -> Response:
        id, sight = request.path_params["id"], sight_of(request)

        def read(guard: QueryGuard) -> IncidentAnswer:
            return self._answers([self._seen(id, sight, guard)], sight)[0]

        return await self._questions.answer(request, read)

    async def acknowledge(self, request: Request) -> Response:
        params = await self._questions.params(request)
        id, by = request.path_params["id"], author(request, params.first("by"))
        sight = sight_of(request)

        def acknowledge(guard: QueryGuard) -> IncidentAnswer:
            if not sight.is_whole:
                self._check_own(id, sight, guard)
            return self._answers([self._lasting.acknowledge(id, by)], sight)[0]

        return await self._questions.answer(request, acknowledge)

    def _seen(self, id: str, sight: Sight, guard: QueryGuard) -> Incident:
        """Cut to what is seen of it."""
        found = find_incident(self._lasting, self._kept, id, guard)
        seen = seen_incidents([found], self._workloads, sight, guard) if found is not None else []
        if not seen:
            raise NotFound(f"there is no incident {id!r}")
        return seen[0]

    def _check_own(self, id: str, sight: Sight, guard: QueryGuard) -> None:
        """That somebody has it is told to all who suffer from it."""
        seen = self._seen(id, sight, guard)
        if seen != find_incident(self._lasting, self._kept, id, guard):
            raise Forbidden(
                f"{id} hits others, too: who sees teams alone may not acknowledge it",
                hint="ask who sees the whole fleet",
            )

    def _answers(self, incidents: Iterable[Incident], sight: Sight) -> list[IncidentAnswer]:
        held_back = self._untold.held_back() if sight.is_whole else {}
        return [incident_answer(one, held_back.get(one.id, ())) for one in incidents]


def _is(incident: Incident, params: Params) -> bool:
    severity, workload, team, node = map(params.first, ("severity", "workload", "team", "node"))
    subjects = [one.subject for one in incident.symptoms]
    return (
        (not severity or incident.severity == severity)
        and (not workload or any(name.rpartition("/")[2] == workload for name in incident.workloads))
        and (not team or any(one.team == team for one in subjects))
        and (not node or any(one.node == node for one in subjects))
    )


def _order(incident: IncidentAnswer) -> tuple[bool, int, int]:
    """What is open first, the gravest of it at the top; then the latest."""
    return incident.resolved_ms is not None, _GRAVITY.get(incident.severity, 3), -incident.onset_ms
