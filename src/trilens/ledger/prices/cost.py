"""What an hour of a machine costs by a price, part by part."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.price import HOURS_PER_MONTH, HOURS_PER_YEAR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.model.machine import Machine
    from trilens.model.price import Owned, Price

_GIB: Final = 1 << 30
_FINEST: Final = Decimal("1e-12")  # a thousandth of a quantum: parts of an hour's price add up exactly in it
_DIGITS: Final = 40


class HourCost(NamedTuple):
    """`parts` add up to `total`. `unknown` names what the price asks for and nobody knows of the machine."""

    total: Decimal
    parts: Mapping[str, Decimal]
    unknown: tuple[str, ...]


def hour_cost(price: Price, machine: Machine, gpus: int, rate: Decimal) -> HourCost:
    """In a currency of which `rate` units are one unit of the price's."""
    with localcontext() as context:
        context.prec = _DIGITS
        parts: dict[str, Decimal] = {}
        unknown: list[str] = []
        for part, amount in _parts(price, machine, gpus):
            if amount is None:
                unknown.append(part)
            else:
                parts[part] = parts.get(part, Decimal(0)) + amount
        parts = {part: (amount * rate).quantize(_FINEST) for part, amount in parts.items()}
        return HourCost(sum(parts.values(), Decimal(0)), parts, tuple(unknown))


def _parts(price: Price, machine: Machine, gpus: int) -> Iterator[tuple[str, Decimal | None]]:
    if price.per_node_hour is not None:
        yield "gpu", price.per_node_hour
    if price.per_gpu_hour is not None:
        yield "gpu", price.per_gpu_hour * gpus
    if price.owned is not None:
        yield from _owned_parts(price.owned, gpus)
    if price.cpu_per_core_hour is not None:
        cores = None if machine.cpus is None else Decimal(repr(machine.cpus))
        yield "cpu", None if cores is None else price.cpu_per_core_hour * cores
    if price.memory_per_gib_hour is not None:
        size = machine.memory_bytes
        yield "memory", None if size is None else price.memory_per_gib_hour * size / _GIB
    if price.storage_per_gib_month is not None:
        size = machine.storage_bytes
        yield "storage", None if size is None else price.storage_per_gib_month * size / _GIB / HOURS_PER_MONTH
    if price.network_per_node_hour is not None:
        yield "network", price.network_per_node_hour


def _owned_parts(owned: Owned, gpus: int) -> Iterator[tuple[str, Decimal]]:
    bought = (owned.node_price or Decimal(0)) + (owned.gpu_price or Decimal(0)) * gpus
    if owned.amortised_years is not None:
        yield "gpu", bought / owned.amortised_years / HOURS_PER_YEAR
    if owned.upkeep_per_year is not None:
        yield "gpu", owned.upkeep_per_year / HOURS_PER_YEAR
    if owned.power is not None:
        power = owned.power
        watts = (power.gpu_watts or Decimal(0)) * gpus + (power.host_watts or Decimal(0))
        yield "power", watts / 1000 * power.pue * power.per_kwh
