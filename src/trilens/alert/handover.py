"""Rules that were read anew: one of the same name and labels goes on where the one before it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from trilens.alert.active import ActiveAlerts
from trilens.alert.rule import AlertingRule

if TYPE_CHECKING:
    from trilens.alert.evaluation import GroupState, RuleState
    from trilens.alert.rule import Rule
    from trilens.alert.templates.expand import External

_Key: TypeAlias = tuple[type, str, tuple[tuple[str, str], ...]]


def hand_over(old: list[GroupState], new: list[GroupState], external: External) -> list[RuleState]:
    """What a rule recorded and which alerts it had; rules that nobody follows are returned."""
    left: dict[_Key, list[RuleState]] = {}
    for group in old:
        for rule in group.rules:
            if rule.recorded is not None:
                left.setdefault(_key(rule.rule), []).append(rule)
    for group in new:
        for rule in group.rules:
            known = left.get(_key(rule.rule))
            if rule.recorded is None and known:
                before = known.pop(0)
                rule.recorded = before.recorded
                if isinstance(rule.rule, AlertingRule) and before.active is not None:
                    rule.active = ActiveAlerts(rule.rule, group.group, external)
                    rule.active.adopt(before.active)
    return [rule for known in left.values() for rule in known]


def _key(rule: Rule) -> _Key:
    return type(rule), rule.name, rule.labels
