"""Label selectors as Kubernetes objects hold them: `matchLabels` and `matchExpressions`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.collect.discovery.kubernetes.meta_labels import META, label_name
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.collect.monitors.relabelling import Step

_IN: Final = "In"
_NOT_IN: Final = "NotIn"
_EXISTS: Final = "Exists"
_DOES_NOT_EXIST: Final = "DoesNotExist"
_OPERATORS: Final = (_IN, _NOT_IN, _EXISTS, _DOES_NOT_EXIST)


class Requirement(NamedTuple):
    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        match self.operator:
            case "In":
                return self.key in labels and labels[self.key] in self.values
            case "NotIn":
                return self.key not in labels or labels[self.key] not in self.values
            case "Exists":
                return self.key in labels
            case _:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements together; without any, everything is selected."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> LabelSelector:
        equal = document.get("matchLabels") or {}
        found = [Requirement(key, _IN, (equal[key],)) for key in sorted(equal)]
        for expression in document.get("matchExpressions") or ():
            operator = expression.get("operator")
            if operator not in _OPERATORS:
                raise ConfigError(f"{operator!r} is no operator of a label selector")
            values = tuple(expression.get("values") or ())
            found.append(Requirement(expression.get("key") or "", operator, values))
        return cls(tuple(found))

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(requirement.holds(labels) for requirement in self.requirements)

    def steps(self, what: str) -> list[Step]:
        """As relabelling of targets that have the labels of a `service` or a `pod`."""
        return [_step(requirement, what) for requirement in self.requirements]

    def query(self) -> str:
        """As an API server takes it."""
        return ",".join(_query(requirement) for requirement in self.requirements)


def _step(requirement: Requirement, what: str) -> Step:
    name = label_name(requirement.key)
    present = f"{META}{what}_labelpresent_{name}"
    action = "keep" if requirement.operator in (_IN, _EXISTS) else "drop"
    if requirement.operator in (_EXISTS, _DOES_NOT_EXIST):
        return {"action": action, "source_labels": [present], "regex": "true"}
    source = [f"{META}{what}_label_{name}", present]
    return {"action": action, "source_labels": source, "regex": f"({'|'.join(requirement.values)});true"}


def _query(requirement: Requirement) -> str:
    key, values = requirement.key, ",".join(requirement.values)
    match requirement.operator:
        case "In":
            return f"{key} in ({values})"
        case "NotIn":
            return f"{key} notin ({values})"
        case "Exists":
            return key
        case _:
            return f"!{key}"
