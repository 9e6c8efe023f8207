"""What nodes cost in an hour: by stretches of one price and one number of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.ledger.allocation import doubts
from trilens.ledger.allocation.amounts import components_of, price_of
from trilens.model.ledger import NodeBill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.allocation.fleet import Node
    from trilens.ledger.prices.rates import PriceBook, Rate
    from trilens.model.machine import Machine


class Stretch(NamedTuple):
    from_ms: int
    to_ms: int
    machine: Machine
    gpus: int
    rate: Rate
    quanta: int | None
    doubts: tuple[str, ...]  # codes, in order

    @property
    def currency(self) -> str:
        return self.rate.currency if self.quanta is not None else ""

    @property
    def purchase(self) -> str:
        return self.machine.purchase or self.rate.purchase


def stretches_of(node: Node, prices: PriceBook) -> list[Stretch]:
    """One after the other, for as long as the node is there."""
    found: list[Stretch] = []
    currency = ""
    for standing in node.standings:
        rates = prices.rates(standing.machine, standing.gpus, standing.from_ms, standing.to_ms)
        codes = {doubts.MORE_GPUS_THAN_TOLD} if standing.has_more else set()
        if len(rates) > 1:
            codes.add(doubts.PRICE_CHANGED)
        for rate in rates:
            own = codes | {doubt.code for doubt in rate.doubts}
            quanta = None
            if rate.per_hour is not None:
                currency = currency or rate.currency
                if rate.currency == currency:
                    quanta = price_of(rate.per_hour, rate.to_ms - rate.from_ms)
                else:
                    own.add(doubts.SEVERAL_CURRENCIES)
            found.append(
                Stretch(
                    rate.from_ms,
                    rate.to_ms,
                    standing.machine,
                    standing.gpus,
                    rate,
                    quanta,
                    tuple(sorted(own)),
                )
            )
    return found


def bill_of(hour_ms: int, cluster: str, node: str, stretches: Sequence[Stretch]) -> NodeBill:
    there_ms = gpu_ms = priced_ms = quanta = 0
    currency = ""
    components: dict[str, int] = {}
    prices: dict[str, None] = {}
    for one in stretches:
        ms = one.to_ms - one.from_ms
        there_ms += ms
        gpu_ms += ms * one.gpus
        if one.quanta is None:
            continue
        priced_ms += ms
        quanta += one.quanta
        currency = currency or one.currency
        for name, own in components_of(one.quanta, one.rate.components).items():
            components[name] = components.get(name, 0) + own
        if one.rate.price:
            prices[one.rate.price] = None
    return NodeBill(
        hour_ms,
        cluster,
        node,
        there_ms,
        gpu_ms,
        quanta if priced_ms == there_ms else None,
        priced_ms,
        currency,
        {name: components[name] for name in sorted(components)},
        ", ".join(prices),
    )
