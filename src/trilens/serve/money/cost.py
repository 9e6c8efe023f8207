"""/api/cost: what was spent and on what, what of it for nothing, and how fast it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.ledger.answers import sharing
from trilens.ledger.answers.budgets import no_rates, standing
from trilens.ledger.answers.burn import burn
from trilens.ledger.answers.cost import can_compare, compared, hours_known, period_before, totals
from trilens.ledger.answers.forecast import forecast, month_of, spent_by
from trilens.model.errors import RequestError
from trilens.model.ledger import as_quanta
from trilens.model.ledger_sums import Dimension, Sharing
from trilens.serve.access.seen_book import seen_book
from trilens.serve.access.sight import sight_of
from trilens.serve.money.cost_answers import CostAnswer, MonthAnswer, NowAnswer, WhyAnswer
from trilens.serve.money.cost_causes import why_answer
from trilens.serve.money.cost_params import (
    read_dimensions,
    read_flag,
    read_sharing,
    read_where,
    read_window,
)
from trilens.serve.money.cost_view import (
    budget_answer,
    burn_answer,
    cost_line,
    forecast_answer,
    hours_answer,
    keys_answer,
    warnings_answer,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.ledger.answers.budgets import ExchangeRates
    from trilens.ledger.source import FactSource, LedgerBook
    from trilens.model.query import QueryGuard
    from trilens.serve.access.sight import Sight
    from trilens.serve.questions import Questions
    from trilens.settings.budgets import Budget

_LINES: Final = 1_000
_MOST_CAUSES: Final = 500
_BY: Final = (Dimension.TEAM, Dimension.BUCKET)
_METHOD: Final = (
    "spent so far, and what is left of the month at the mean of the whole days (UTC) of the last four weeks; "
    "the bounds hold four of five months if days are independent"
)


@dataclass(frozen=True, slots=True)
class CostRules:
    """Of the settings in force."""

    share_fleet: Sharing = Sharing.NONE
    budgets: Sequence[Budget] = ()
    rates: ExchangeRates = no_rates


class CostApi:
    def __init__(
        self,
        book: LedgerBook,
        facts: FactSource,
        rules: Callable[[], CostRules],
        questions: Questions,
    ) -> None:
        self._book = book
        self._facts = facts
        self._rules = rules
        self._questions = questions

    async def every(self, request: Request) -> Response:
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        window, by = read_window(params, now_ms), read_dimensions(params, _BY)
        sight = sight_of(request)
        # What nobody held is divided over all who held something: who sees only some cannot be told his part.
        share_fleet = self._rules().share_fleet if sight.teams is None else Sharing.NONE
        shared = read_sharing(params, share_fleet)
        if sight.teams is not None and shared is not Sharing.NONE:
            raise RequestError('invalid parameter "share": who sees teams alone is told what these held')
        limit = params.count("limit") or _LINES
        wants_before = read_flag(params, "compare", default=True)

        book = seen_book(self._book, sight)

        def read(guard: QueryGuard) -> CostAnswer:
            earlier = period_before(window)
            now = sharing.sums(book, by, window, shared, guard)
            before = sharing.sums(book, by, earlier, shared, guard) if wants_before else []
            hours = hours_known(book.hours(window.from_ms, window.to_ms, guard=guard), window, now_ms)
            hours_before, knows_before, is_whole = None, False, False
            if wants_before:
                booked = book.hours(earlier.from_ms, earlier.to_ms, guard=guard)
                hours_before, knows_before = hours_known(booked, earlier, now_ms), bool(booked)
                is_whole = hours_before.booked == hours_before.asked
            length_ms = window.to_ms - window.from_ms
            comparable = knows_before and can_compare(by, length_ms)
            lines = compared(by, now, before if comparable else [], length_ms)
            return CostAnswer(
                window.from_ms,
                window.to_ms,
                earlier.from_ms,
                [one.value for one in by],
                shared.value,
                comparable,
                [cost_line(by, one, comparable=comparable, is_whole=is_whole) for one in lines[:limit]],
                [
                    cost_line((), one, comparable=knows_before, is_whole=is_whole)
                    for one in totals(now, before)
                ],
                max(0, len(lines) - limit),
                hours_answer(hours),
                hours_answer(hours_before) if hours_before is not None else None,
                warnings_answer(hours),
            )

        return await self._questions.answer(request, read)

    async def why(self, request: Request) -> Response:
        params = await self._questions.params(request)
        now_ms = self._questions.now_ms()
        window = read_window(params, now_ms)
        asked = params.count("limit")
        limit = min(asked, _MOST_CAUSES) if asked is not None else None
        book = seen_book(self._book, sight_of(request))

        def read(guard: QueryGuard) -> WhyAnswer:
            return why_answer(book, self._facts, window, now_ms, limit=limit, guard=guard)

        return await self._questions.answer(request, read)

    async def now(self, request: Request) -> Response:
        params = await self._questions.params(request)
        now_ms, where = self._questions.now_ms(), read_where(params)
        by = read_dimensions(params, _BY)
        rules, sight = self._rules(), sight_of(request)
        book = seen_book(self._book, sight)
        budgets = [one for one in rules.budgets if _is_seen(one, sight)]

        def read(guard: QueryGuard) -> NowAnswer:
            rate = burn(book, by, now_ms, where, guard)
            month = month_of(book, now_ms, guard)
            dimensions = {Dimension(one.of[0]) for one in budgets}
            spent = {one: spent_by(book, one, month, now_ms, guard) for one in dimensions}
            teams = spent_by(book, Dimension.TEAM, month, now_ms, guard, where)
            whole = spent_by(book, None, month, now_ms, guard, where)
            return NowAnswer(
                now_ms,
                burn_answer(by, rate) if rate is not None else None,
                MonthAnswer(
                    month.from_ms,
                    month.to_ms,
                    month.upto_ms,
                    len(month.whole_days),
                    _METHOD,
                    [
                        forecast_answer({}, currency, forecast(one, month), one.unpriced_ms)
                        for (_, currency), one in whole.items()
                        if currency
                    ],
                    [
                        forecast_answer(
                            keys_answer((Dimension.TEAM,), (team,)),
                            currency,
                            forecast(one, month),
                            one.unpriced_ms,
                        )
                        for (team, currency), one in teams.items()
                        if currency
                    ],
                ),
                [
                    budget_answer(
                        standing(
                            Dimension(kind),
                            name,
                            one.currency,
                            as_quanta(one.amount),
                            spent[Dimension(kind)],
                            month,
                            rules.rates,
                        )
                    )
                    for one in budgets
                    for kind, name in [one.of]
                ],
            )

        return await self._questions.answer(request, read)


def _is_seen(budget: Budget, sight: Sight) -> bool:
    """One of which all is seen that is spent of it."""
    kind, name = budget.of
    if sight.is_whole:
        return True
    if sight.clusters is None:
        return Dimension(kind) is Dimension.TEAM and sight.shows("", name)
    return sight.teams is None and Dimension(kind) is Dimension.CLUSTER and sight.shows_cluster(name)
