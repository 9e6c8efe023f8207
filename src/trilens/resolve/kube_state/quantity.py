"""Kubernetes quantities ("500m", "16Gi", "1e3") as numbers, and amounts of resources as series."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from trilens.resolve.kube_state.sample import StateSample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_WRITTEN: Final = re.compile(r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]+)|([KMGTPE]i)|([numkMGTPE]))?")
_BINARY: Final = {f"{prefix}i": Decimal(1024**power) for power, prefix in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    prefix: Decimal(10) ** exponent
    for prefix, exponent in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
}
_MILLI: Final = Decimal("0.001")
_LONGEST: Final = 64  # characters; nobody writes a quantity that long, and Decimal would work on it for long
_FURTHEST: Final = 24  # digits before or behind the point; Kubernetes has 19 and 9

_BYTES: Final = ("memory", "storage", "ephemeral-storage")
_BYTE_PREFIXES: Final = ("hugepages-", "attachable-volumes-")
_UNFIT: Final = re.compile(r"[^a-zA-Z0-9_]")


@lru_cache(maxsize=4096)
def quantity(written: str) -> Decimal | None:
    """None for what is no quantity."""
    found = _WRITTEN.fullmatch(written) if len(written) <= _LONGEST else None
    if found is None:
        return None
    number, exponent, binary, decimal = found.groups()
    try:
        if exponent:
            amount = Decimal(number + exponent)
        else:
            amount = Decimal(number) * (_BINARY[binary] if binary else _DECIMAL.get(decimal, Decimal(1)))
    except InvalidOperation:
        return None
    return amount if abs(amount.adjusted()) <= _FURTHEST else None


def to_thousandth(amount: Decimal) -> float:
    """Rounded up, as Kubernetes does."""
    return float(amount.quantize(_MILLI, ROUND_CEILING)) if abs(amount) < Decimal(10) ** 15 else float(amount)


def to_whole(amount: Decimal) -> float:
    return float(amount.to_integral_value(ROUND_CEILING))


def amounts(
    metric: str,
    resources: Mapping[str, Any],
    labels: Mapping[str, str] | None = None,
    *,
    of_node: bool = False,
) -> Iterator[StateSample]:
    """A series for each resource, with its unit; what a node has is rounded less than what others ask."""
    for name, written in resources.items():
        unit = _unit(name, of_node=of_node)
        amount = quantity(str(written))
        if unit is None or amount is None:
            continue
        value = to_thousandth(amount) if unit == "core" or of_node else to_whole(amount)
        yield StateSample(metric, value, {**(labels or {}), "resource": _UNFIT.sub("_", name), "unit": unit})


def _unit(resource: str, *, of_node: bool) -> str | None:
    if resource == "cpu":
        return "core"
    if resource in _BYTES or resource.startswith(_BYTE_PREFIXES):
        return "byte"
    if of_node and resource == "pods":
        return "integer"
    # What a device plugin offers. Resources of Kubernetes itself have no domain, or its own.
    return "integer" if "/" in resource and "kubernetes.io/" not in resource else None
