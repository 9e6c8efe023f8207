"""What of everything is wanted."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from trilens.model.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping


def chosen(only: Mapping[str, str], *known: str) -> dict[str, str]:
    """A server does not mind a filter that it does not know, and would answer with everything."""
    for name in only:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise RequestError(f"unknown filter {name!r}", hint=hint)
    return dict(only)


def conditions(where: Mapping[str, str] | None) -> list[str]:
    """As /api/cost takes them: an empty value is what has none."""
    return [f"{name}={value}" for name, value in (where or {}).items()]
