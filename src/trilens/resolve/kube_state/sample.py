"""What one object tells, and the turns of phrase that kube-state-metrics uses for all kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.resolve.reading import items, section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.model.kubernetes import KubeObject

_STATUSES: Final = ("True", "False", "Unknown")


class StateSample(NamedTuple):
    """`labels` are those beside the ones that name the object."""

    metric: str
    value: float
    labels: Mapping[str, str] = {}


def created(metric: str, obj: KubeObject) -> Iterator[StateSample]:
    if obj.created_ms > 0:
        yield StateSample(metric, obj.created_ms // 1000)


def owners(metric: str, obj: KubeObject) -> Iterator[StateSample]:
    """An object without an owner has a series too, without these labels."""
    if not obj.owners:
        yield StateSample(metric, 1)
    for kind, name, is_controller in dict.fromkeys(
        (one.kind, one.name, one.controller) for one in obj.owners
    ):
        labels = {
            "owner_kind": kind,
            "owner_name": name,
            "owner_is_controller": "true" if is_controller else "false",
        }
        yield StateSample(metric, 1, labels)


def moment(metric: str, written: object, labels: Mapping[str, str] | None = None) -> Iterator[StateSample]:
    """A time of Kubernetes in whole seconds."""
    at_ms = time_ms(written)
    if at_ms is not None:
        yield StateSample(metric, at_ms // 1000, labels or {})


def one_of(metric: str, label: str, values: tuple[str, ...], now: str) -> Iterator[StateSample]:
    """A series for each value that there may be: 1 for the one that holds."""
    for value in values:
        yield StateSample(metric, float(value == now), {label: value})


def condition_statuses(
    metric: str, status: str, label: str, labels: Mapping[str, str] | None = None
) -> Iterator[StateSample]:
    for known in _STATUSES:
        yield StateSample(metric, float(known == status), {**(labels or {}), label: known.lower()})


def conditions_of(obj: KubeObject, *types: str) -> Iterator[Mapping[str, Any]]:
    """All, or those of these types."""
    for condition in items(section(obj.body, "status"), "conditions"):
        if not types or text(condition, "type") in types:
            yield condition


def count(metric: str, tree: Mapping[str, Any], key: str) -> Iterator[StateSample]:
    """A number that Kubernetes leaves out when it is 0."""
    if key not in tree:
        yield StateSample(metric, 0)
    yield from given(metric, tree, key)


def given(metric: str, tree: Mapping[str, Any], key: str) -> Iterator[StateSample]:
    """A number that means something else when it is left out."""
    value = tree.get(key)
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield StateSample(metric, value)
