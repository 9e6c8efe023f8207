"""Label selectors and node selector terms, as Kubernetes matches them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


class Requirement(NamedTuple):
    """One condition on labels."""

    key: str
    operator: str  # In, NotIn, Exists, DoesNotExist, Gt, Lt
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        found = labels.get(self.key)
        match self.operator:
            case "In":
                return found in self.values
            case "NotIn":
                return found not in self.values
            case "Exists":
                return found is not None
            case "DoesNotExist":
                return found is None
            case "Gt" | "Lt":
                return self._compares(found)
        return False

    def _compares(self, found: str | None) -> bool:
        try:
            here, there = int(found or ""), int(self.values[0])
        except (ValueError, IndexError):
            return False
        return here > there if self.operator == "Gt" else here < there

    def __str__(self) -> str:
        if self.operator == "In":
            return f"{self.key}={'|'.join(self.values)}"
        return " ".join((self.key, self.operator, *self.values))


def requirements(selector: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """Of matchLabels and matchExpressions; all have to hold. None select all."""
    plain = (Requirement(key, "In", (str(value),)) for key, value in section(selector, "matchLabels").items())
    return (*plain, *_expressions(selector))


def _expressions(term: Mapping[str, Any]) -> Iterator[Requirement]:
    for one in items(term, "matchExpressions"):
        values = one.get("values")
        listed = tuple(map(str, values)) if isinstance(values, list) else ()
        yield Requirement(text(one, "key"), text(one, "operator"), listed)


def wanted_nodes(spec: Mapping[str, Any]) -> tuple[tuple[Requirement, ...], ...]:
    """What a pod says of its node: one of these has to hold, with all that is in it. () for any node."""
    chosen = tuple(
        Requirement(key, "In", (str(value),)) for key, value in section(spec, "nodeSelector").items()
    )
    required = section(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = [tuple(_expressions(term)) for term in items(required, "nodeSelectorTerms")]
    if not terms:
        return (chosen,) if chosen else ()
    return tuple((*chosen, *term) for term in terms)


def label_change(lacks: Sequence[Requirement]) -> str:
    """What `kubectl label` takes to make them hold; where any value will do, "true"."""
    wanted = [f"{one.key}={one.values[0]}" for one in lacks if one.operator == "In" and one.values]
    wanted += [f"{one.key}=true" for one in lacks if one.operator == "Exists"]
    unwanted = [f"{one.key}-" for one in lacks if one.operator in ("NotIn", "DoesNotExist")]
    return " ".join((*wanted, *unwanted))


def lacking(wanted: tuple[Requirement, ...], labels: Mapping[str, str]) -> list[Requirement]:
    return [one for one in wanted if not one.holds(labels)]
