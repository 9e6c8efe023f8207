"""What one deed changes in an object, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Json = dict[str, Any]

MARKS: Final = "trilens/"  # what Trilens notes on objects begins so
FIX: Final = f"{MARKS}fix"  # an annotation: the id of the last fix, on whatever it changed


@dataclass(frozen=True, slots=True)
class Change:
    """Without a patch, a pod goes."""

    patch: Json | None
    before: Json
    after: Json  # what should be there, in the shape of `before`
    then: Json | None = None  # a second patch, for when the operator has answered the first
    command: Json | None = None  # an object that is made before the patch, and tells the operator what to do
    done_already: bool = False
    watched: tuple[str, ...] = ()  # the field that suspends it, which an old API server may not know


def read_at(now: Json, path: Sequence[str]) -> Any:
    for step in path[:-1]:
        now = section(now, step)
    return now.get(path[-1])


def at(path: Sequence[str], value: Any) -> Json:
    for step in reversed(path):
        value = {step: value}
    return dict(value)


def section(now: Mapping[str, Any], name: str) -> Json:
    found = now.get(name)
    return found if isinstance(found, dict) else {}
