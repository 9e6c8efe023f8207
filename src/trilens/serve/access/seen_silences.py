"""Silences as a sight shows them: who is bound silences his own, and sees what can take nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.alert.delivery.matching import read_matchers
from trilens.promql.annotations import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.alert.delivery.silences import Silence
    from trilens.model.matcher import Matcher
    from trilens.serve.access.sight import Sight


def bound_matchers(written: Sequence[str], sight: Sight) -> tuple[str, ...]:
    """With those of the sight, each once."""
    own = (f"{one.name}{one.op}{quote(one.value)}" for one in sight.matchers)
    return tuple(dict.fromkeys((*written, *own)))


def shows_silence(silence: Silence, sight: Sight) -> bool:
    matchers = read_matchers(silence.matchers)
    bounds = (("cluster", sight.clusters), ("team", sight.teams))
    return all(values is None or _is_within(matchers, name, values, sight) for name, values in bounds)


def _is_within(matchers: Sequence[Matcher], name: str, values: frozenset[str], sight: Sight) -> bool:
    named = [one for one in matchers if one.name == name]
    return any(one in sight.matchers or (one.op == "=" and one.value in values) for one in named)
