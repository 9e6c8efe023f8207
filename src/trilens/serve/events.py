"""/api/events: what happened in a span of time, and to which workloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.model.errors import RequestError
from trilens.serve.access.sight import sight_of
from trilens.serve.event_view import answers, seen_events

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.event_answers import EventAnswer, WorkloadName
    from trilens.serve.questions import Questions
    from trilens.store.events import EventRecords

_DAY_MS: Final = 86_400_000
_SHOWN: Final = 100
_MOST_READ: Final = 10_000  # a broken GPU may write thousands of lines an hour
_NOBODY_ASKED: Final = "no agent is asked, so faults of GPUs are not known; see agents.scrape_config"


class EventsApi:
    """`agents` is None where none is asked."""

    def __init__(
        self,
        events: EventRecords,
        records: Workloads,
        agents: AgentIntake | None,
        questions: Questions,
    ) -> None:
        self._events = events
        self._records = records
        self._agents = agents
        self._questions = questions

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        from_ms, to_ms = params.span_ms(self._questions.now_ms(), _DAY_MS)
        node, cluster = params.first("node") or None, params.first("cluster") or None
        limit = params.count("limit") or _SHOWN
        wanted = params.first("workload").split("/") if params.first("workload") else []
        if wanted and (not all(wanted) or len(wanted) not in (1, 2, 4)):
            raise RequestError(
                'invalid parameter "workload"',
                hint="write NAME, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME",
            )
        sight = sight_of(request)
        warnings = sight.warnings(self._agents.warnings() if self._agents is not None else [_NOBODY_ASKED])

        def read(guard: QueryGuard) -> list[EventAnswer]:
            # Which workload one hit is known only when it was read: then the request's limit is too low.
            most = _MOST_READ if wanted or not sight.is_whole else min(limit, _MOST_READ)
            found = self._events.between(from_ms, to_ms, node=node, cluster=cluster, limit=most, guard=guard)
            seen = seen_events(answers(found, self._records, guard), self._records, sight, guard)
            told = [one for one in seen if not wanted or _hit(one, wanted)]
            if len(found) == _MOST_READ:
                warnings.append(f"only the latest {_MOST_READ:,} events of that time were looked at")
            return told[:limit]

        return await self._questions.answer(request, read, warnings)


def _hit(event: EventAnswer, wanted: list[str]) -> bool:
    return any(victim.workload is not None and _is(victim.workload, wanted) for victim in event.victims)


def _is(workload: WorkloadName, wanted: list[str]) -> bool:
    if workload.name != wanted[-1]:
        return False
    kinds = (workload.kind.lower(), f"{workload.kind}.{workload.group}".lower())
    if len(wanted) == 4:
        cluster, namespace, kind = wanted[:3]
        return (cluster, namespace) == (workload.cluster, workload.namespace) and kind.lower() in kinds
    return len(wanted) == 1 or wanted[0] == workload.namespace or wanted[0].lower() in kinds
