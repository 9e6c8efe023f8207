"""Rules as they are once their file was read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from trilens.model.labels import Labels


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A label with an empty value is taken away from what is recorded."""

    record: str
    expr: str
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.record

    @property
    def fixed_labels(self) -> tuple[tuple[str, str], ...]:
        """Those that all its series have."""
        return self.labels


@dataclass(frozen=True, slots=True)
class AlertingRule:
    alert: str
    expr: str
    for_ms: int = 0
    keep_firing_for_ms: int = 0
    labels: tuple[tuple[str, str], ...] = ()
    annotations: Labels = ()

    @property
    def name(self) -> str:
        return self.alert

    @property
    def fixed_labels(self) -> tuple[tuple[str, str], ...]:
        """Those that all its alerts have; a template's value is not known before."""
        return tuple((name, text) for name, text in self.labels if "{{" not in text)


Rule: TypeAlias = RecordingRule | AlertingRule


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated one after the other, at one moment."""

    file: str
    name: str
    interval_ms: int
    query_offset_ms: int
    limit: int  # series that one rule may give; 0 is no limit
    rules: tuple[Rule, ...]
