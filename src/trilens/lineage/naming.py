"""Which runs are meant by what people write: an id, EXPERIMENT/NAME, a name, or how an id begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.run import RunFacts


def meant(runs: Sequence[RunFacts], written: str) -> list[RunFacts]:
    """The first way of naming that fits anything counts: a run may be called as another's id begins."""
    exact = [one for one in runs if one.run == written]
    full = [one for one in runs if one.name and f"{one.experiment or ''}/{one.name}" == written]
    named = [one for one in runs if one.name == written]
    return exact or full or named or [one for one in runs if one.run.startswith(written)]
