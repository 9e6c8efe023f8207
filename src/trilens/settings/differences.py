"""Which settings differ between two readings of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from trilens.settings.tree import Settings


def differing(one: Settings, other: Settings, *, besides: Collection[str] = ()) -> list[str]:
    """By their paths, without the groups in `besides`: `query.timeout`, `kubernetes.clusters.lab.context`."""
    trees = [settings.model_dump(by_alias=True, exclude=set(besides)) for settings in (one, other)]
    return list(_differing("", *trees))


def _differing(path: str, one: Any, other: Any) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from _differing(f"{path}.{key}" if path else key, one.get(key), other.get(key))
    elif one != other:
        yield path
