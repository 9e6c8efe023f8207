"""Team, cost centre, experiment and queue of a workload, by the configured rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.settings.ownership import Rule, parse_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.kubernetes import KubeObject
    from trilens.settings.ownership import OwnershipSettings


class Belonging(NamedTuple):
    team: str | None
    cost_centre: str | None
    experiment: str | None
    queue: str | None


class OwnershipRules:
    def __init__(self, settings: OwnershipSettings) -> None:
        self._team = _parsed(settings.team)
        self._cost_centre = _parsed(settings.cost_centre)
        self._experiment = _parsed(settings.experiment)
        self._queue = _parsed(settings.queue)

    def of(
        self, objects: Sequence[KubeObject], namespace_name: str, namespace: KubeObject | None
    ) -> Belonging:
        """`objects` from the workload's own down to one of its pods."""

        def first(rules: Sequence[Rule], queue: str | None) -> str | None:
            for rule in rules:
                found = _look(rule, objects, namespace_name, namespace, queue)
                if found is not None and (part := rule.part(found)) is not None:
                    return part
            return None

        queue = first(self._queue, None)
        return Belonging(
            first(self._team, queue), first(self._cost_centre, queue), first(self._experiment, queue), queue
        )


def _parsed(written: Sequence[str]) -> tuple[Rule, ...]:
    return tuple(parse_rule(rule) for rule in written)


def _look(
    rule: Rule,
    objects: Sequence[KubeObject],
    namespace_name: str,
    namespace: KubeObject | None,
    queue: str | None,
) -> str | None:
    match rule.source:
        case "label":
            return next((obj.labels[rule.key] for obj in objects if obj.labels.get(rule.key)), None)
        case "annotation":
            return next((obj.annotations[rule.key] for obj in objects if obj.annotations.get(rule.key)), None)
        case "namespace-label":
            return namespace.labels.get(rule.key) if namespace is not None else None
        case "namespace-annotation":
            return namespace.annotations.get(rule.key) if namespace is not None else None
        case "namespace":
            return namespace_name
        case "queue":
            return queue
        case _:
            return rule.key
