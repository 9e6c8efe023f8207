"""Functions of instant vectors and scalars that work value by value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trilens.model.matcher import Matcher
    from trilens.model.series import Floats
    from trilens.promql.vector import Vector

ELEMENTWISE: Final[dict[str, Callable[[Floats], Floats]]] = {
    "abs": np.abs,
    "ceil": np.ceil,
    "floor": np.floor,
    "exp": np.exp,
    "ln": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sqrt": np.sqrt,
    "sgn": np.sign,
    "deg": np.degrees,
    "rad": np.radians,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
}


def elementwise(name: str, vector: Vector) -> Vector:
    with np.errstate(all="ignore"):
        return vector.replace(values=ELEMENTWISE[name](vector.values), drop_name=True)


def round_to(vector: Vector, nearest: Floats) -> Vector:
    """Half up, by way of the inverse: 0.1 has no exact form, 10 has."""
    with np.errstate(all="ignore"):
        inverse = 1.0 / nearest
        return vector.replace(values=np.floor(vector.values * inverse + 0.5) / inverse, drop_name=True)


def clamp(vector: Vector, low: Floats, high: Floats) -> Vector:
    values = _larger(low, _smaller(high, vector.values))
    empty = np.broadcast_to(high < low, values.shape)
    if empty.any():
        return vector.replace(values=values, present=~empty, drop_name=True)
    return vector.replace(values=values, drop_name=True)


def _smaller(a: Floats, b: Floats) -> Floats:
    """As Go has it: nothing is smaller than -Inf, not even what is no number."""
    return np.where(np.fmin(a, b) == -np.inf, -np.inf, np.minimum(a, b))


def _larger(a: Floats, b: Floats) -> Floats:
    return -_smaller(-a, -b)


def _dates(values: Floats) -> NDArray[np.datetime64]:
    """Seconds since the epoch as dates; what is no number or beyond all calendars is no date."""
    with np.errstate(invalid="ignore"):
        sane = np.abs(values) < 1e15
        seconds = np.where(sane, values, 0).astype(np.int64).astype("datetime64[s]")
    return np.where(sane, seconds, np.datetime64("NaT"))


def _since(dates: NDArray[np.datetime64], unit: str, start: str) -> Floats:
    """How many whole units since the date's own year, month, ... began; NaN for no date."""
    begun = dates.astype(f"datetime64[{start}]").astype(f"datetime64[{unit}]")
    elapsed = dates.astype(f"datetime64[{unit}]") - begun
    return np.where(np.isnat(dates), np.nan, elapsed.astype(np.float64))


def _year(dates: NDArray[np.datetime64]) -> Floats:
    years = dates.astype("datetime64[Y]").astype(np.float64) + 1970
    return np.where(np.isnat(dates), np.nan, years)


def _weekday(dates: NDArray[np.datetime64]) -> Floats:
    days = dates.astype("datetime64[D]").astype(np.int64)
    return np.where(np.isnat(dates), np.nan, (days + 4) % 7)  # the epoch was a Thursday


def _days_in_month(dates: NDArray[np.datetime64]) -> Floats:
    month = dates.astype("datetime64[M]")
    days = (month + 1).astype("datetime64[D]") - month.astype("datetime64[D]")
    return np.where(np.isnat(dates), np.nan, days.astype(np.float64))


CALENDAR: Final[dict[str, Callable[[NDArray[Any]], Floats]]] = {
    "year": _year,
    "month": lambda d: _since(d, "M", "Y") + 1,
    "day_of_month": lambda d: _since(d, "D", "M") + 1,
    "day_of_year": lambda d: _since(d, "D", "Y") + 1,
    "day_of_week": _weekday,
    "days_in_month": _days_in_month,
    "hour": lambda d: _since(d, "h", "D"),
    "minute": lambda d: _since(d, "m", "h"),
}


def calendar(name: str, vector: Vector) -> Vector:
    return vector.replace(values=CALENDAR[name](_dates(vector.values)), drop_name=True)


def to_scalar(vector: Vector) -> Floats:
    """The only value of each step, NaN where there is none or more than one."""
    mask = vector.mask
    single = np.count_nonzero(mask, axis=0) == 1
    total = np.where(mask, vector.values, 0.0).sum(axis=0)
    return np.where(single, total, np.nan)


def absent_labels(matchers: tuple[Matcher, ...]) -> dict[str, str]:
    """What a series that the selector misses would be labelled, as far as the selector says.

    As in Prometheus, a matcher takes away what an earlier one gave, but not what a later one will.
    """
    labels: dict[str, str] = {}
    given: set[str] = set()
    for matcher in matchers:
        if matcher.name == "__name__":
            continue
        if matcher.op == "=" and matcher.name not in given:
            labels[matcher.name] = matcher.value
            given.add(matcher.name)
        else:
            labels.pop(matcher.name, None)
    return labels
