"""Numbers for /metrics, and how they are written in Prometheus's text format: only when somebody asks."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from trilens.sdk.guard import Guard

MOST_SERIES: Final = 5_000  # a program that makes up labels must not fill its own memory

LabelPairs = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    kind: str
    help: str
    series: dict[LabelPairs, float]


class Metrics:
    """Any thread."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._common: LabelPairs = ()
        self._lock = threading.RLock()  # a handler of the program's for a signal may run inside it
        self._families: dict[str, Family] = {}
        self._before: list[Callable[[], None]] = []
        self._size = 0

    def set_common(self, labels: Mapping[str, str]) -> None:
        """They come first in every series."""
        self._common = tuple(labels.items())

    def gauge(self, name: str, help: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        self._set(name, "gauge", help, value, labels, add=False)

    def count(self, name: str, help: str, by: float = 1, labels: Mapping[str, str] | None = None) -> None:
        self._set(name, "counter", help, by, labels, add=True)

    def counter_at(self, name: str, help: str, total: float, labels: Mapping[str, str] | None = None) -> None:
        """A counter that something else counts."""
        self._set(name, "counter", help, total, labels, add=False)

    def before_scrape(self, call: Callable[[], None]) -> None:
        """For what is cheaper to work out when somebody asks."""
        self._before.append(call)

    def families(self) -> dict[str, Family]:
        """A copy, with the common labels in each series."""
        for call in tuple(self._before):
            self._guard.run("metric", call)
        with self._lock:
            copied = {
                name: Family(family.kind, family.help, dict(family.series))
                for name, family in self._families.items()
            }
        return {
            name: Family(
                family.kind, family.help, {self._common + own: value for own, value in family.series.items()}
            )
            for name, family in copied.items()
        }

    def text(self) -> str:
        lines: list[str] = []
        for name, family in self.families().items():
            lines.append(f"# HELP {name} {_escape_help(family.help)}")
            lines.append(f"# TYPE {name} {family.kind}")
            lines += [f"{name}{write_labels(own)} {write_value(v)}" for own, v in family.series.items()]
        return "\n".join(lines) + "\n" if lines else ""

    def renew_locks(self) -> None:
        """In a forked child: a lock that another thread held at the fork would never be free again."""
        self._lock = threading.RLock()

    def _set(
        self, name: str, kind: str, help: str, value: float, labels: Mapping[str, str] | None, *, add: bool
    ) -> None:
        pairs: LabelPairs = tuple(labels.items()) if labels else ()
        with self._lock:
            family = self._families.get(name)
            is_new = family is None or pairs not in family.series
            if not is_new or self._size < MOST_SERIES:
                if family is None:
                    family = self._families[name] = Family(kind, help, {})
                self._size += is_new
                family.series[pairs] = family.series.get(pairs, 0) + value if add else value
                return
        self._guard.lost("metric", why=f"more than {MOST_SERIES} series")


def write_labels(pairs: LabelPairs) -> str:
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{_escape_value(value)}"' for name, value in pairs) + "}"


def write_value(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value)


def metric_name(text: str) -> str:
    """Any text as the latter part of a valid name: `train/loss` becomes `train_loss`."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in text)


def _escape_value(text: str) -> str:
    return str(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _escape_help(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
