"""An hour of the fleet: every GPU-millisecond of it in one bucket of one holder, and what that costs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.ledger.allocation.begun_together import begun_together
from trilens.ledger.allocation.bills import stretches_of
from trilens.ledger.allocation.booking_time import makes_progress
from trilens.ledger.allocation.doubts import HOLDER_UNKNOWN, IN_WORDS
from trilens.ledger.allocation.faults import fault_outages
from trilens.ledger.allocation.fleet import fleet_of
from trilens.ledger.allocation.holders import holds_of
from trilens.ledger.allocation.holding_time import lines_of
from trilens.ledger.allocation.holdings import held
from trilens.ledger.allocation.hour_facts import facts_of, lives_around, signals_of
from trilens.ledger.allocation.imported_rows import imported_rows
from trilens.ledger.allocation.lives_held import lives_of
from trilens.ledger.allocation.node_rows import NodeRows
from trilens.ledger.allocation.silent_ranks import with_silent_ranks
from trilens.ledger.allocation.throttling import throttling_of
from trilens.ledger.allocation.times import joined
from trilens.ledger.allocation.work_of_nobody import work_of_nobody_ms
from trilens.ledger.lives.spans import life_spans
from trilens.model.ledger import HOUR_MS, Basis, LedgerHour, Warned
from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.ledger.allocation.booking_time import Hold
    from trilens.ledger.allocation.fleet import Node
    from trilens.ledger.allocation.times import Times
    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.ledger.prices.rates import PriceBook
    from trilens.ledger.source import Signals
    from trilens.model.ledger_facts import Facts

_SIGNALS: Final = "signals-missing"


def allocate(
    facts: Facts,
    signals: Signals,
    lost: Sequence[LostSteps],
    prices: PriceBook,
    hour_ms: int,
    now_ms: int,
) -> LedgerHour:
    """`facts` may cover more than the hour; the same facts give the same rows."""
    upto_ms = max(min(hour_ms + HOUR_MS, now_ms, facts.to_ms), hour_ms)
    lives = lives_around(facts.lives, hour_ms, upto_ms)
    facts, signals = facts_of(facts, hour_ms, upto_ms), signals_of(signals, hour_ms, upto_ms)
    warned: defaultdict[Doubt, int] = defaultdict(int)

    holdings, unheld = held(facts, hour_ms, upto_ms)
    numbers = {one.gpu.key: one.gpu.index for one in facts.gpus}
    on_gpus = lives_of(holdings, lives, numbers)
    lines = lines_of(holdings, on_gpus, life_spans(facts, lost, now_ms), facts, signals)
    lines = begun_together(with_silent_ranks(lines, holdings, on_gpus), holdings)
    fleet = fleet_of(facts, holdings, hour_ms, upto_ms)
    holds, holders, homeless = holds_of(lines, holdings, facts, _until(fleet.nodes))
    for codes in (unheld, fleet.doubts, homeless):
        for code, ms in codes.items():
            warned[IN_WORDS[code]] += ms
    nobodys_ms = work_of_nobody_ms(facts, signals.gpus)
    if nobodys_ms:
        warned[IN_WORDS[HOLDER_UNKNOWN]] += nobodys_ms

    outages = fault_outages(facts, lambda uuid: _worked(holds.get(uuid, ())), hour_ms, upto_ms)
    books = NodeRows(hour_ms, holds, holders, throttling_of(signals.gpus, hour_ms, upto_ms), warned)
    for node in fleet.nodes:
        for device in node.devices:
            device.outages += outages.get(device.uuid, ())
        books.book(node, stretches_of(node, prices))

    imported = imported_rows(facts, prices, hour_ms, upto_ms)
    for doubt, ms in imported.warned.items():
        warned[doubt] += ms
    rows = (*books.rows, *imported.rows)
    if signals.trouble:
        blind_ms = sum(row.gpu_ms for row in rows if row.basis is Basis.NONE)
        for text in signals.trouble:
            warned[Doubt(_SIGNALS, text)] = blind_ms
    return LedgerHour(
        hour_ms,
        upto_ms,
        rows,
        (*books.bills, *imported.bills),
        tuple(Warned(doubt, warned[doubt]) for doubt in sorted(warned, key=_doubt_order)),
        prices.digest,
    )


def _doubt_order(doubt: Doubt) -> tuple[str, str]:
    return doubt.code, doubt.text


def _until(nodes: Iterable[Node]) -> dict[str, int]:
    """Until when the node of each GPU was there."""
    found: dict[str, int] = {}
    for node in nodes:
        end = node.standings[-1].to_ms
        for device in node.devices:
            if end > found.get(device.uuid, 0):
                found[device.uuid] = end
    return found


def _worked(holds: Sequence[Hold]) -> Times:
    """When programs made progress."""
    return joined(
        (max(span.from_ms, hold.from_ms), min(span.to_ms, hold.to_ms))
        for hold in holds
        for span in hold.spans
        if makes_progress(span)
    )
