"""/api/ledger: what is booked, whether it adds up, and computing it again."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from trilens.ledger.booked_sums import node_sums
from trilens.ledger.due_hours import hour_of
from trilens.ledger.verify import verify_sums
from trilens.model.errors import RequestError
from trilens.model.ledger import HOUR_MS, as_amount
from trilens.model.ledger_sums import Dimension, Window
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.sight import sight_of
from trilens.serve.money.ledger_answers import (
    HourAnswer,
    HourWarning,
    LedgerAnswer,
    MismatchAnswer,
    RecomputeAnswer,
    VerifyAnswer,
)
from trilens.serve.routes import DETAIL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger import NodeBill
    from trilens.model.ledger_sums import BookedHour, Sum
    from trilens.model.query import QueryGuard
    from trilens.serve.money.ledger_keeper import LedgerKeeper
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

_DAY_MS: Final = 24 * HOUR_MS
_MOST_MISMATCHES: Final = 1_000
_ROWS_AT_ONCE: Final = 100_000
_SEVERAL: Final = "several"  # as the book calls more than one currency


class LedgerApi:
    def __init__(self, book: LedgerBook, keeper: LedgerKeeper, questions: Questions) -> None:
        self._book = book
        self._keeper = keeper
        self._questions = questions

    async def state(self, request: Request) -> Response:
        """Of all hours, or of those of a span."""
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        from_ms = params.when_ms("from", 0, now_ms) if params.first("from") else None
        to_ms = params.when_ms("to", 0, now_ms) if params.first("to") else None
        return await self._questions.answer(request, lambda _: _state(self._keeper, from_ms, to_ms))

    async def hours(self, request: Request) -> Response:
        params = await self._questions.params(request)
        from_ms, to_ms = _span(params)
        sight = sight_of(request)
        book = seen_book(self._book, sight)

        def read(guard: QueryGuard) -> list[HourAnswer]:
            hours = book.hours(from_ms, to_ms, guard=guard)
            if not sight.is_whole:
                hours = _with_own_sums(book, hours, Window(from_ms, to_ms), guard)
            return [_hour(one) for one in hours]

        return await self._questions.answer(request, read)

    async def verify(self, request: Request) -> Response:
        params = await self._questions.params(request)
        span = _span(params)
        return await self._questions.answer(request, lambda guard: _verified(self._book, *span, guard))

    async def recompute(self, request: Request) -> Response:
        params = await self._questions.params(request)
        if not (params.first("from") and params.first("to")):
            raise RequestError("`from` and `to` say which hours to compute again")
        span = _span(params)
        request.scope[DETAIL] = f"{params.first('from')} to {params.first('to')}"

        def ask(guard: QueryGuard) -> RecomputeAnswer:
            return RecomputeAnswer(self._keeper.recompute(*span, guard=guard))

        return await self._questions.answer(request, ask)


def _span(params: Params) -> tuple[int, int]:
    """Whole hours: those that the span touches. The last day if nothing is said."""
    now_ms = time.time_ns() // 1_000_000
    to_ms = params.when_ms("to", now_ms, now_ms)
    from_ms = params.when_ms("from", to_ms - _DAY_MS, now_ms)
    if from_ms >= to_ms:
        raise RequestError("`from` must lie before `to`")
    return hour_of(from_ms), hour_of(to_ms - 1) + HOUR_MS


def _state(keeper: LedgerKeeper, from_ms: int | None, to_ms: int | None) -> LedgerAnswer:
    state = keeper.state
    waiting = keeper.waiting(from_ms, to_ms)
    return LedgerAnswer(
        state.upto_ms,
        {str(reason): hours for reason, hours in waiting.items()},
        {str(reason): hours for reason, hours in dict(state.computed).items()},
        state.revisions,
        state.failures,
        state.left,
        state.took_s,
        list(state.troubles.values()),
    )


def _hour(one: BookedHour) -> HourAnswer:
    has_amount = one.currency not in ("", _SEVERAL)
    return HourAnswer(
        one.hour_ms,
        one.revision,
        one.upto_ms,
        one.upto_ms < one.hour_ms + HOUR_MS,
        one.computed_ms,
        one.reason,
        one.rows,
        one.gpu_ms,
        one.unpriced_ms,
        f"{as_amount(one.quanta):f}" if has_amount else None,
        f"{as_amount(one.changed_quanta):f}" if has_amount else None,
        one.currency,
        one.prices,
        one.digest,
        [HourWarning(*doubt, gpu_ms) for doubt, gpu_ms in one.warnings],
    )


def _with_own_sums(
    book: LedgerBook, hours: Sequence[BookedHour], window: Window, guard: QueryGuard
) -> list[BookedHour]:
    """The latest revision of each, with what is seen of it: what earlier ones said is not kept by owner."""
    sums: defaultdict[object, list[Sum]] = defaultdict(list)
    for one in book.sums([Dimension.HOUR], window, guard=guard):
        sums[one.keys[0]].append(one)
    found = []
    for hour in {one.hour_ms: one for one in hours}.values():
        own = sums[hour.hour_ms]
        currencies = sorted({one.currency for one in own if one.currency})
        found.append(
            hour._replace(
                gpu_ms=sum(one.gpu_ms for one in own),
                quanta=sum(one.quanta for one in own),
                unpriced_ms=sum(one.unpriced_ms for one in own),
                currency=_SEVERAL if len(currencies) > 1 else "".join(currencies),
            )
        )
    return found


def _verified(book: LedgerBook, from_ms: int, to_ms: int, guard: QueryGuard) -> VerifyAnswer:
    """Some hours at a time: a day of a large fleet would take much memory, and a month of a small one would
    be as many questions as it has hours."""
    billed: defaultdict[str, int] = defaultdict(int)
    booked: defaultdict[str, int] = defaultdict(int)
    found: list[MismatchAnswer] = []
    node_hours = rows = gpu_ms = 0
    hours = _latest(book, Window(from_ms, to_ms), guard)
    for window in _stretches(hours):
        named, damaged, bills, batches = _of_one_state(book, window, guard)
        sums = node_sums(batches)
        there = _rows_by_hour(batches)
        node_hours += len(bills)
        rows += there.total()
        for hour in damaged:
            text = (
                f"{there[hour]} rows are there, and {named[hour].rows} were written"
                if there[hour] != named[hour].rows
                else "other rows or bills are there than were written"
            )
            found.append(MismatchAnswer(hour, "", "", "rows", f"{text}; computing the hour again mends that"))
        for bill in bills:
            gpu_ms += bill.gpu_ms
            billed[bill.currency] += sum(bill.components.values())
        for of_node in sums:
            for currency in of_node.currencies:  # one, or it is a mismatch
                booked[currency] += of_node.quanta
        found += [MismatchAnswer(*mismatch) for mismatch in verify_sums(bills, sums)]
    return VerifyAnswer(
        len(hours), node_hours, rows, gpu_ms, _amounts(billed), _amounts(booked), found[:_MOST_MISMATCHES]
    )


def _latest(book: LedgerBook, window: Window, guard: QueryGuard) -> dict[int, BookedHour]:
    """By hour: revisions come one after the other."""
    return {one.hour_ms: one for one in book.hours(window.from_ms, window.to_ms, guard=guard)}


def _stretches(hours: Mapping[int, BookedHour]) -> Iterator[Window]:
    """Of as many hours as have no more rows together than are read at once, and at least one."""
    held: list[int] = []
    rows = 0
    for hour in sorted(hours):
        if held and rows + hours[hour].rows > _ROWS_AT_ONCE:
            yield Window(held[0], held[-1] + HOUR_MS)
            held, rows = [], 0
        held.append(hour)
        rows += hours[hour].rows
    if held:
        yield Window(held[0], held[-1] + HOUR_MS)


def _of_one_state(
    book: LedgerBook, window: Window, guard: QueryGuard
) -> tuple[Mapping[int, BookedHour], Sequence[int], Sequence[NodeBill], Sequence[pa.RecordBatch]]:
    """Hours, those that are damaged, bills and rows. If one is written meanwhile they are read again."""
    named = _latest(book, window, guard)
    while named:
        guard.check()
        damaged = book.incomplete(window.from_ms, window.to_ms, guard=guard)
        bills = book.bills(window.from_ms, window.to_ms, guard=guard)
        batches = list(book.rows(window, guard=guard))
        before, named = named, _latest(book, window, guard)
        if {hour: one.digest for hour, one in named.items()} == {
            hour: one.digest for hour, one in before.items()
        }:
            return named, damaged, bills, batches
    return {}, [], [], []  # they have expired


def _rows_by_hour(batches: Sequence[pa.RecordBatch]) -> Counter[int]:
    there: Counter[int] = Counter()
    for batch in batches:
        for one in batch.column("hour_ms").value_counts().to_pylist():
            there[one["values"]] += one["counts"]
    return there


def _amounts(quanta: Mapping[str, int]) -> dict[str, str]:
    return {currency: f"{as_amount(amount):f}" for currency, amount in quanta.items() if currency}
