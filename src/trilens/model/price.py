"""What a price fits, for how long it holds, and what it asks: one entry of a price book."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from decimal import Decimal

# Clouds count a month of storage as 730 hours, and twelve of these are a year of 365 days.
HOURS_PER_MONTH: Final = 730
HOURS_PER_YEAR: Final = 12 * HOURS_PER_MONTH


class Purchase(StrEnum):
    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    OWNED = "owned"


@dataclass(frozen=True, slots=True)
class Match:
    """What a machine must be for a price to fit: one pattern of each kind; a kind without any fits all."""

    node: tuple[str, ...] = ()
    cluster: tuple[str, ...] = ()
    instance_type: tuple[str, ...] = ()
    gpu_model: tuple[str, ...] = ()
    region: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    purchase: Purchase | None = None


class Power(NamedTuple):
    gpu_watts: Decimal | None
    host_watts: Decimal | None
    pue: Decimal  # what the building draws for each watt that the machine does
    per_kwh: Decimal


class Owned(NamedTuple):
    """A machine that was bought. How much it is used changes nothing: it costs the same asleep."""

    node_price: Decimal | None
    gpu_price: Decimal | None
    amortised_years: Decimal | None
    upkeep_per_year: Decimal | None  # of a node
    power: Power | None


@dataclass(frozen=True, slots=True)
class Price:
    """What is None is not asked. What is given adds up, but `free` stands alone."""

    name: str
    match: Match
    currency: str
    from_ms: int | None = None  # None: since ever
    until_ms: int | None = None  # the first moment that it no longer holds; None: until another takes over
    free: bool = False
    per_node_hour: Decimal | None = None
    per_gpu_hour: Decimal | None = None
    cpu_per_core_hour: Decimal | None = None
    memory_per_gib_hour: Decimal | None = None
    storage_per_gib_month: Decimal | None = None
    network_per_node_hour: Decimal | None = None
    owned: Owned | None = None
    as_of: str = ""  # how old the figure is: a day, a month or a year
    told_by: str = ""  # whose price it is
    source: str = ""  # where the figure was read
    is_estimate: bool = False  # the figure, or what it stands for, is a guess
    is_default: bool = False


class ExchangeRate(NamedTuple):
    """One unit of `currency` is `rate` units of the ledger's, from a moment until the next rate of it."""

    currency: str
    rate: Decimal
    from_ms: int | None
