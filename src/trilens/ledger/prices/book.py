"""The price book: which price fits a machine at a moment, and what an hour of it costs then."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.prices.cost import hour_cost
from trilens.ledger.prices.file import PriceFile, default_prices, read_price_file
from trilens.ledger.prices.match import Fit, Miss, fit
from trilens.ledger.prices.rates import Rate
from trilens.model.price import Purchase
from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from trilens.model.machine import Machine
    from trilens.model.price import ExchangeRate, Price

_ONE: Final = Decimal(1)
_FITS_REMEMBERED: Final = 50_000  # kinds of machines, a few hundred bytes each
_RATES_REMEMBERED: Final = 5_000  # the same in one stretch of time: those of an hour are asked for one by one


_Kind = tuple[str | float | None, ...]  # what of a machine its price depends on


class Choice(NamedTuple):
    """What fits a machine at a moment, the best first; what fits it at other times; and what nearly does, and
    why not."""

    fits: tuple[Fit, ...]
    other_times: tuple[Fit, ...]
    misses: tuple[Miss, ...]


class Prices:
    """Satisfies `trilens.ledger.prices.rates.PriceBook`."""

    def __init__(
        self, prices: Sequence[Price], currency: str, exchange: Sequence[ExchangeRate] = (), file: str = ""
    ) -> None:
        self.prices = tuple(sorted(prices, key=lambda price: (price.is_default, price.name)))
        self.currency = currency  # the ledger's
        self.exchange = tuple(sorted(exchange, key=_since_when))
        self.file = file  # "" for what Trilens ships alone
        self._names_nodes = any(price.match.node for price in self.prices)
        self._fits: dict[_Kind, tuple[Fit, ...]] = {}
        self._rates: dict[tuple[_Kind, int, int, int], tuple[Rate, ...]] = {}

    @cached_property
    def digest(self) -> str:
        told = repr((self.currency, self.exchange, self.prices))
        return hashlib.sha256(told.encode()).hexdigest()[:16]

    def rates(self, machine: Machine, gpus: int, from_ms: int, to_ms: int) -> Sequence[Rate]:
        asked = self._kind(machine), gpus, from_ms, to_ms
        known = self._rates.get(asked)
        if known is None:
            if len(self._rates) >= _RATES_REMEMBERED:
                self._rates.clear()
            known = self._rates[asked] = tuple(self._found(machine, gpus, from_ms, to_ms))
        return known

    def _found(self, machine: Machine, gpus: int, from_ms: int, to_ms: int) -> list[Rate]:
        if from_ms >= to_ms:
            return []
        fits = self._best_first(machine)
        rates: list[Rate] = []
        told: tuple[Fit | None, Decimal | None] | None = None
        edges = sorted({from_ms, *self._edges(fits, from_ms, to_ms)})
        for start, end in zip(edges, [*edges[1:], to_ms], strict=True):
            holding = [one for one in fits if _holds(one.price, start)]
            best = holding[0] if holding else None
            rate = self.exchange_rate(best.price.currency, start) if best is not None else None
            if told == (best, rate):
                rates[-1] = rates[-1]._replace(to_ms=end)
                continue
            told = (best, rate)
            cost = self._cost(holding, rate, machine, gpus) if holding else _gap(machine, bool(fits))
            rates.append(cost._replace(from_ms=start, to_ms=end))
        return rates

    def choice(self, machine: Machine, at_ms: int) -> Choice:
        """For who wants to know why."""
        fits = self._best_first(machine)
        found = (fit(price, machine) for price in self.prices if _holds(price, at_ms))
        return Choice(
            tuple(one for one in fits if _holds(one.price, at_ms)),
            tuple(one for one in fits if not _holds(one.price, at_ms)),
            tuple(one for one in found if isinstance(one, Miss) and _is_near(one)),
        )

    def _best_first(self, machine: Machine) -> tuple[Fit, ...]:
        kind = self._kind(machine)
        fits = self._fits.get(kind)
        if fits is None:
            if len(self._fits) >= _FITS_REMEMBERED:
                self._fits.clear()
            found = (fit(price, machine) for price in self.prices)
            fits = tuple(sorted((x for x in found if isinstance(x, Fit)), key=_specificity, reverse=True))
            self._fits[kind] = fits
        return fits

    def _kind(self, machine: Machine) -> _Kind:
        """A thousand machines of one kind differ in their names only, which few books ask for; and where
        nothing else is known of a machine, a gap is told by its name."""
        is_named = self._names_nodes or not (machine.gpu_model or machine.instance_type)
        return (
            machine.cluster,
            machine.node if is_named else "",
            machine.instance_type,
            machine.gpu_model,
            machine.region,
            machine.provider,
            machine.purchase,
            machine.cpus,
            machine.memory_bytes,
            machine.storage_bytes,
        )

    def _edges(self, fits: Sequence[Fit], from_ms: int, to_ms: int) -> Iterator[int]:
        """Every moment inside at which another price or another exchange rate may begin."""
        currencies = {one.price.currency for one in fits} - {self.currency}
        for one in fits:
            yield from _inside((one.price.from_ms, one.price.until_ms), from_ms, to_ms)
        for rate in self.exchange:
            if rate.currency in currencies:
                yield from _inside((rate.from_ms,), from_ms, to_ms)

    def exchange_rate(self, currency: str, at_ms: int) -> Decimal | None:
        """How many units of the ledger's currency one of this is; None where nothing tells."""
        if currency == self.currency:
            return _ONE
        rates = [
            one
            for one in self.exchange
            if one.currency == currency and (one.from_ms is None or one.from_ms <= at_ms)
        ]
        return rates[-1].rate if rates else None  # in the order of time

    def _cost(self, fits: Sequence[Fit], rate: Decimal | None, machine: Machine, gpus: int) -> Rate:
        """By the first of them, of whatever time."""
        price = fits[0].price
        doubts = list(_doubts(fits))
        told = Rate(0, 0, None, price=price.name, purchase=machine.purchase or paid(price))
        if rate is None:
            return told._replace(doubts=(*doubts, _no_exchange(price, self.currency)))
        cost = hour_cost(price, machine, gpus, rate)
        if cost.unknown:
            doubts.append(_incomplete(price, cost.unknown))
        return told._replace(
            per_hour=cost.total, currency=self.currency, components=cost.parts, doubts=tuple(doubts)
        )


