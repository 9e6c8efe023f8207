"""What somebody wants done."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilens.model.fix import Deed, FixTarget


@dataclass(frozen=True, slots=True)
class Told:
    deed: Deed
    target: FixTarget
    by: str
    why: str = ""
    source: str = ""
    value: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = 0.0  # how long a PodDisruptionBudget is waited for
    undo_of: str = ""
