"""Values of a template: what Go would call their types, when they are true, and how they are written.

Go's int is an int here, float64 a float, a map a dict, a slice a list; nil and "no such value" are None.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


class StringMap(dict[str, str]):
    """map[string]string: a key that is not there is an empty string."""


class QueryAnswer(list["Sample"]):
    """What `query` gives."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One element of a query's answer."""

    labels: StringMap
    value: float

    FIELDS = ("Labels", "Value")

    def field(self, name: str) -> Any:
        return {"Labels": self.labels, "Value": self.value}[name]


@dataclass(frozen=True, slots=True)
class AlertData:
    """What dot is at the beginning."""

    labels: StringMap
    external_labels: StringMap
    external_url: str
    value: float

    FIELDS = ("Labels", "ExternalLabels", "ExternalURL", "Value")

    def field(self, name: str) -> Any:
        return {
            "Labels": self.labels,
            "ExternalLabels": self.external_labels,
            "ExternalURL": self.external_url,
            "Value": self.value,
        }[name]


@dataclass(frozen=True, slots=True)
class Moment:
    """A time.Time in UTC."""

    ms: int

    @property
    def _date(self) -> datetime:
        return datetime.fromtimestamp(self.ms / 1000, UTC)

    def __str__(self) -> str:
        seconds, fraction = divmod(self.ms, 1000)
        moment = datetime.fromtimestamp(seconds, UTC)
        part = f".{fraction:03d}".rstrip("0") if fraction else ""
        return f"{moment:%Y-%m-%d %H:%M:%S}{part} +0000 UTC"

    FIELDS = ("Year", "Month", "Day", "Hour", "Minute", "Second", "Weekday", "YearDay", "Unix", "UnixMilli")
    """Methods without arguments; `Format` takes one."""

    def field(self, name: str) -> Any:
        date = self._date
        return {
            "Year": date.year,
            "Month": f"{date:%B}",
            "Day": date.day,
            "Hour": date.hour,
            "Minute": date.minute,
            "Second": date.second,
            "Weekday": f"{date:%A}",
            "YearDay": date.timetuple().tm_yday,
            "Unix": self.ms // 1000,
            "UnixMilli": self.ms,
        }[name]

    def formatted(self, layout: str) -> str:
        date, out = self._date, ""
        while layout:
            for part, pattern in _LAYOUT:
                if layout.startswith(part):
                    out += date.strftime(pattern)
                    layout = layout[len(part) :]
                    break
            else:
                out, layout = out + layout[0], layout[1:]
        return out


# Go writes a layout as the moment 2006-01-02 15:04:05 MST; longer parts come before those they begin with.
_LAYOUT: Final = (
    ("January", "%B"), ("Jan", "%b"), ("Monday", "%A"), ("Mon", "%a"), ("MST", "UTC"), ("2006", "%Y"),
    ("-0700", "+0000"), ("-07:00", "+00:00"), ("Z07:00", "Z"), ("002", "%j"), ("01", "%m"), ("02", "%d"),
    ("03", "%I"), ("04", "%M"), ("05", "%S"), ("06", "%y"), ("15", "%H"), ("PM", "%p"), ("pm", "%P"),
    ("_2", "%e"), ("1", "%-m"), ("2", "%-d"), ("3", "%-I"), ("4", "%-M"), ("5", "%-S"),
)  # fmt: skip

_STRUCTS: Final = (Sample, AlertData, Moment)


def type_name(value: object) -> str:
    match value:
        case None:
            return "nil"
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float64"
        case str():
            return "string"
        case StringMap():
            return "map[string]string"
        case dict():
            return "map[string]interface {}"
        case QueryAnswer():
            return "template.queryResult"
        case Sample():
            return "*template.sample"
        case Moment():
            return "*time.Time"
        case AlertData():
            return (
                "struct { Labels map[string]string; ExternalLabels map[string]string; "
                "ExternalURL string; Value interface {} }"
            )
    return type(value).__name__


def is_true(value: object) -> bool:
    """Go's idea of truth for templates: NaN is not zero."""
    if isinstance(value, _STRUCTS):
        return True
    return bool(value)


def shown(value: object) -> str:
    """As Go's %v."""
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case float():
            return shortest(value)
        case dict():
            return _map_shown(value)
        case list():
            return f"[{' '.join(map(shown, value))}]"
        case Sample():
            return f"{{{shown(value.labels)} {shown(value.value)}}}"
        case AlertData():
            parts = (shown(value.field(name)) for name in AlertData.FIELDS)
            return f"{{{' '.join(parts)}}}"
    return str(value)


def _map_shown(value: Mapping[str, object]) -> str:
    parts = (f"{key}:{'<nil>' if one is None else shown(one)}" for key, one in sorted(value.items()))
    return f"map[{' '.join(parts)}]"


def shortest(value: float) -> str:
    """As Go's %v: the fewest digits that read back the same, an exponent for the very small or large."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits, exponent = digits_of(value)
    sign = "-" if value < 0 else ""
    if not -4 <= exponent < 6:
        return sign + with_exponent(digits, exponent)
    return sign + positional(digits, exponent)


def exponential(value: float) -> str:
    """As Go's 'e' with as many digits as there are: 1.5e+00, whatever its size."""
    if not math.isfinite(value):
        return shortest(value)
    return ("-" if math.copysign(1, value) < 0 else "") + with_exponent(*digits_of(value))


def digits_of(value: float) -> tuple[str, int]:
    """The fewest digits that read back the same, and the power of ten of the first one."""
    _, digits, exponent = Decimal(repr(abs(value))).normalize().as_tuple()
    assert isinstance(exponent, int)
    return "".join(map(str, digits)), exponent + len(digits) - 1


def with_exponent(digits: str, exponent: int) -> str:
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{rest}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def positional(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{whole}.{digits[exponent + 1 :]}" if len(digits) > exponent + 1 else whole
