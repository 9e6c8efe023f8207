"""Hours computed from what is known of them: read for several at once, allocated one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.allocate import allocate
from trilens.ledger.source import no_signals
from trilens.model.ledger import HOUR_MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.ledger.known_losses import KnownLosses
    from trilens.ledger.prices import PriceBook
    from trilens.ledger.source import FactSource, Signals, SignalSource
    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_facts import Facts
    from trilens.model.query import QueryGuard

HOURS_AT_ONCE: Final = 24
_ROWS_AT_ONCE: Final = 1_000_000  # minutes of ranks, of about 150 bytes


class Computed(NamedTuple):
    hour: LedgerHour
    trouble: tuple[str, ...]  # signals that could not be asked


class Booking:
    """Not thread-safe."""

    def __init__(self, facts: FactSource, signals: SignalSource, losses: KnownLosses) -> None:
        self._facts = facts
        self._signals = signals
        self._losses = losses
        self._at_once = 1  # until it is known how much an hour has

    def hours(
        self, from_ms: int, to_ms: int, prices: PriceBook, now_ms: int, *, guard: QueryGuard | None = None
    ) -> Iterator[Computed]:
        """From the last to the first, as far as they have begun."""
        while from_ms < to_ms:
            first = max(from_ms, to_ms - self._at_once * HOUR_MS)
            facts = self._facts.facts(first, min(to_ms, now_ms), guard=guard)
            lost = self._losses.of(facts, guard=guard)
            rows_an_hour = max(1, len(facts.minutes) * HOUR_MS // (to_ms - first))
            self._at_once = min(HOURS_AT_ONCE, max(1, _ROWS_AT_ONCE // rows_an_hour))
            for hour in range(to_ms - HOUR_MS, first - 1, -HOUR_MS):
                signals = self._signals_of(facts, hour, min(hour + HOUR_MS, now_ms))
                computed = allocate(facts, signals, lost, prices, hour, now_ms)
                yield Computed(computed, signals.trouble)
            to_ms = first

    def _signals_of(self, facts: Facts, hour: int, upto_ms: int) -> Signals:
        """Nothing is asked of an hour in which nobody held a GPU: imported history, a fleet at rest."""
        if any(one.from_ms < upto_ms and (one.to_ms is None or one.to_ms > hour) for one in facts.bindings):
            # The hour before too: what has gone on for a while is known by when it began.
            return self._signals.signals(hour - HOUR_MS, upto_ms)
        return no_signals(hour)
