"""What simulated hours cost, and where that went: the ledger's word beside the truth."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.booking import Booking
from trilens.ledger.known_losses import KnownLosses
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Dimension, Window
from trilens.serve.money.cost_causes import why_answer
from trilens.serve.money.ledger_signals import LedgerSignals
from trilens.serve.own_queries import EmbeddedQueries
from trilens.simulate.true_fleet import true_fleet
from trilens.simulate.true_time import true_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from trilens.ledger.prices.rates import PriceBook
    from trilens.serve.money.cost_answers import WhyAnswer
    from trilens.simulate.truth import FaultTruth
    from trilens.simulate.world import World
    from trilens.store.store import Store

_USEFUL: Final = ("productive", "checkpoint")
_LEAST_S: Final = 360.0  # of GPU time: less is no cause that anybody would look for


class TrueWaste(NamedTuple):
    """GPU time that was really lost, and what was made to go wrong: of a job, or of the fleet, whose workload
    and team are empty. A node that could not be used is named."""

    workload: str
    team: str
    bucket: str
    gpu_hours: float
    faults: tuple[str, ...]
    node: str = ""


class NightBill(NamedTuple):
    """Quanta by currency: what the nodes cost, and what the rows add up to, by bucket."""

    window: Window
    bill: dict[str, int]
    buckets: dict[str, dict[str, int]]
    why: WhyAnswer
    truth: Sequence[TrueWaste]


def book(
    world: World,
    store: Store,
    prices: PriceBook,
    from_ms: int,
    hours_booked: Callable[[int], None],
    *,
    open_ms: int = 0,
) -> None:
    """All hours from `from_ms` until `open_ms` before the world's now, the last one as far as then.
    `hours_booked` is told each."""
    now_ms = world.now_ms - open_ms
    signals = LedgerSignals(EmbeddedQueries(store))
    booking = Booking(store.ledger_facts, signals, KnownLosses(store.ledger_facts, from_ms))
    end_ms = -(-now_ms // HOUR_MS) * HOUR_MS
    hours = booking.hours(from_ms, end_ms, prices, now_ms)
    for computed in hours:
        store.ledger.write(computed.hour, reason="rehearsed")
        hours_booked(1)


def read_bill(world: World, store: Store, from_ms: int, causes: int | None) -> NightBill:
    """With so many causes, or with those that matter."""
    window = Window(from_ms, world.now_ms)
    bill: defaultdict[str, int] = defaultdict(int)
    for one in store.ledger.bills(window.from_ms, window.to_ms):
        if one.quanta is not None:
            bill[one.currency] += one.quanta
    buckets: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for found in store.ledger.sums([Dimension.BUCKET], window):
        if found.currency:
            buckets[found.currency][str(found.keys[0])] = found.quanta
    why = why_answer(store.ledger, store.ledger_facts, window, world.now_ms, limit=causes)
    return NightBill(window, dict(bill), dict(buckets), why, _true_waste(world, from_ms))


def _true_waste(world: World, from_ms: int) -> list[TrueWaste]:
    """The most first."""
    nodes = true_fleet(world.truth, world.now_ms)
    free_s = sum(node.free_s for node in nodes)
    found = [
        *(
            TrueWaste(f"{job.namespace}/{job.name}", job.team, bucket, _hours(seconds), _kinds(job.faults))
            for job in true_time(world.truth, from_ms, world.now_ms)
            for bucket, seconds in job.seconds.items()
            if bucket not in _USEFUL and seconds >= _LEAST_S
        ),
        *(
            TrueWaste("", "", "broken", _hours(node.broken_s), _kinds(node.faults), node.name)
            for node in nodes
            if node.broken_s >= _LEAST_S
        ),
        *([TrueWaste("", "", "unallocated", _hours(free_s), ())] if free_s >= _LEAST_S else []),
    ]
    return sorted(found, key=lambda one: -one.gpu_hours)


def _hours(seconds: float) -> float:
    return round(seconds / 3600, 3)


def _kinds(faults: Iterable[FaultTruth]) -> tuple[str, ...]:
    return tuple(fault.kind for fault in faults)
