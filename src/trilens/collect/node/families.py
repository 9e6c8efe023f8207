"""Metrics in the Prometheus text format. By hand: client libraries insist on _total, DCGM's names lack it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Description(NamedTuple):
    kind: Literal["gauge", "counter"]
    help: str


class Sample(NamedTuple):
    name: str
    labels: Mapping[str, str]
    value: float


def write(samples: Iterable[Sample], descriptions: Mapping[str, Description]) -> bytes:
    """Grouped by metric, as the format asks for."""
    families: dict[str, list[str]] = {}
    for name, labels, value in samples:
        pairs = ",".join(f'{key}="{text.translate(_ESCAPES)}"' for key, text in labels.items() if text)
        families.setdefault(name, []).append(f"{name}{{{pairs}}} {_number(value)}\n")
    out: list[str] = []
    for name, lines in families.items():
        described = descriptions[name]
        out += (f"# HELP {name} {described.help}\n", f"# TYPE {name} {described.kind}\n", *lines)
    return "".join(out).encode()


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
