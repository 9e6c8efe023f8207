"""What a run or a workload cost, as the answers about them tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.ledger.answers.goodput import goodput
from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.money.cost_answers import HoursAnswer  # noqa: TC001  msgspec reads the annotations
from trilens.serve.money.cost_view import amount_text, hours_answer

if TYPE_CHECKING:
    from trilens.ledger.answers.spending import Spending


class BucketAnswer(msgspec.Struct, frozen=True):
    bucket: str
    gpu_ms: int
    amount: str | None


class SpendingAnswer(msgspec.Struct, frozen=True):
    """Over its whole life, from the ledger. Amounts are decimal texts, and null where `gap` says why: hours
    or ranks of it are not booked, or not all of it has a price in one currency. `for_nothing` is what of the
    amount was neither of use nor the writing of a checkpoint. GPU time, goodput and buckets, the longest
    first, are of what is booked, which is the `whole` of its time or not. While it is `provisional`, an hour
    of it is open."""

    amount: str | None
    for_nothing: str | None
    currency: str | None
    gpu_ms: int
    unpriced_gpu_ms: int
    goodput: float | None
    told: float | None
    throttled: float | None
    buckets: list[BucketAnswer]
    hours: HoursAnswer
    whole: bool
    provisional: bool
    gap: DoubtAnswer | None


def spending_answer(spent: Spending | None) -> SpendingAnswer | None:
    if spent is None:
        return None
    has_amounts = spent.quanta is not None
    return SpendingAnswer(
        _amount(spent.quanta),
        _amount(spent.for_nothing),
        spent.total.currency if has_amounts else None,
        spent.total.gpu_ms,
        spent.total.unpriced_ms,
        *goodput(spent.total),
        [
            BucketAnswer(str(one.keys[0]), one.gpu_ms, amount_text(one.quanta) if has_amounts else None)
            for one in spent.buckets
        ],
        hours_answer(spent.hours),
        spent.part is None,
        spent.is_provisional,
        DoubtAnswer(*spent.gap) if spent.gap is not None else None,
    )


def _amount(quanta: int | None) -> str | None:
    return amount_text(quanta) if quanta is not None else None
