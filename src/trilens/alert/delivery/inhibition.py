"""Symptoms of which nobody is told while there are others, by labels, as Alertmanager has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.alert.delivery.matching import take

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.alert.delivery.matching import Matchers


class Inhibition(NamedTuple):
    source: Matchers
    target: Matchers
    equal: tuple[str, ...] = ()

    def values(self, labels: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(labels.get(name, "") for name in self.equal)


class Inhibited:
    """What is inhibited at one moment, by all symptoms that there are then."""

    def __init__(self, rules: Sequence[Inhibition], there: Sequence[Mapping[str, str]]) -> None:
        self._rules = [
            (
                rule,
                {rule.values(labels) for labels in there if take(rule.source, labels)},
                # One that is both source and target must not silence itself, nor two each other.
                {
                    rule.values(labels)
                    for labels in there
                    if take(rule.source, labels) and not take(rule.target, labels)
                },
            )
            for rule in rules
        ]

    def by(self, labels: Mapping[str, str]) -> Inhibition | None:
        """What inhibits it."""
        for rule, sources, only_sources in self._rules:
            if take(rule.target, labels):
                causes = only_sources if take(rule.source, labels) else sources
                if rule.values(labels) in causes:
                    return rule
        return None
