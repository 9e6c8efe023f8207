"""Numbers as text: sample values in bulk, and the bounds of buckets and quantiles in one spelling."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from trilens.collect.exposition.grammar import LabelPairs
    from trilens.model.series import Floats

_BOUND_OF: Final = {"histogram": "le", "summary": "quantile"}
_PLAIN_EXPONENTS: Final = range(-4, 6)  # outside, Go's shortest form switches to an exponent


def convert_values(values: list[bytes]) -> Floats | None:
    """All values at once, or None when any is not a number.

    Arrow's parser rounds as exactly as Python's, is twice as fast, and refuses what Prometheus refuses:
    blanks, underscores and hexadecimal.
    """
    try:
        column = pa.array(values, pa.binary()).cast(pa.string()).cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    numbers: Floats = column.to_numpy(zero_copy_only=False)
    return numbers


def with_normal_bounds(labels: LabelPairs, kind: str) -> LabelPairs:
    """`le="1"` becomes `le="1.0"`, as in Prometheus 3: one bucket is one series in either format."""
    bound = _BOUND_OF.get(kind)
    if bound is None:
        return labels
    return [(name, _normal(value) if name == bound else value) for name, value in labels]


def _normal(text: str) -> str:
    try:
        number = float(text)
    except ValueError:
        return text
    return openmetrics_float(number)


def openmetrics_float(number: float) -> str:
    """The shortest digits that read back as `number`, always with a point or an exponent."""
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "+Inf" if number > 0 else "-Inf"
    sign, digits, _ = Decimal(repr(number)).normalize().as_tuple()
    exponent = Decimal(repr(number)).adjusted() if number else 0
    if number and exponent not in _PLAIN_EXPONENTS:
        mantissa = str(digits[0]) + ("." + "".join(map(str, digits[1:])) if len(digits) > 1 else "")
        return f"{'-' if sign else ''}{mantissa}e{exponent:+03d}"
    plain = format(Decimal(repr(number)), "f")
    return plain if "." in plain else plain + ".0"
