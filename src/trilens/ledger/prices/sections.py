"""The shape of a file of prices: its keys, and what each may say. docs/prices.md describes them."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, Field, field_validator, model_validator

from trilens.ledger.prices.match import model_words
from trilens.model.price import Purchase
from trilens.settings.group import Group

_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_NUMBER: Final = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_AS_OF: Final = re.compile(r"\d{4}(-\d\d(-\d\d)?)?")
_MOST_DECIMALS: Final = 12
HIGHEST_PER_HOUR: Final = Decimal(10_000)  # for a GPU or a node; what is above is a slip of the pen
EXTRAS: Final = (
    "cpu_per_core_hour",
    "memory_per_gib_hour",
    "storage_per_gib_month",
    "network_per_node_hour",
)


def _number(value: Any) -> Any:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        raise ValueError(f"{value!r} is not a number; write it like 1250 or 0.035, without signs or commas")
    try:
        number = Decimal(value.strip())
    except InvalidOperation as e:
        raise ValueError(f"{value!r} is not a number") from e
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent > _MOST_DECIMALS or abs(number) >= Decimal(10) ** 15:
        raise ValueError(f"{value}: at most {_MOST_DECIMALS} decimals, and below 10^15")
    return number


def _positive(value: Any) -> Any:
    number = _number(value)
    if number < 0:
        raise ValueError(f"{value} is negative")
    if number == 0:
        raise ValueError("0 is no price: leave it out, or write `free: true` if it costs nothing on purpose")
    return number


def _patterns(value: Any) -> Any:
    found = [value] if isinstance(value, str) else value
    if isinstance(found, list) and (not found or not all(isinstance(x, str) and x.strip() for x in found)):
        raise ValueError("is a text, or a list of them; to match everything, leave it out")
    return found


def _moment(value: Any) -> Any:
    """A day begins at midnight of UTC; a moment says its zone."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a date")
    try:
        if _DAY.fullmatch(value):
            day = date.fromisoformat(value)
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        moment = datetime.fromisoformat(value)
    except ValueError as e:
        example = "2026-01-31 or 2026-01-31T12:00:00+01:00"
        raise ValueError(f"{value!r} is not a date; write it like {example}") from e
    if moment.tzinfo is None:
        raise ValueError(f"{value} has no zone; end it with Z for UTC, or with one like +01:00")
    return moment


def _currency(value: Any) -> Any:
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise ValueError(f"{value!r} is not a currency; write its three letters, such as USD or EUR")
    return value


Number = Annotated[Decimal, BeforeValidator(_number)]
Positive = Annotated[Decimal, BeforeValidator(_positive)]
Patterns = Annotated[tuple[str, ...], BeforeValidator(_patterns)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
Currency = Annotated[str, BeforeValidator(_currency)]


class MatchSection(Group):
    node: Patterns = ()
    cluster: Patterns = ()
    instance_type: Patterns = ()
    gpu_model: Patterns = ()
    region: Patterns = ()
    provider: Patterns = ()
    purchase: Purchase | None = None

    @field_validator("gpu_model")
    @classmethod
    def _has_words(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            if not model_words(pattern):
                raise ValueError(f"{pattern!r} has no word of a GPU's model")
        return patterns


class PowerSection(Group):
    gpu_watts: Positive | None = Field(default=None, le=10_000)
    host_watts: Positive | None = Field(default=None, le=100_000)
    pue: Number = Field(default=Decimal(1), ge=1, le=10)
    per_kwh: Positive

    @model_validator(mode="after")
    def _draws_something(self) -> PowerSection:
        if self.gpu_watts is None and self.host_watts is None:
            raise ValueError("say `gpu_watts` (of one GPU), `host_watts` (of the rest of a node) or both")
        return self


class OwnedSection(Group):
    node_price: Positive | None = None
    gpu_price: Positive | None = None
    amortised_years: Positive | None = Field(default=None, le=50)
    upkeep_per_year: Positive | None = None
    power: PowerSection | None = None

    @model_validator(mode="after")
    def _adds_up(self) -> OwnedSection:
        bought = self.node_price is not None or self.gpu_price is not None
        if bought != (self.amortised_years is not None):
            raise ValueError("`amortised_years` goes with `node_price` or `gpu_price`")
        if not bought and self.upkeep_per_year is None and self.power is None:
            raise ValueError("says nothing that costs: give `node_price`, `upkeep_per_year` or `power`")
        return self


class PriceSection(Group):
    name: str = Field(min_length=1)
    match: MatchSection = MatchSection()
    from_: Moment | None = Field(default=None, alias="from")
    until: Moment | None = None
    currency: Currency | None = None
    free: bool = False
    per_node_hour: Positive | None = None
    per_gpu_hour: Positive | None = None
    cpu_per_core_hour: Positive | None = None
    memory_per_gib_hour: Positive | None = None
    storage_per_gib_month: Positive | None = None
    network_per_node_hour: Positive | None = None
    owned: OwnedSection | None = None
    as_of: str = ""
    told_by: str = ""
    source: str = ""
    estimate: bool = False

    @field_validator("as_of")
    @classmethod
    def _is_a_day(cls, as_of: str) -> str:
        if as_of and not _AS_OF.fullmatch(as_of):
            raise ValueError(f"{as_of!r} is not a day, a month or a year, like 2026-01-31, 2026-01 or 2026")
        return as_of

    @model_validator(mode="after")
    def _has_one_price(self) -> PriceSection:
        ways = {
            "free": self.free,
            "per_node_hour": self.per_node_hour is not None,
            "per_gpu_hour": self.per_gpu_hour is not None,
            "owned": self.owned is not None,
        }
        given = [way for way, is_given in ways.items() if is_given]
        if len(given) != 1:
            raise ValueError(f"a price is one of {', '.join(ways)}; here is {' and '.join(given) or 'none'}")
        if self.free and (extra := [name for name in EXTRAS if getattr(self, name) is not None]):
            raise ValueError(f"what is free has no {extra[0]}")
        if self.from_ is not None and self.until is not None and self.from_ >= self.until:
            raise ValueError("`until` is not after `from`")
        if self.owned is not None and self.match.purchase not in (None, Purchase.OWNED):
            raise ValueError(f"what is owned is not paid as {self.match.purchase}")
        return self


class ExchangeSection(Group):
    currency: Currency
    rate: Positive
    from_: Moment | None = Field(default=None, alias="from")


class FileSection(Group):
    currency: Currency
    defaults: bool = True
    highest_per_hour: Positive = HIGHEST_PER_HOUR
    exchange: tuple[ExchangeSection, ...] = ()
    prices: tuple[PriceSection, ...] = ()


SECTIONS: Final[dict[str, type[BaseModel]]] = {
    "": FileSection,
    "prices": PriceSection,
    "match": MatchSection,
    "owned": OwnedSection,
    "power": PowerSection,
    "exchange": ExchangeSection,
}


def keys_of(section: str) -> list[str]:
    """What may stand under that key, or in the file itself."""
    return sorted(field.alias or name for name, field in SECTIONS[section].model_fields.items())
