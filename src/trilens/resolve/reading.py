"""Reading the JSON that other people's controllers wrote: anything may be missing, or of the wrong type."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.model.kubernetes import KubeObject

_EMPTY: Mapping[str, Any] = {}
_MOST_DIGITS = 18  # always fits 64 bits; an annotation may have more than Python makes a number of


class Condition(NamedTuple):
    type: str
    holds: bool
    reason: str
    message: str
    since_ms: int | None


def section(tree: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """The mapping at a path, empty where there is none."""
    for key in path:
        found = tree.get(key)
        if not isinstance(found, dict):
            return _EMPTY
        tree = found
    return tree


def items(tree: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    """The mappings in a list."""
    found = tree.get(key)
    if isinstance(found, list):
        for item in found:
            if isinstance(item, dict):
                yield item


def text(tree: Mapping[str, Any], key: str) -> str:
    found = tree.get(key)
    return found if isinstance(found, str) else ""


def whole(value: object) -> int | None:
    """A count or an index: a whole number from 0, also written as text."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    return None


def mark(obj: KubeObject, *keys: str) -> str | None:
    """The first of these that is a label; else the first that is an annotation: operators moved some of
    them from one to the other."""
    for marks in (obj.labels, obj.annotations):
        for key in keys:
            if (value := marks.get(key)) is not None:
                return value
    return None


def numbered(obj: KubeObject, *keys: str) -> int | None:
    return whole(mark(obj, *keys))


def time_ms(value: object) -> int | None:
    """A Kubernetes time (RFC 3339) in milliseconds; None for none, or for what is not a time."""
    if not isinstance(value, str) or not value:
        return None
    try:
        at = datetime.fromisoformat(value)
    except ValueError:
        return None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)


def conditions(obj: KubeObject) -> Iterator[Condition]:
    for written in items(section(obj.body, "status"), "conditions"):
        yield Condition(
            text(written, "type"),
            text(written, "status") == "True",
            text(written, "reason"),
            text(written, "message"),
            time_ms(written.get("lastTransitionTime")),
        )


def condition(obj: KubeObject, *types: str) -> Condition | None:
    """The first of these that holds."""
    holding = {found.type: found for found in conditions(obj) if found.holds}
    return next((holding[type_] for type_ in types if type_ in holding), None)
