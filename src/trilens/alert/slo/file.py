"""A file of objectives, read and checked with the place of what is wrong."""

from __future__ import annotations

import difflib
import re
from datetime import timedelta
from decimal import Decimal  # noqa: TC003  # pydantic reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from trilens.alert.rule_part import RulePart, read_part, refuse
from trilens.settings.duration import Duration, format_duration
from trilens.settings.yaml_file import Place, read_yaml

if TYPE_CHECKING:
    from pathlib import Path

SELECTABLE: Final = (
    "cluster",
    "namespace",
    "workload",
    "kind",
    "team",
    "job",
    "server",
    "model",
    "version",
    "service",
    "proxy",
)
_TIMED: Final = ("latency", "ttft")
# What the series of an indicator have, of the labels above.
_WITHOUT: Final = {
    "latency": ("service", "proxy"),
    "ttft": ("service", "proxy"),
    "availability": ("server", "model", "version", "service", "proxy"),
    "errors": (),
}
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_SHORTEST_WINDOW, _LONGEST_WINDOW = timedelta(days=7), timedelta(days=90)
_LONGEST_THRESHOLD: Final = timedelta(days=1)
_OWN_LABELS: Final = frozenset({"slo", "severity", "layer", "alertname", "window"})

Indicator = Literal["latency", "ttft", "availability", "errors"]
OneOrMore = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]


class Objective(RulePart):
    """What is promised of a service: in `window`, `objective` percent of what `indicator` counts is good."""

    name: str
    description: str = ""
    service: dict[str, OneOrMore]
    indicator: Indicator
    threshold: Duration | None = None
    objective: Decimal
    window: Duration = timedelta(days=30)
    min_requests: int = Field(default=10, ge=0)
    labels: dict[str, str] = Field(default_factory=dict)

    @property
    def budget(self) -> Decimal:
        """The part that may be bad."""
        return (100 - self.objective) / 100


class _File(RulePart):
    slos: tuple[Any, ...] = ()


_PARTS: Final = (Objective, _File)


def read_slo_file(file: Path) -> tuple[Objective, ...]:
    """Raises ConfigError with file, line and column."""
    document = read_yaml(file, "the SLO file", as_written=True)
    place = Place(document)
    section = read_part(_File, document.tree if document.tree is not None else {}, place, _PARTS)
    if not section.slos:
        refuse(place, "there are no objectives: write them under `slos`")
    seen: set[str] = set()
    found = []
    for i, tree in enumerate(section.slos):
        at = place / "slos" / i
        objective = read_part(Objective, tree, at, _PARTS)
        _check(objective, at)
        if objective.name in seen:
            refuse(at / "name", f"there is another objective {objective.name!r}")
        seen.add(objective.name)
        found.append(objective)
    return tuple(found)


def _check(objective: Objective, at: Place) -> None:
    if not _NAME.fullmatch(objective.name):
        refuse(
            at / "name", "may have letters, digits, `-`, `_` and `.`, and begins with one of the first two"
        )
    _check_service(objective, at / "service")
    if not objective.objective.is_finite() or not 50 <= objective.objective < 100:
        refuse(at / "objective", "is a percentage from 50 to below 100, such as 99.9")
    timed = objective.indicator in _TIMED
    if timed and objective.threshold is None:
        refuse(at, f"the indicator {objective.indicator} needs a `threshold`, such as 2s")
    if not timed and objective.threshold is not None:
        refuse(at / "threshold", f"the indicator {objective.indicator} has none")
    if objective.threshold is not None and not timedelta(0) < objective.threshold <= _LONGEST_THRESHOLD:
        refuse(at / "threshold", "must be above 0 and at most a day")
    if not _SHORTEST_WINDOW <= objective.window <= _LONGEST_WINDOW or objective.window % timedelta(hours=1):
        bounds = f"{format_duration(_SHORTEST_WINDOW)} to {format_duration(_LONGEST_WINDOW)}"
        refuse(at / "window", f"must be {bounds}, in whole hours")
    for name in objective.labels:
        if not _LABEL_NAME.fullmatch(name) or name in _OWN_LABELS or name in SELECTABLE:
            refuse(at / "labels" / name, f"{name!r} is not a label that an objective may set")


def _check_service(objective: Objective, at: Place) -> None:
    if not objective.service:
        refuse(at, "names no service: write labels of it, such as {namespace: ml, workload: chat}")
    for name, values in objective.service.items():
        if name not in SELECTABLE:
            near = difflib.get_close_matches(name, SELECTABLE, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(SELECTABLE)}"
            refuse(at / name, f"services have no label {name!r}; {hint}")
        if name in _WITHOUT[objective.indicator]:
            refuse(at / name, f"the indicator {objective.indicator} is not told by {name}")
        if not values or not all(values):
            refuse(at / name, "must not be empty")
