"""/api/workloads: the workloads at any moment, and all that is known of one."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from trilens.ledger.answers.spending import workload_spending
from trilens.model.errors import NotFound, RequestError
from trilens.model.life import Phase
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.seen_workloads import seen_workloads
from trilens.serve.access.sight import sight_of
from trilens.serve.gpu_view import member_gpus, without_names
from trilens.serve.workload_view import detail, summary
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.answers.spending import Spending
    from trilens.ledger.source import LedgerBook
    from trilens.model.gpu import BindingInterval
    from trilens.model.query import QueryGuard
    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.gpu_bindings import GpuBindings
    from trilens.serve.intakes import Intakes
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions
    from trilens.serve.workload_answers import MemberGpuAnswer, WorkloadAnswer, WorkloadDetail
    from trilens.store.gpus import GpuRecords
    from trilens.store.workloads import WorkloadHistory

_NOT_WATCHED = "no cluster is watched and no agent asked; see kubernetes.clusters and agents.scrape_config"


class _Moment(NamedTuple):
    at_ms: int
    is_now: bool


class _Read(NamedTuple):
    answer: list[WorkloadAnswer] | WorkloadDetail
    clusters: set[str]


class WorkloadsApi:
    """`intakes` is None where nothing is watched, `bindings` tells of the present."""

    def __init__(
        self,
        records: Workloads,
        gpus: GpuRecords,
        bindings: GpuBindings,
        book: LedgerBook,
        intakes: Intakes | None,
        questions: Questions,
    ) -> None:
        self._records = records
        self._gpus = gpus
        self._bindings = bindings
        self._book = book
        self._intakes = intakes
        self._questions = questions

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        moment = _moment(params)
        named = {part: params.first(part) or None for part in ("cluster", "namespace", "name")}
        since_ms = params.when_ms("from", moment.at_ms, self._questions.now_ms())
        if since_ms > moment.at_ms:
            raise RequestError('invalid parameter "from": it is after the moment asked about')
        phase = _phase(params)
        records = seen_workloads(self._records, sight_of(request))

        def read(guard: QueryGuard) -> _Read:
            found = records.during(Span(since_ms, moment.at_ms), **named, guard=guard)
            ready = self._ready_pods(moment)
            every = (summary(history, moment.at_ms, ready.get(history.record.key)) for history in found)
            answer = [one for one in every if phase is None or _is_at(one, phase)]
            return _Read(answer, {one.cluster for one in answer})

        return await self._answer(request, read)

    async def one(self, request: Request) -> Response:
        params = await self._questions.params(request)
        moment, limit = _moment(params), params.count("limit")
        wanted, sight = request.path_params, sight_of(request)
        records, book = seen_workloads(self._records, sight), seen_book(self._book, sight)

        def read(guard: QueryGuard) -> _Read:
            history = workload_named(records, wanted, moment.at_ms, guard)
            key = history.record.key
            ready = self._ready_pods(moment).get(key)
            held, spent = self._held(history, moment, guard), _spent(book, history, moment, guard)
            lasting = sum(one.to_ms is None for one in held)
            gpus = self._gpus_of(history, held, limit, moment, guard)
            if not sight.is_whole:
                gpus = [replace(one, doubts=without_names(one.doubts)) for one in gpus]
            answer = detail(history, moment.at_ms, ready, gpus, lasting, spent, limit)
            return _Read(answer, {key.cluster})

        return await self._answer(request, read)

    def _held(self, history: WorkloadHistory, moment: _Moment, guard: QueryGuard) -> list[BindingInterval]:
        pods = {one.membership.pod for one in history.members}
        lasting = self._bindings.held_by if moment.is_now else None
        if lasting is None:
            return self._gpus.bindings_of(pods, moment.at_ms, guard)
        # Of thousands, reading again what is known would take most of the time of the answer.
        ended = self._gpus.bindings_of(pods, moment.at_ms, guard, only_ended=True)
        return [*ended, *(one for pod in pods for one in lasting.get(pod, ()))]

    def _gpus_of(
        self,
        history: WorkloadHistory,
        bindings: Sequence[BindingInterval],
        limit: int | None,
        moment: _Moment,
        guard: QueryGuard,
    ) -> list[MemberGpuAnswer]:
        attempts = {one.membership.pod: one.membership.attempt for one in history.members}
        if limit is not None and len(bindings) > limit:
            bindings = heapq.nsmallest(limit, bindings, key=_lasting_first)
        now = self._bindings.now if moment.is_now else None
        keys = {interval.binding.gpu for interval in bindings}
        there = {key: now.gpus[key] for key in keys if key in now.gpus} if now is not None else {}
        others = {key.uuid for key in keys - there.keys()}
        gone = {one.gpu.key: one.gpu for one in self._gpus.gpus_named(others, moment.at_ms, guard)}
        return member_gpus(bindings, {**gone, **there}, attempts, now.told if now is not None else None)

    async def _answer(self, request: Request, read: Callable[[QueryGuard], _Read]) -> Response:
        told = self._intakes.warnings() if self._intakes is not None else [_NOT_WATCHED]
        warnings = sight_of(request).warnings(told)

        def answered(guard: QueryGuard) -> list[WorkloadAnswer] | WorkloadDetail:
            answer, clusters = read(guard)
            warnings.extend(self._unwatched(clusters))
            return answer

        return await self._questions.answer(request, answered, warnings)

    def _unwatched(self, clusters: set[str]) -> list[str]:
        watched = self._intakes.names if self._intakes is not None else ()
        gone = sorted(clusters.difference(watched))
        return [f"{cluster}: no longer watched, and shown as it was last seen" for cluster in gone]

    def _ready_pods(self, moment: _Moment) -> Mapping[WorkloadKey, frozenset[PodKey]]:
        return self._intakes.ready_pods() if self._intakes is not None and moment.is_now else {}


def _spent(book: LedgerBook, history: WorkloadHistory, moment: _Moment, guard: QueryGuard) -> Spending | None:
    """The ledger has whole hours: what it was at a moment in one of them nobody can tell."""
    if not moment.is_now or not history.members:
        return None
    from_ms = min(member.from_ms for member in history.members)
    to_ms = max(member.to_ms if member.to_ms is not None else moment.at_ms for member in history.members)
    return workload_spending(book, history.record.key, from_ms, to_ms, moment.at_ms, guard)


def workload_named(
    records: Workloads, wanted: Mapping[str, str], until_ms: int, guard: QueryGuard
) -> WorkloadHistory:
    """By the parts of a path. Raises NotFound."""
    kind, _, group = wanted["kind"].partition(".")
    found = records.named(
        wanted["name"],
        cluster=wanted["cluster"],
        namespace=wanted["namespace"],
        kind=kind,
        until_ms=until_ms,
        guard=guard,
    )
    if group:
        found = [history for history in found if history.record.key.group == group]
    if not found:
        name = "{cluster}/{namespace}/{kind}/{name}".format(**wanted)
        raise NotFound(f"no workload {name} is known at that time", hint="/api/workloads has them all")
    return _the_one(found)


def _lasting_first(interval: BindingInterval) -> tuple[object, ...]:
    binding = interval.binding
    rank = binding.rank
    return interval.to_ms is not None, -(interval.to_ms or 0), rank is None, rank or 0, binding.pod.name


def _moment(params: Params) -> _Moment:
    now_ms = time.time_ns() // 1_000_000
    return _Moment(params.moment_ms("at", now_ms), not params.first("at"))


def _phase(params: Params) -> Phase | None:
    written = params.first("phase")
    try:
        return Phase(written) if written else None
    except ValueError as e:
        known = ", ".join(phase.value for phase in Phase)
        raise RequestError(f'invalid parameter "phase": {written!r} is none of {known}') from e


def _is_at(one: WorkloadAnswer, phase: Phase) -> bool:
    """Or was at last, if it is gone."""
    last = one.gone or one.phase
    return last is not None and last.phase == phase


def _the_one(found: list[WorkloadHistory]) -> WorkloadHistory:
    """Of namesakes, one after the other, the latest; of two kinds of the same name nobody can tell."""
    groups = {history.record.key.group for history in found}
    if len(groups) > 1:
        kind = found[0].record.key.kind
        which = " or ".join(f"{kind}.{group}" if group else kind for group in sorted(groups))
        raise RequestError(f"there are several kinds {kind} with this name", hint=f"write {which}")
    return max(found, key=_begun_ms)


def _begun_ms(history: WorkloadHistory) -> int:
    begun = [member.from_ms for member in history.members] + [phase.from_ms for phase in history.phases]
    return max(begun)
