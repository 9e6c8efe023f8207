"""Hours computed from what is known of them, which is read for several at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.allocation.allocate import allocate
from trilens.ledger.allocation.hour_facts import overlapping
from trilens.ledger.allocation.without_collecting import without_collecting
from trilens.ledger.source import no_signals
from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.ledger.known_losses import KnownLosses
    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.ledger.prices.rates import PriceBook
    from trilens.ledger.source import FactSource, Signals, SignalSource
    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_facts import Facts
    from trilens.model.query import QueryGuard

HOURS_AT_ONCE: Final = 24
_HOURS_OF_STEPS: Final = 8  # an hour of 10,000 GPUs takes 50 MB; those of small runs lie together on disk


class Computed(NamedTuple):
    hour: LedgerHour
    trouble: tuple[str, ...]  # signals that could not be asked


class Booking:
    """Not thread-safe."""

    def __init__(self, facts: FactSource, signals: SignalSource, losses: KnownLosses) -> None:
        self._facts = facts
        self._signals = signals
        self._losses = losses

    def hours(
        self, from_ms: int, to_ms: int, prices: PriceBook, now_ms: int, *, guard: QueryGuard | None = None
    ) -> Iterator[Computed]:
        """From the last to the first, as far as they have begun."""
        while from_ms < to_ms:
            first = max(from_ms, to_ms - HOURS_AT_ONCE * HOUR_MS)
            with without_collecting():
                records = self._facts.records(first, min(to_ms, now_ms), guard=guard)
                lost = self._losses.of(records, guard=guard)
            for begin, end in _blocks(first, to_ms):
                yield from self._block(records, lost, begin, end, prices, now_ms, guard)
            to_ms = first

    def _block(
        self,
        records: Facts,
        lost: Sequence[LostSteps],
        from_ms: int,
        to_ms: int,
        prices: PriceBook,
        now_ms: int,
        guard: QueryGuard | None,
    ) -> Iterator[Computed]:
        """On its own, so that its steps are let go of before those of the next are read."""
        with without_collecting():
            facts = self._facts.with_steps(records, from_ms, min(to_ms, now_ms), guard=guard)
        for hour in range(to_ms - HOUR_MS, from_ms - 1, -HOUR_MS):
            with without_collecting():
                signals = self._signals_of(facts, hour, now_ms)
                computed = Computed(allocate(facts, signals, lost, prices, hour, now_ms), signals.trouble)
            yield computed

    def _signals_of(self, facts: Facts, hour: int, now_ms: int) -> Signals:
        """Nothing is asked of an hour without GPUs: imported history."""
        upto_ms = min(hour + HOUR_MS, now_ms)
        if any(overlapping(told, hour, upto_ms) for told in (facts.gpus, facts.bindings)):
            # The hour before too: what has gone on for a while is known by when it began.
            return self._signals.signals(hour - HOUR_MS, upto_ms, is_open=now_ms < hour + HOUR_MS)
        return no_signals(hour)


def _blocks(from_ms: int, to_ms: int) -> Iterator[tuple[int, int]]:
    """From the last to the first."""
    for end in range(to_ms, from_ms, -_HOURS_OF_STEPS * HOUR_MS):
        yield max(from_ms, end - _HOURS_OF_STEPS * HOUR_MS), end
