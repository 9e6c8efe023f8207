"""Rows and bills of what was imported: a source stands where a node does, and its GPUs are only counted."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from trilens.ledger.allocation.amounts import components_of, parts_of, price_of
from trilens.ledger.allocation.doubts import IN_WORDS, PRICE_CHANGED, SEVERAL_CURRENCIES
from trilens.ledger.allocation.imported_hours import imported_portions
from trilens.model.ledger import Basis, LedgerRow, NodeBill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.ledger.allocation.imported_hours import Pool
    from trilens.ledger.prices.rates import PriceBook, Rate
    from trilens.model.ledger_facts import Facts
    from trilens.model.machine import Machine
    from trilens.model.workload import Doubt


class ImportedRows(NamedTuple):
    rows: list[LedgerRow]
    bills: list[NodeBill]
    warned: dict[Doubt, int]  # GPU-milliseconds that each concerns


class _Priced(NamedTuple):
    """A pool, or the part of its time that has one price."""

    pool: Pool
    rate: Rate
    quanta: int | None
    components: dict[str, int]
    doubts: tuple[Doubt, ...]  # about its price


def imported_rows(facts: Facts, prices: PriceBook, hour_ms: int, to_ms: int) -> ImportedRows:
    found = ImportedRows([], [], defaultdict(int))
    if not facts.jobs and not facts.usage:
        return found
    for pool in imported_portions(facts, hour_ms, to_ms):
        for warned in pool.doubts:
            found.warned[warned.doubt] += warned.gpu_ms
        priced = [*_priced(pool, facts, prices, hour_ms, to_ms)]
        for one in priced:
            for doubt in one.doubts:
                found.warned[doubt] += one.pool.gpu_ms
            found.rows.extend(_rows(one, hour_ms))
        found.bills.append(_bill(pool.machine, priced, hour_ms))
    return found


def _priced(pool: Pool, facts: Facts, prices: PriceBook, from_ms: int, to_ms: int) -> Iterator[_Priced]:
    """As of a node: each price for its own time, and a second currency is a gap."""
    rates = prices.rates(pool.machine, 1, from_ms, to_ms)
    changed = (IN_WORDS[PRICE_CHANGED],) if len(rates) > 1 else ()
    currency = ""
    for rate in rates:
        part = pool if len(rates) == 1 else _part_of(pool, facts, rate)
        if part is None:
            continue
        doubted = (*rate.doubts, *changed)
        if rate.per_hour is None:
            yield _Priced(part, rate, None, {}, doubted)
            continue
        currency = currency or rate.currency
        if rate.currency != currency:
            yield _Priced(part, rate, None, {}, (*doubted, IN_WORDS[SEVERAL_CURRENCIES]))
            continue
        components: defaultdict[str, int] = defaultdict(int)
        total = 0
        for begin, end, gpus in part.stretches:
            quanta = price_of(rate.per_hour, end - begin, gpus)
            total += quanta
            for name, own in components_of(quanta, rate.components).items():
                components[name] += own
        yield _Priced(part, rate, total, components, doubted)


def _part_of(pool: Pool, facts: Facts, rate: Rate) -> Pool | None:
    for part in imported_portions(facts, rate.from_ms, rate.to_ms):
        if part.machine == pool.machine:
            return part
    return None


def _rows(priced: _Priced, hour_ms: int) -> Iterator[LedgerRow]:
    pool, rate, total, _, doubted = priced
    machine = pool.machine
    quanta = None if total is None else parts_of(total, [portion.gpu_ms for portion in pool.portions])
    codes = {doubt.code for doubt in doubted} | {warned.doubt.code for warned in pool.doubts}
    for i, (holder, bucket, cause, gpu_ms) in enumerate(pool.portions):
        yield LedgerRow(
            hour_ms,
            machine.cluster,
            machine.node,
            "",
            machine.gpu_model,
            machine.purchase or rate.purchase,
            machine.region,
            holder,
            bucket,
            cause,
            None,
            None,
            Basis.NONE,
            gpu_ms,
            0,
            None if quanta is None else quanta[i],
            rate.currency if quanta is not None else "",
            tuple(sorted(codes)),
        )


def _bill(machine: Machine, priced: list[_Priced], hour_ms: int) -> NodeBill:
    components: defaultdict[str, int] = defaultdict(int)
    there_ms = priced_ms = 0
    for one in priced:
        ms = sum(end - begin for begin, end, _ in one.pool.stretches)
        there_ms += ms
        priced_ms += ms if one.quanta is not None else 0
        for name, own in one.components.items():
            components[name] += own
    return NodeBill(
        hour_ms,
        machine.cluster,
        machine.node,
        there_ms,
        sum(one.pool.gpu_ms for one in priced),
        None if any(one.quanta is None for one in priced) else sum(one.quanta or 0 for one in priced),
        priced_ms,
        next((one.rate.currency for one in priced if one.quanta is not None), ""),
        {name: components[name] for name in sorted(components)},
        ", ".join(
            dict.fromkeys(one.rate.price for one in priced if one.quanta is not None and one.rate.price)
        ),
    )
