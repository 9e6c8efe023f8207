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
    priced = [one for one in stretches if one.quanta is not None]
    components: dict[str, int] = {}
    for one in priced:
        for name, quanta in components_of(one.quanta or 0, one.rate.components).items():
            components[name] = components.get(name, 0) + quanta
    return NodeBill(
        hour_ms,
        cluster,
        node,
        there_ms=sum(one.to_ms - one.from_ms for one in stretches),
        gpu_ms=sum((one.to_ms - one.from_ms) * one.gpus for one in stretches),
        quanta=sum(one.quanta or 0 for one in priced) if len(priced) == len(stretches) else None,
        priced_ms=sum(one.to_ms - one.from_ms for one in priced),
        currency=next((one.currency for one in priced), ""),
        components={name: components[name] for name in sorted(components)},
        price=", ".join(dict.fromkeys(one.rate.price for one in priced if one.rate.price)),
    )
