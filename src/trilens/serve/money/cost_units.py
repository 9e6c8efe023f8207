"""/api/cost/units: what a step, a token, a request or a percent of improvement cost."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers.cost import booked_stretches, by_keys, hours_known, largest_first
from trilens.ledger.answers.known_time import known_ms
from trilens.ledger.answers.run_cost import RunLife, run_costs
from trilens.ledger.answers.unit_cost import (
    COUNTED_IN,
    DEFINED_AS,
    Served,
    per_unit,
    served,
    together,
)
from trilens.ledger.answers.worth import default_metric, validated_course
from trilens.model.errors import RequestError
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import TOLD_WELL, Dimension, Unit, Window
from trilens.model.run import RunId
from trilens.model.workload import WorkloadKey
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.sight import sight_of
from trilens.serve.money.cost_answers import UnitLine, UnitsAnswer
from trilens.serve.money.cost_params import read_window
from trilens.serve.money.cost_view import (
    amount_text,
    decimal_text,
    hours_answer,
    keys_answer,
    warnings_answer,
)
from trilens.serve.money.worked_hours import WorkedHours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.source import FactSource, LedgerBook, SignalSource
    from trilens.model.ledger_sums import BookedHour, Sum
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_runs import RunsSeen
    from trilens.serve.access.sight import Sight
    from trilens.serve.params import Params
    from trilens.serve.questions import Questions

    Spans = Sequence[tuple[int, int]]

_DAY_MS: Final = 86_400_000
_MOST_DAYS: Final = 7  # of steps: they are read one by one
_MOST_RUNS: Final = 200
_PREPARED_MS: Final = 12 * HOUR_MS  # the span that the page of money shows at first
_WATCHED_MS: Final = 10 * 60_000  # since nobody has asked for so long, of the open hour nothing is read
_MILLION: Final = 1_000_000


class _Counted(NamedTuple):
    """How many, None where nobody told of any; and what to say about it."""

    units: Decimal | None
    detail: str = ""
    told: Decimal | None = None  # in which share of the time they were told of, where that is known


_NO_STEP: Final = _Counted(None, "no step")
_LOST: Final = _Counted(Decimal(0), "no step that was kept")


class CostUnitsApi:
    def __init__(
        self,
        book: LedgerBook,
        facts: FactSource,
        signals: SignalSource,
        runs: RunsSeen,
        questions: Questions,
    ) -> None:
        self._book = book
        self._facts = facts
        self._signals = signals
        self._runs = runs
        self._questions = questions
        self._worked = WorkedHours(facts, questions.now_ms)
        self._asked_ms: int | None = None

    def booked(self, now_ms: int) -> None:
        """Hours that are over are read before anybody asks, a few at a time; the open one while somebody
        looks."""
        self._questions.runner.later(lambda guard: self._prepare(now_ms, guard))

    def _prepare(self, now_ms: int, guard: QueryGuard) -> None:
        open_ms = now_ms // HOUR_MS * HOUR_MS
        hours = self._book.hours(open_ms - _PREPARED_MS, open_ms, guard=guard)
        whole = sorted({one.hour_ms for one in hours if one.upto_ms >= one.hour_ms + HOUR_MS})
        self._worked.prepare(whole, hours, guard)
        if self._asked_ms is not None and now_ms - self._asked_ms <= _WATCHED_MS:
            hours = self._book.hours(open_ms, now_ms, guard=guard)
            spans = _known(self._book, booked_stretches(hours), guard)
            self._worked.done(spans, hours, guard, anew=True)

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        window, unit = read_window(params, now_ms), _unit(params)
        sight = sight_of(request)
        book = seen_book(self._book, sight)
        if unit is not Unit.IMPROVEMENT and window.to_ms - window.from_ms > _MOST_DAYS * _DAY_MS:
            raise RequestError(
                f'invalid parameter "from": at most {_MOST_DAYS} days for cost per {unit.value}',
                hint="name a shorter window",
            )

        def read(guard: QueryGuard) -> UnitsAnswer:
            hours = hours_known(book.hours(window.from_ms, window.to_ms, guard=guard), window, now_ms)
            return UnitsAnswer(
                window.from_ms,
                window.to_ms,
                unit.value,
                COUNTED_IN[unit],
                DEFINED_AS[unit],
                [*self._lines(unit, book, window, sight, guard)],
                hours_answer(hours),
                warnings_answer(hours),
            )

        return await self._questions.answer(request, read)

    def _lines(
        self, unit: Unit, book: LedgerBook, window: Window, sight: Sight, guard: QueryGuard
    ) -> Iterator[UnitLine]:
        """Units count while hours are booked: what they cost is known only then. They are counted of all, and
        told of what the book has and, of runs, of those that are seen."""
        if unit is Unit.IMPROVEMENT:
            yield from self._improvements(book, window, sight, guard)
            return
        booked = self._book.hours(window.from_ms, window.to_ms, guard=guard)
        spans = _known(self._book, booked_stretches(booked), guard)
        done: Mapping[object, _Counted] = {}
        answered: Mapping[object, _Counted] = {}
        if unit in (Unit.STEP, Unit.TOKEN):
            self._asked_ms = self._questions.now_ms()
            done = self._trained(unit, spans, booked, guard)
        if unit in (Unit.REQUEST, Unit.TOKEN):
            answered = self._served(unit, spans, guard)
        if done or unit is Unit.STEP:
            costs = self._seen(by_keys(book.sums([Dimension.RUN], window, guard=guard)), sight, guard)
            if unit is Unit.STEP:  # every run is to come to some: without one it has cost something for none
                done = {**{one.keys[0]: _NO_STEP for one in costs if one.keys[0] is not None}, **done}
            yield from self._told(Dimension.RUN, costs, done, guard)
        if answered:
            costs = by_keys(book.sums([Dimension.WORKLOAD], window, guard=guard))
            yield from self._told(Dimension.WORKLOAD, costs, answered, guard)

    def _seen(self, costs: Sequence[Sum], sight: Sight, guard: QueryGuard) -> list[Sum]:
        """Of runs. What is of none stays: nobody is asked whose it is."""
        runs = [RunId(str(one.keys[0])) for one in costs if one.keys[0] is not None]
        shown = self._runs.shown(sight, runs, guard)
        return [one for one in costs if one.keys[0] is None or one.keys[0] in shown]

    def _told(
        self,
        dimension: Dimension,
        costs: Sequence[Sum],
        counted: Mapping[object, _Counted],
        guard: QueryGuard,
    ) -> Iterator[UnitLine]:
        names = self._names(len(costs), guard) if dimension is Dimension.RUN else {}
        for cost in costs:
            found = counted.get(cost.keys[0])
            if found is None:
                continue
            each = per_unit(cost, found.units, found.told)
            yield UnitLine(
                keys_answer((dimension,), cost.keys),
                names[key] if (key := cost.keys[0]) in names else self._name(key, guard),
                cost.currency or None,
                amount_text(cost.quanta) if cost.currency else None,
                cost.gpu_ms,
                cost.unpriced_ms,
                float(found.units) if found.units is not None else None,
                decimal_text(each) if each is not None else None,
                found.detail,
                float(found.told) if found.told is not None else None,
            )

    def _names(self, many: int, guard: QueryGuard) -> Mapping[object, str | None]:
        """Those of the latest runs at once: of others each is asked for."""
        return (
            {one.run: one.name for one in self._runs.source.runs(limit=2 * many, guard=guard)} if many else {}
        )

    def _name(self, key: object, guard: QueryGuard) -> str | None:
        if isinstance(key, WorkloadKey):
            return key.name
        found = self._runs.source.runs(run=RunId(str(key)), limit=1, guard=guard)
        return found[0].name if found else None

    def _trained(
        self, unit: Unit, spans: Spans, booked: Sequence[BookedHour], guard: QueryGuard
    ) -> dict[object, _Counted]:
        done = self._worked.done(spans, booked, guard)
        if unit is Unit.STEP:
            return {run: _Counted(Decimal(one.steps)) if one.steps else _LOST for run, one in done.items()}
        return {
            run: _Counted(Decimal(one.tokens) / _MILLION, "tokens trained on")
            for run, one in done.items()
            if one.tokens is not None
        }

    def _served(self, unit: Unit, spans: Spans, guard: QueryGuard) -> dict[object, _Counted]:
        found: defaultdict[WorkloadKey, list[Served]] = defaultdict(list)
        for from_ms, to_ms in spans:
            facts = self._facts.records(from_ms, to_ms, guard=guard)
            for workload, one in served(facts, self._signals.serving(from_ms, to_ms).serving).items():
                found[workload].append(one)
        whole = {workload: together(each) for workload, each in found.items()}
        if unit is Unit.REQUEST:
            return {
                key: _told(one, Decimal(one.requests))
                for key, one in whole.items()
                if one.requests is not None
            }
        return {
            key: _told(one, Decimal(one.tokens) / _MILLION, "completion tokens")
            for key, one in whole.items()
            if one.tokens is not None
        }

    def _improvements(
        self, book: LedgerBook, window: Window, sight: Sight, guard: QueryGuard
    ) -> Iterator[UnitLine]:
        """Of runs that cost something in the window, over their whole lives."""
        source = self._runs.source
        spent = self._seen(by_keys(book.sums([Dimension.RUN], window, guard=guard)), sight, guard)
        counted: dict[object, _Counted] = {}
        lives: list[RunLife] = []
        now_ms = self._questions.now_ms()
        for run in [RunId(str(one.keys[0])) for one in spent if one.keys[0] is not None][:_MOST_RUNS]:
            validations = source.validations(run, guard=guard)
            metric = default_metric([name for one in validations for name in one.values], ())
            if metric is None:
                continue
            course = validated_course(metric, validations)
            percent, best = course.improvement_percent, course.best
            if percent is None or best is None:
                continue
            told = f"{metric} {course.points[0].value:.4g} -> {best.value:.4g}"
            counted[run] = _Counted(Decimal(repr(percent)), told)
            facts = source.runs(run=run, limit=1, guard=guard)
            ends = [one.ended_ms for one in source.processes([run], guard=guard)]
            ended_ms = max((now_ms if end is None else end for end in ends), default=now_ms)
            lives += [RunLife(run, one.created_ms, ended_ms) for one in facts]
        costs = [one.time for one in run_costs(book, lives, now_ms, guard).values()]
        yield from self._told(Dimension.RUN, largest_first(costs), counted, guard)


def _told(of: Served, units: Decimal, what: str = "") -> _Counted:
    doubt = (
        f"told of in {100 * of.share:.2g} % of its time: by the cost of that part"
        if of.share < TOLD_WELL
        else ""
    )
    return _Counted(units, ", ".join(filter(None, (what, doubt))), of.share)


def _known(book: LedgerBook, stretches: Spans, guard: QueryGuard) -> Spans:
    """Without what programs tell of the time before any node was known: nobody knows what that cost."""
    found = []
    for from_ms, to_ms in stretches:
        first_ms = min(from_ms + HOUR_MS, to_ms)
        found.append((first_ms - known_ms(book, from_ms, first_ms, guard), to_ms))
    return found


def _unit(params: Params) -> Unit:
    text = params.first("per") or Unit.STEP.value
    try:
        return Unit(text)
    except ValueError as e:
        known = ", ".join(one.value for one in Unit)
        raise RequestError(f'invalid parameter "per": no unit {text!r}', hint=f"there are {known}") from e
