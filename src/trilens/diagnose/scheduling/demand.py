"""What a pod asks of its node."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.selectors import Requirement, wanted_nodes
from trilens.resolve.accelerators import is_accelerator
from trilens.resolve.kube_state.quantity import quantity
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from trilens.model.kubernetes import KubeObject

Amounts = dict[str, Decimal]

PLACES: Final = "pods"  # a node takes so many; each pod asks for one
_IN_BYTES: Final = ("memory", "ephemeral-storage", "hugepages-")
_GIB: Final = Decimal(2**30)


class Taint(NamedTuple):
    key: str
    value: str
    effect: str  # "" where only a scheduler told of it

    def __str__(self) -> str:
        named = f"{self.key}={self.value}" if self.value else self.key
        return f"{named}:{self.effect}" if self.effect else named

    @property
    def toleration(self) -> str:
        """As it is written in a pod template, on one line."""
        how = f'operator: Equal, value: "{self.value}"' if self.value else "operator: Exists"
        effect = f", effect: {self.effect}" if self.effect else ""  # without one, it is for all effects
        return f'{{key: "{self.key}", {how}{effect}}}'

    @classmethod
    def read(cls, said: str) -> Taint:
        """As schedulers write it, `key: value`, without the effect."""
        key, _, value = said.partition(":")
        return cls(key.strip(), value.strip(), "")


class Demand(NamedTuple):
    resources: Amounts
    tolerations: tuple[Mapping[str, Any], ...]
    nodes: tuple[tuple[Requirement, ...], ...]

    @property
    def gpus(self) -> Amounts:
        """By the name of the resource."""
        return {name: amount for name, amount in self.resources.items() if is_accelerator(name) and amount}

    def tolerates(self, taint: Taint) -> bool:
        return any(_tolerates(one, taint) for one in self.tolerations)


def demand_of(pod: KubeObject) -> Demand:
    spec = section(pod.body, "spec")
    return Demand(requested(pod), tuple(items(spec, "tolerations")), wanted_nodes(spec))


def requested(pod: KubeObject) -> Amounts:
    """Its containers together, or its largest init container; those that stay on count with the others. And
    a place."""
    spec = section(pod.body, "spec")
    found: Amounts = {}
    for container in items(spec, "containers"):
        _add(found, _asked(container))
    largest: Amounts = {}
    for container in items(spec, "initContainers"):
        if text(container, "restartPolicy") == "Always":
            _add(found, _asked(container))
        else:
            for name, amount in _asked(container).items():
                largest[name] = max(largest.get(name, Decimal(0)), amount)
    together = {
        name: max(found.get(name, Decimal(0)), largest.get(name, Decimal(0))) for name in (*found, *largest)
    }
    return {**together, PLACES: Decimal(1)}


def written(resource: str, amount: Decimal) -> str:
    """As a pod template has it: 64, 512Gi."""
    return f"{amount / _GIB:.4g}Gi" if resource.startswith(_IN_BYTES) else f"{amount.normalize():f}"


def amounts_of(told: Mapping[str, Any]) -> Amounts:
    read = {name: quantity(str(value)) for name, value in told.items()}
    return {name: amount for name, amount in read.items() if amount is not None}


def taints_of(node: KubeObject) -> tuple[Taint, ...]:
    """Those that keep new pods away."""
    return tuple(
        Taint(text(one, "key"), text(one, "value"), text(one, "effect"))
        for one in items(section(node.body, "spec"), "taints")
        if text(one, "effect") in ("NoSchedule", "NoExecute")
    )


def _asked(container: Mapping[str, Any]) -> Amounts:
    """Where only a limit is written, that is asked for."""
    limits = amounts_of(section(container, "resources", "limits"))
    return {**limits, **amounts_of(section(container, "resources", "requests"))}


def _add(to: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, Decimal(0)) + amount


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    key, effect = text(toleration, "key"), text(toleration, "effect")
    if effect and effect != taint.effect:
        return False
    if text(toleration, "operator") == "Exists":
        return not key or key == taint.key
    return key == taint.key and text(toleration, "value") == taint.value
