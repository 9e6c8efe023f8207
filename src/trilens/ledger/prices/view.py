"""A price book, and why one price counts, as people and programs are shown it. Amounts are decimal texts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from trilens.ledger.prices.match import KINDS
from trilens.model.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    """`match` is what it asks of a machine; `asks` are its amounts by key, `owned.node_price` too. `told_by`
    is whose price it is, `source` where it was read."""

    name: str
    match: dict[str, list[str]]
    from_ms: int | None
    until_ms: int | None
    currency: str
    free: bool
    asks: dict[str, str]
    as_of: str
    told_by: str
    source: str
    estimate: bool
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
    """A price that fits, with what of it does, in the order in which that counts; `behind` says why another
    counts before it, and is empty for the first."""

    name: str
    default: bool
    estimate: bool
    why: list[str]
    behind: str


@dataclass(frozen=True, slots=True)
class MissAnswer:
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class PricedMachine:
    """What is empty or null nobody tells. `known`: a machine of this name was there, and what was not asked
    for is what it tells of itself."""

    known: bool
    cluster: str
    node: str
    instance_type: str
    gpu_model: str
    region: str
    provider: str
    purchase: str
    gpus: int | None


@dataclass(frozen=True, slots=True)
class PriceDoubt:
    code: str
    text: str
    remedy: str | None


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    """`fits` and `misses` the best first; the first of `fits` counts. `per_hour` is null without a price."""

    at_ms: int
    machine: PricedMachine
    gpus: int
    price: str
    purchase: str
    per_hour: str | None
    currency: str
    components: dict[str, str]
    fits: list[FitAnswer]
    misses: list[MissAnswer]
    doubts: list[PriceDoubt]


def described(told: Mapping[str, str], known: Machine | None = None) -> Machine:
    """A machine of which someone tells so much, by the keys of `match`; the rest as it is known."""
    asked = {key: value for key, value in told.items() if value}
    return replace(known if known is not None else Machine("", ""), **asked)  # type: ignore[arg-type]


def book_answer(book: Prices) -> BookAnswer:
    return BookAnswer(
        book.file,
        book.currency,
        book.digest,
        [ExchangeAnswer(one.currency, plain(one.rate), one.from_ms) for one in book.exchange],
        [_price(one) for one in book.prices],
    )


def choice_answer(
    book: Prices,
    machine: Machine,
    gpus: int | None,
    at_ms: int,
    *,
    known: bool = False,
    doubts: Sequence[PriceDoubt] = (),
) -> ChoiceAnswer:
    """Of so many GPUs; without a number, of as many as the machine has, or of one."""
    choice = book.choice(machine, at_ms)
    gpus = gpus or machine.gpus or 1
    (rate,) = book.rates(machine, gpus, at_ms, at_ms + 1)
    return ChoiceAnswer(
        at_ms,
        PricedMachine(
            known,
            machine.cluster,
            machine.node,
            machine.instance_type,
            machine.gpu_model,
            machine.region,
            machine.provider,
            machine.purchase,
            machine.gpus,
        ),
        gpus,
        rate.price,
        rate.purchase,
        None if rate.per_hour is None else plain(rate.per_hour),
        rate.currency,
        {part: plain(amount) for part, amount in rate.components.items()},
        [
            FitAnswer(
                one.price.name,
                one.price.is_default,
                one.price.is_estimate,
                [*_why(one)],
                _why_behind(one, choice.fits[0]),
            )
            for one in choice.fits
        ],
        [
            *(MissAnswer(one.price.name, _when(one.price, at_ms)) for one in choice.other_times),
            *(MissAnswer(one.price.name, _why_not(one)) for one in choice.misses),
        ],
        [*doubts, *(PriceDoubt(*doubt) for doubt in rate.doubts)],
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
        price.source,
        price.is_estimate,
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


def _why_behind(fit: Fit, first: Fit) -> str:
    if fit is first:
        return ""
    differs = next(
        (kind for kind, mine, its in zip(fit.rank._fields, fit.rank, first.rank, strict=True) if mine != its),
        None,
    )
    if differs == "is_own":
        return "yours come first"
    if differs == "purchase":
        return f"{first.price.name} names how it is paid"
    if differs is not None:
        return f"{first.price.name} says more of the {differs}"
    if fit.price.from_ms != first.price.from_ms:
        return f"{first.price.name} began later"
    return f"{first.price.name} is first by name"


def _when(price: Price, at_ms: int) -> str:
    if price.until_ms is not None and price.until_ms <= at_ms:
        return f"held until {_moment(price.until_ms)}"
    return f"holds from {_moment(price.from_ms or 0)} on"


def _moment(t_ms: int) -> str:
    told = datetime.fromtimestamp(t_ms / 1000, UTC).isoformat().replace("+00:00", "Z")
    return told.removesuffix("T00:00:00Z")


def _why_not(miss: Miss) -> str:
    has = miss.has or "not known"
    return f"{miss.kind} is {has}, and it asks for {miss.wanted}"
