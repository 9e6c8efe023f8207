"""/api/gpus/{uuid}/life: one GPU over a span of time: who held it, what broke, what it read, what it cost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.ledger.answers.cost import by_keys, whole_hours
from trilens.model.errors import NotFound, TrilensError
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.workload import GpuUuid
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.seen_trouble import seen_findings
from trilens.serve.access.seen_workloads import seen_workloads
from trilens.serve.access.sight import sight_of
from trilens.serve.event_answers import WorkloadName
from trilens.serve.money.cost_view import amount_text
from trilens.serve.money.spending_answer import BucketAnswer
from trilens.serve.pages.apis import PageApi
from trilens.serve.pages.fleet_columns import LOST, REPORTING, SILENT
from trilens.serve.pages.gpu_life_answers import (
    GpuLife,
    HeldSpan,
    LifeCurves,
    LifeEvent,
    LifeFinding,
    ReportingSpan,
)
from trilens.serve.pages.gpu_life_curves import life_curves, moments
from trilens.serve.pages.gpu_life_seen import own_events, own_time
from trilens.serve.routes import route
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.source import LedgerBook
    from trilens.model.gpu import BindingInterval, Gpu, GpuInterval
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight
    from trilens.serve.detection.finding_log import FindingLog
    from trilens.serve.gpu_bindings import GpuBindings
    from trilens.serve.pages.gpu_life_curves import Asks
    from trilens.serve.questions import Questions
    from trilens.serve.routes import GuardedRoute
    from trilens.store.events import EventRecords
    from trilens.store.gpus import GpuRecords

PATH: Final = "/api/gpus/{uuid}/life"
_SHOWN_MS: Final = 12 * 3_600_000
_EVENTS_SHOWN: Final = 200  # a broken GPU may write thousands of lines an hour
_UUID: Final = re.compile(r"[A-Za-z0-9_.:-]{1,100}")
_NO_CURVES: Final = LifeCurves([], [], [], [], [])


class GpuLifeApi(PageApi):
    """`bindings` tells of the present."""

    def __init__(
        self,
        gpus: GpuRecords,
        workloads: Workloads,
        events: EventRecords,
        findings: FindingLog,
        book: LedgerBook,
        asked: Asks,
        bindings: GpuBindings,
        questions: Questions,
    ) -> None:
        self._gpus = gpus
        self._workloads = workloads
        self._events = events
        self._findings = findings
        self._book = book
        self._asked = asked
        self._bindings = bindings
        self._questions = questions

    def routes(self) -> list[GuardedRoute]:
        return [route(PATH, self.show, narrowed=True)]

    async def show(self, request: Request) -> Response:
        params = await self._questions.params(request)
        uuid = request.path_params["uuid"]
        from_ms, to_ms = params.span_ms(self._questions.now_ms(), _SHOWN_MS)
        warnings: list[str] = []
        is_one, sight = _UUID.fullmatch(uuid) is not None, sight_of(request)
        curves = await self._curves(uuid, (from_ms, to_ms), warnings) if is_one else _NO_CURVES

        def read(guard: QueryGuard) -> GpuLife:
            known = self._gpus.gpus_named({uuid}, to_ms, guard) if is_one else []
            if not any(sight.shows_cluster(one.gpu.cluster) for one in known):
                raise _no_gpu(uuid)
            gpu, places, span = known[-1].gpu, [one.gpu for one in known], (from_ms, to_ms)
            with self._questions.runner.side_by_side.reading(guard) as reads:
                spent = reads.begin(lambda: self._buckets(sight, uuid, span, guard))
                happened = reads.begin(lambda: self._what_happened(sight, places, span, warnings, guard))
                found = reads.begin(lambda: self._found(sight, uuid, span, guard))
                held = self._held(sight, self._gpus.bindings_on(uuid, *span, guard), span, guard)
                (buckets, currency), events, findings = spent(), happened(), found()
            if sight.teams is not None and not held:
                raise _no_gpu(uuid)
            life = GpuLife(
                uuid,
                gpu.cluster,
                gpu.node,
                gpu.index or None,
                gpu.model or None,
                self._state(known),
                from_ms,
                to_ms,
                min(one.from_ms for one in known),
                held,
                [ReportingSpan(one.from_ms, one.to_ms, one.gpu.node) for one in _within(known, span)],
                events,
                findings,
                curves,
                buckets,
                currency,
            )
            return life if sight.teams is None else own_time(life)

        return await self._questions.answer(request, read, warnings)

    def _state(self, known: Sequence[GpuInterval]) -> str:
        """Of the whole device: it reports if any instance of it does."""
        keys = {one.gpu.key for one in known}
        now = self._bindings.now
        if any(key in now.gpus for key in keys):
            return REPORTING
        is_lost = any(gone.gpu.key in keys for node in now.nodes for gone in node.named)
        return LOST if is_lost else SILENT

    def _held(
        self, sight: Sight, bindings: Sequence[BindingInterval], span: tuple[int, int], guard: QueryGuard
    ) -> list[HeldSpan]:
        pods = {(one.binding.pod.namespace, one.binding.pod.name, one.binding.pod.uid) for one in bindings}
        members = seen_workloads(self._workloads, sight).members_among(pods, Span(*span), guard)
        workloads = {one.membership.pod: one.membership.workload for one in members}
        found = []
        for one in bindings:
            pod, key = one.binding.pod, workloads.get(one.binding.pod)
            if key is None and not sight.is_whole:
                continue
            share = one.binding.share
            found.append(
                HeldSpan(
                    one.from_ms,
                    one.to_ms,
                    WorkloadName(*key) if key is not None else None,
                    pod.namespace,
                    pod.name,
                    one.binding.rank,
                    str(share) if share is not None else None,
                    one.binding.gpu.instance or None,
                )
            )
        return found

    def _what_happened(
        self,
        sight: Sight,
        places: Sequence[Gpu],
        span: tuple[int, int],
        warnings: list[str],
        guard: QueryGuard,
    ) -> list[LifeEvent]:
        """Newest first."""
        told = self._events.of_gpu(places, *span, limit=_EVENTS_SHOWN + 1, guard=guard)
        if len(told) > _EVENTS_SHOWN:
            warnings.append(f"only the latest {_EVENTS_SHOWN:,} events are shown: a shorter span has others")
        told = told[:_EVENTS_SHOWN]
        if sight.teams is not None:
            return own_events(told, self._workloads, sight, guard)
        return [LifeEvent(one.t_ms, one.kind.value, one.code, one.title, one.asks, one.text) for one in told]

    def _found(self, sight: Sight, uuid: str, span: tuple[int, int], guard: QueryGuard) -> list[LifeFinding]:
        every = self._findings.during(*span, naming=GpuUuid(uuid))
        return [
            LifeFinding(
                one.key.id,
                one.finding.code,
                one.finding.severity.value,
                one.finding.text,
                one.finding.action,
                one.finding.onset_ms,
                one.ended_ms,
            )
            for one in seen_findings(every, self._workloads, sight, guard)
            if one.finding.subject.gpu == uuid
        ][::-1]

    async def _curves(self, uuid: str, span: tuple[int, int], warnings: list[str]) -> LifeCurves:
        try:
            return await life_curves(self._asked, uuid, moments(*span))
        except TrilensError as e:
            warnings.append(f"what it read is not known: {e}")
            return _NO_CURVES

    def _buckets(
        self, sight: Sight, uuid: str, span: tuple[int, int], guard: QueryGuard
    ) -> tuple[list[BucketAnswer], str | None]:
        """In whole hours, which is what the ledger has."""
        window = Window(*whole_hours(*span), {Dimension.GPU: (uuid,)})
        sums = by_keys(seen_book(self._book, sight).sums([Dimension.BUCKET], window, guard=guard))
        currencies = sorted({one.currency for one in sums if one.currency})
        shown = [
            BucketAnswer(
                str(one.keys[0]),
                one.gpu_ms,
                amount_text(one.quanta) if one.currency and not one.unpriced_ms else None,
            )
            for one in sums
            if not one.currency or one.currency == currencies[0]
        ]
        return shown, currencies[0] if currencies else None


def _no_gpu(uuid: str) -> NotFound:
    return NotFound(f"no GPU {uuid!r} is known at that time", hint="/api/fleet has them all")


def _within(known: Iterable[GpuInterval], span: tuple[int, int]) -> list[GpuInterval]:
    from_ms, _ = span
    return [one for one in known if one.to_ms is None or one.to_ms > from_ms]