def default_book() -> Prices:
    """What Trilens ships: list prices, each with its day."""
    return price_book(None)


def price_book(file: Path | None) -> Prices:
    """The prices of a file, and behind them those that Trilens ships. Raises ConfigError with its line."""
    own = read_price_file(file) if file is not None else PriceFile((), "USD")
    names = {price.name for price in own.prices}
    shipped = [price for price in default_prices() if price.name not in names] if own.defaults else []
    return Prices((*own.prices, *shipped), own.currency, own.exchange, str(file) if file is not None else "")


def paid(price: Price) -> str:
    """How a price says that its machines are paid; "" where it says nothing of it."""
    purchase = price.match.purchase or (Purchase.OWNED if price.owned is not None else None)
    return purchase.value if purchase is not None else ""


def _holds(price: Price, at_ms: int) -> bool:
    return (price.from_ms is None or price.from_ms <= at_ms) and (
        price.until_ms is None or at_ms < price.until_ms
    )


def _since_when(rate: ExchangeRate) -> tuple[str, bool, int]:
    return rate.currency, rate.from_ms is not None, rate.from_ms or 0


def _inside(moments: tuple[int | None, ...], from_ms: int, to_ms: int) -> Iterator[int]:
    return (moment for moment in moments if moment is not None and from_ms < moment < to_ms)


def _specificity(one: Fit) -> tuple[object, ...]:
    """What is equal by it stays in the order of the book, which is that of names."""
    since = one.price.from_ms
    return (*one.rank, since is not None, since or 0)


def _is_near(miss: Miss) -> bool:
    """Of the same kind of machine, but for one thing."""
    return miss.kind in ("cluster", "region", "provider", "purchase") and any(
        (miss.price.match.node, miss.price.match.instance_type, miss.price.match.gpu_model)
    )


def _doubts(fits: Sequence[Fit]) -> Iterator[Doubt]:
    best, price = fits[0], fits[0].price
    if price.is_default:
        yield Doubt(
            "default-price",
            f"{price.name}: a list price as of {price.as_of} ({price.told_by}), not yours",
            "write what you pay into prices.file",
        )
    if price.is_estimate:
        yield Doubt(
            "estimated-price",
            f"{price.name}: an estimate{f', by {price.source}' if price.source else ''}",
            "write what you pay into prices.file",
        )
    if best.is_assumed:
        yield Doubt(
            "purchase-assumed",
            f"{price.name}: nobody tells how these machines are paid; taken as {price.match.purchase}",
            "label the nodes, or name them (node, cluster) in a price",
        )
    rivals = [
        one.price.name
        for one in fits
        if one.rank == best.rank and one.price.match.gpu_model != price.match.gpu_model
    ]
    if rivals:
        yield Doubt(
            "price-ambiguous",
            f"{price.name}: {' and '.join(sorted(rivals))} fits these machines just as well",
            "name more words of the GPU's model in one of them",
        )


def _gap(machine: Machine, at_other_times: bool) -> Rate:
    what = machine.gpu_model or "a GPU of an unknown model"
    known = [
        machine.instance_type and f"in {machine.instance_type}",
        machine.region and f"in {machine.region}",
        machine.purchase and f"paid as {machine.purchase}",
    ]
    text = " ".join(["no price fits", what, *(part for part in known if part)])
    if at_other_times:
        text += " at this time; there is one for another"
    key = "gpu_model" if machine.gpu_model else "instance_type" if machine.instance_type else "node"
    wanted = machine.gpu_model or machine.instance_type or machine.node
    entry = f"{{name: NAME, match: {{{key}: {wanted}}}, per_gpu_hour: AMOUNT}}"
    doubt = Doubt("no-price", text, f"write one into prices.file: {entry}")
    return Rate(0, 0, None, purchase=machine.purchase, doubts=(doubt,))


def _no_exchange(price: Price, currency: str) -> Doubt:
    return Doubt(
        "no-exchange-rate",
        f"{price.name}: {price.currency} cannot be turned into {currency} at this time",
        f"write a rate under exchange in prices.file: {{currency: {price.currency}, rate: RATE, from: DATE}}",
    )


def _incomplete(price: Price, unknown: tuple[str, ...]) -> Doubt:
    return Doubt(
        "price-incomplete",
        f"{price.name}: without {' and '.join(unknown)}, as nobody tells how much these machines have",
        "give a price of the whole node instead",
    )
