"""Hours computed from what is known of them: records are read for several at once, steps for each alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.allocation.allocate import allocate
from trilens.ledger.allocation.hour_facts import overlapping
from trilens.ledger.allocation.without_collecting import without_collecting
from trilens.ledger.source import no_signals
from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.ledger.known_losses import KnownLosses
    from trilens.ledger.prices.rates import PriceBook
    from trilens.ledger.source import FactSource, Signals, SignalSource
    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_facts import Facts
    from trilens.model.query import QueryGuard

HOURS_AT_ONCE: Final = 24


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
            for hour in range(to_ms - HOUR_MS, first - 1, -HOUR_MS):
                upto_ms = min(hour + HOUR_MS, now_ms)
                facts = self._facts.with_steps(records, hour, upto_ms, guard=guard)
                signals = self._signals_of(facts, hour, upto_ms)
                computed = allocate(facts, signals, lost, prices, hour, now_ms)
                yield Computed(computed, signals.trouble)
            to_ms = first

    def _signals_of(self, facts: Facts, hour: int, upto_ms: int) -> Signals:
        """Nothing is asked of an hour without GPUs: imported history."""
        if any(overlapping(told, hour, upto_ms) for told in (facts.gpus, facts.bindings)):
            # The hour before too: what has gone on for a while is known by when it began.
            return self._signals.signals(hour - HOUR_MS, upto_ms)
        return no_signals(hour)
