"""How fast money is being spent now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers import sharing
from trilens.ledger.answers.cost import by_keys
from trilens.ledger.answers.known_time import known_ms
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Sharing, Window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.answers.cost import Keys
    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger_sums import Dimension
    from trilens.model.query import QueryGuard

_LOOKS_BACK_MS: Final = 3 * HOUR_MS  # what is older is not now
_LEAST_MS: Final = 600_000  # in less of an hour, one job that starts looks like a new fleet


class Rate(NamedTuple):
    """In quanta an hour; `gpus` is how many on the average, `unpriced` how many of these have no price."""

    keys: Keys
    currency: str
    quanta: int
    gpus: float
    unpriced: float


@dataclass(frozen=True, slots=True)
class Burn:
    """Over [from_ms, upto_ms): the open hour, with the one before it while it is young, as far as any node
    was known."""

    from_ms: int
    upto_ms: int
    rates: tuple[Rate, ...]  # by what was asked for
    totals: tuple[Rate, ...]  # by currency


def burn(
    book: LedgerBook,
    by: Sequence[Dimension],
    now_ms: int,
    where: Mapping[Dimension, tuple[str | None, ...]],
    guard: QueryGuard | None = None,
) -> Burn | None:
    """None when nothing of the last hours is booked."""
    reached: dict[int, int] = {}
    for hour in book.hours(now_ms - _LOOKS_BACK_MS, now_ms + 1, guard=guard):
        reached[hour.hour_ms] = hour.upto_ms  # the latest revision comes last
    if not reached:
        return None
    last = max(reached)
    upto_ms, from_ms = reached[last], last
    if upto_ms - last < _LEAST_MS and last - HOUR_MS in reached:  # maybe not closed yet
        from_ms = last - HOUR_MS
    span_ms = sum(known_ms(book, hour, reached[hour], guard) for hour in range(from_ms, last + 1, HOUR_MS))
    if span_ms <= 0:
        return None
    sums = sharing.sums(book, by, Window(from_ms, last + HOUR_MS, where), Sharing.NONE, guard)

    def rates(keep: Sequence[int] | None) -> tuple[Rate, ...]:
        return tuple(
            Rate(
                one.keys,
                one.currency,
                (2 * one.quanta * HOUR_MS + span_ms) // (2 * span_ms),
                one.gpu_ms / span_ms,
                one.unpriced_ms / span_ms,
            )
            for one in by_keys(sums, keep=keep)
        )

    return Burn(upto_ms - span_ms, upto_ms, rates(None), rates(()))
