"""A file of prices, read and checked, with the place of what is wrong. docs/prices.md describes it."""

from __future__ import annotations

import difflib
from decimal import Decimal
from functools import cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from pydantic import ValidationError

from trilens.ledger.prices.match import compete
from trilens.ledger.prices.sections import EXTRAS, HIGHEST_PER_HOUR, FileSection, MatchSection, keys_of
from trilens.model.errors import ConfigError
from trilens.model.price import ExchangeRate, Match, Owned, Power, Price
from trilens.settings.explain import explain
from trilens.settings.yaml_file import Place, YamlFile, parse_yaml, read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from trilens.ledger.prices.sections import OwnedSection, PriceSection

# What is absurd, in a currency in which 10,000 an hour is.
_HIGHEST: Final = {
    "per_node_hour": HIGHEST_PER_HOUR,
    "per_gpu_hour": HIGHEST_PER_HOUR,
    "network_per_node_hour": HIGHEST_PER_HOUR,
    "cpu_per_core_hour": Decimal(10),
    "memory_per_gib_hour": Decimal(10),
    "storage_per_gib_month": Decimal(100),
    "node_price": Decimal(100_000_000),
    "gpu_price": Decimal(10_000_000),
    "upkeep_per_year": Decimal(100_000_000),
    "per_kwh": Decimal(10),
}


class PriceFile(NamedTuple):
    prices: tuple[Price, ...]
    currency: str
    exchange: tuple[ExchangeRate, ...] = ()
    defaults: bool = True  # whether what Trilens ships is used as well


def read_price_file(file: Path) -> PriceFile:
    """Raises ConfigError with file, line and column."""
    return _checked(read_yaml(file, "the price file", as_written=True), is_default=False)


def parse_prices(text: str, file: Path, *, is_default: bool = False) -> PriceFile:
    """The same for a text that was read already."""
    return _checked(parse_yaml(text, file, as_written=True), is_default=is_default)


@cache
def default_prices() -> tuple[Price, ...]:
    """What Trilens ships, each with how old its figure is."""
    name = "defaults.yaml"
    text = (files("trilens.ledger.prices") / name).read_text(encoding="utf-8")
    return parse_prices(text, Path(name), is_default=True).prices


def _checked(document: YamlFile, *, is_default: bool) -> PriceFile:
    place = Place(document)
    try:
        section = FileSection.model_validate(document.tree if document.tree is not None else {})
    except ValidationError as e:
        raise explain(e, place, _nearest) from e
    _check_exchange(section, place / "exchange")
    for i, price in enumerate(section.prices):
        _check_amounts(price, section.highest_per_hour, place / "prices" / i)
    prices = [_price(one, section.currency, is_default) for one in section.prices]
    _check_rivals(prices, place / "prices")
    exchange = tuple(ExchangeRate(one.currency, one.rate, _ms(one.from_)) for one in section.exchange)
    return PriceFile(tuple(prices), section.currency, exchange, section.defaults)


def _price(section: PriceSection, currency: str, is_default: bool) -> Price:
    match, owned = section.match, section.owned
    return Price(
        name=section.name,
        match=Match(**{name: getattr(match, name) for name in MatchSection.model_fields}),
        currency=section.currency or currency,
        from_ms=_ms(section.from_),
        until_ms=_ms(section.until),
        free=section.free,
        per_node_hour=section.per_node_hour,
        per_gpu_hour=section.per_gpu_hour,
        cpu_per_core_hour=section.cpu_per_core_hour,
        memory_per_gib_hour=section.memory_per_gib_hour,
        storage_per_gib_month=section.storage_per_gib_month,
        network_per_node_hour=section.network_per_node_hour,
        owned=_owned(owned) if owned is not None else None,
        as_of=section.as_of,
        told_by=section.told_by,
        source=section.source,
        is_estimate=section.estimate,
        is_default=is_default,
    )


def _owned(section: OwnedSection) -> Owned:
    power = section.power
    return Owned(
        section.node_price,
        section.gpu_price,
        section.amortised_years,
        section.upkeep_per_year,
        Power(power.gpu_watts, power.host_watts, power.pue, power.per_kwh) if power is not None else None,
    )


def _check_amounts(price: PriceSection, highest: Decimal, at: Place) -> None:
    """A price a thousand times too high is a comma in the wrong place, and would be believed."""
    for place, amount in _amounts(price, at):
        most = _HIGHEST[str(place.path[-1])] * highest / HIGHEST_PER_HOUR
        if amount is not None and amount > most:
            raise ConfigError(
                f"{place}: {amount} is more than anything costs (at most {most:f} is taken)",
                hint="look at the unit and the decimal point; a currency of small units needs a higher "
                "highest_per_hour",
                where=place.where,
            )


def _amounts(price: PriceSection, at: Place) -> Iterator[tuple[Place, Decimal | None]]:
    for name in ("per_node_hour", "per_gpu_hour", *EXTRAS):
        yield at / name, getattr(price, name)
    if price.owned is not None:
        for name in ("node_price", "gpu_price", "upkeep_per_year"):
            yield at / "owned" / name, getattr(price.owned, name)
        if price.owned.power is not None:
            yield at / "owned" / "power" / "per_kwh", price.owned.power.per_kwh


def _check_exchange(section: FileSection, at: Place) -> None:
    seen: set[tuple[str, datetime | None]] = set()
    for i, one in enumerate(section.exchange):
        if one.currency == section.currency:
            _refuse(at / i / "currency", f"{one.currency} is the currency of the file already")
        if (one.currency, one.from_) in seen:
            _refuse(at / i, f"{one.currency} has two rates that begin at the same time")
        seen.add((one.currency, one.from_))


def _check_rivals(prices: Sequence[Price], at: Place) -> None:
    """Of two prices that fit the same machines equally well, the later one holds from its beginning on: the
    earlier one has no end, or ends by then."""
    names: dict[str, int] = {}
    for i, price in enumerate(prices):
        if price.name in names:
            _refuse(at / i / "name", f"the name {price.name!r} is given a second time")
        names[price.name] = i
    by_time = sorted(enumerate(prices), key=lambda one: (one[1].from_ms is not None, one[1].from_ms or 0))
    for (_, earlier), (i, later) in combinations(by_time, 2):
        if not compete(earlier.match, later.match):
            continue
        if earlier.from_ms == later.from_ms:
            _refuse(
                at / i, f"fits the same machines as {earlier.name!r} from the same time on: which one counts?"
            )
        if earlier.until_ms is not None and later.from_ms is not None and earlier.until_ms > later.from_ms:
            _refuse(at / i, f"begins before {earlier.name!r} ends, and fits the same machines")


def _refuse(at: Place, message: str) -> NoReturn:
    raise ConfigError(f"{at}: {message}", where=at.where)


def _nearest(at: Place) -> str | None:
    *above, name = (one for one in at.path if isinstance(one, str))
    known = keys_of(above[-1] if above else "")
    found = difflib.get_close_matches(name, known, n=1) or [key for key in known if key.startswith(name)]
    return found[0] if found else None


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
