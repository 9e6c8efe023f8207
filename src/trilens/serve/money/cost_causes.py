"""The largest causes of money spent on nothing, each with its sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.ledger.answers.cause_texts import explained
from trilens.ledger.answers.cost import hours_known
from trilens.ledger.answers.why import why
from trilens.ledger.lives.lost_work import lost_steps
from trilens.model.ledger import Bucket
from trilens.serve.money.cost_answers import WhyAnswer
from trilens.serve.money.cost_view import (
    cause_answer,
    for_nothing,
    hours_answer,
    rest_answer,
    warnings_answer,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.answers.why import Found
    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.ledger.source import FactSource, LedgerBook
    from trilens.model.ledger_sums import Window
    from trilens.model.query import QueryGuard
    from trilens.model.run import RunId


def why_answer(
    book: LedgerBook,
    facts: FactSource,
    window: Window,
    now_ms: int,
    *,
    limit: int | None = None,
    guard: QueryGuard | None = None,
) -> WhyAnswer:
    """`facts` tell which steps a crash threw away; without them only how long these took is known."""
    found = why(book, window, limit=limit, guard=guard)
    hours = hours_known(book.hours(window.from_ms, window.to_ms, guard=guard), window, now_ms)
    lost = _lost(facts, found.largest, guard)
    told = [(explained(one.episode, one.times, one.nodes, lost), one.nodes) for one in found.largest]
    return WhyAnswer(
        window.from_ms,
        window.to_ms,
        [cause_answer(cause, nodes, found, window) for cause, nodes in told],
        [rest_answer(one) for one in found.rest],
        for_nothing(found),
        hours_answer(hours),
        warnings_answer(hours),
    )


def _lost(
    facts: FactSource, found: Sequence[Found], guard: QueryGuard | None
) -> dict[RunId, Sequence[LostSteps]]:
    """Only of the few runs that are told of."""
    runs = sorted(
        {one.episode.run for one in found if one.episode.bucket is Bucket.RECOMPUTE and one.episode.run}
    )
    histories = facts.histories(runs, guard=guard) if runs else {}
    return {run: lost_steps(history) for run, history in histories.items()}
