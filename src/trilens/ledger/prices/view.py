"""A price book, and why one price counts, as people and programs are shown it. Amounts are decimal texts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from trilens.ledger.prices.match import KINDS
from trilens.model.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.ledger.prices.book import Prices
    from trilens.ledger.prices.match import Fit, Miss
    from trilens.model.price import Owned, Price

_AMOUNTS: Final = (
    "per_node_hour",
    "per_gpu_hour",
    "cpu_per_core_hour",
    "memory_per_gib_hour",
    "storage_per_gib_month",
    "network_per_node_hour",
)


@dataclass(frozen=True, slots=True)
class PriceAnswer:
    """`match` is what it asks of a machine; `asks` are its amounts by key, `owned.node_price` too."""

    name: str
    match: dict[str, list[str]]
    from_ms: int | None
    until_ms: int | None
    currency: str
    free: bool
    asks: dict[str, str]
    as_of: str
    told_by: str
    default: bool


@dataclass(frozen=True, slots=True)
class ExchangeAnswer:
    currency: str
    rate: str
    from_ms: int | None


@dataclass(frozen=True, slots=True)
class BookAnswer:
    """`file` is empty where there is none of the user's."""

    file: str
    currency: str
    digest: str
    exchange: list[ExchangeAnswer]
    prices: list[PriceAnswer]


@dataclass(frozen=True, slots=True)
class FitAnswer:
    """A price that fits, with what of it does, in the order in which that counts."""

    name: str
    default: bool
    why: list[str]


@dataclass(frozen=True, slots=True)
class MissAnswer:
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class PriceDoubt:
    code: str
    text: str
    remedy: str | None


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    """`fits` and `misses` the best first; the first of `fits` counts. `per_hour` is null without a price."""

    at_ms: int
    gpus: int
    price: str
    purchase: str
    per_hour: str | None
    currency: str
    components: dict[str, str]
    fits: list[FitAnswer]
    misses: list[MissAnswer]
    doubts: list[PriceDoubt]


def described(told: Mapping[str, str]) -> Machine:
    """A machine of which someone tells so much, by the keys of `match`."""
    return Machine(
        cluster=told.get("cluster", ""),
        node=told.get("node", ""),
        instance_type=told.get("instance_type", ""),
        region=told.get("region", ""),
        purchase=told.get("purchase", ""),
        provider=told.get("provider", ""),
        gpu_model=told.get("gpu_model", ""),
    )


def book_answer(book: Prices) -> BookAnswer:
    return BookAnswer(
        book.file,
        book.currency,
        book.digest,
        [ExchangeAnswer(one.currency, plain(one.rate), one.from_ms) for one in book.exchange],
        [_price(one) for one in book.prices],
    )


def choice_answer(book: Prices, machine: Machine, gpus: int, at_ms: int) -> ChoiceAnswer:
    choice = book.choice(machine, at_ms)
    (rate,) = book.rates(machine, gpus, at_ms, at_ms + 1)
    return ChoiceAnswer(
        at_ms,
        gpus,
        rate.price,
        rate.purchase,
        None if rate.per_hour is None else plain(rate.per_hour),
        rate.currency,
        {part: plain(amount) for part, amount in rate.components.items()},
        [FitAnswer(one.price.name, one.price.is_default, [*_why(one)]) for one in choice.fits],
        [MissAnswer(one.price.name, _why_not(one)) for one in choice.misses],
        [PriceDoubt(*doubt) for doubt in rate.doubts],
    )


def plain(amount: Decimal) -> str:
    """Without zeros at the end, and never as 1E+3."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _price(price: Price) -> PriceAnswer:
    match = {kind: [*getattr(price.match, kind)] for kind in KINDS if getattr(price.match, kind)}
    if price.match.purchase is not None:
        match["purchase"] = [price.match.purchase.value]
    asks = {key: plain(getattr(price, key)) for key in _AMOUNTS if getattr(price, key) is not None}
    if price.owned is not None:
        asks |= {f"owned.{key}": plain(amount) for key, amount in _owned(price.owned)}
    return PriceAnswer(
        price.name,
        match,
        price.from_ms,
        price.until_ms,
        price.currency,
        price.free,
        asks,
        price.as_of,
        price.told_by,
        price.is_default,
    )


def _owned(owned: Owned) -> Iterator[tuple[str, Decimal]]:
    for key, amount in owned._asdict().items():
        if isinstance(amount, Decimal):
            yield key, amount
    if owned.power is not None:
        for key, amount in owned.power._asdict().items():
            if amount is not None:
                yield f"power.{key}", amount


def _why(fit: Fit) -> Iterator[str]:
    match = fit.price.match
    for kind in KINDS:
        if patterns := getattr(match, kind):
            yield f"{kind} {' or '.join(patterns)}"
    if match.purchase is not None:
        yield f"purchase {match.purchase}{' (assumed)' if fit.is_assumed else ''}"
    if not any(getattr(match, one.name) for one in fields(match)):
        yield "fits every machine"


def _why_not(miss: Miss) -> str:
    has = miss.has or "not known"
    return f"{miss.kind} is {has}, and it asks for {miss.wanted}"
