"""An alert: one element of what an alerting rule found, over its life."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilens.model.labels import Labels


class AlertState(StrEnum):
    PENDING = "pending"  # true, but not for long enough yet
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Alert:
    """As one evaluation left it. `labels` name it: two of one rule never have the same."""

    labels: Labels  # alertname among them
    annotations: Labels
    state: AlertState
    value: float
    active_ms: int  # since when its expression has been true
    fired_ms: int | None = None
    resolved_ms: int | None = None
    keep_firing_since_ms: int | None = None
    evaluated_ms: int = 0
    valid_until_ms: int = 0  # of one that is to be told: it is over then, unless it is told again before
    rule_file: str = ""
    rule_group: str = ""
    generator_url: str = ""  # where its expression can be looked at; "" where no address is known
