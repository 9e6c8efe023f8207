"""A program's configuration as JSON can hold it. Whatever it is made of, something readable of it is kept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trilens.sdk.guard import Guard

_DEEPEST: Final = 12
_LONGEST: Final = 2_000  # characters of one value
MOST_VALUES: Final = 5_000
MOST_TEXT: Final = 500_000  # characters of all of them: a batch that is too long is taken by no server
_LARGEST: Final = 2**63


class _Budget:
    def __init__(self) -> None:
        self.left = MOST_VALUES
        self.text_left = MOST_TEXT
        self.cut = 0


def plain_facts(given: object, guard: Guard) -> dict[str, Any]:
    """Of a mapping, a namespace of argparse or a dataclass."""
    if given is None:
        return {}
    budget = _Budget()
    found = guard.run("config", _plain, given, budget, 0)
    if budget.cut:
        guard.lost("config", budget.cut, why=f"more than {MOST_VALUES} values, or {MOST_TEXT} characters")
    if found is not None and not isinstance(found, dict):
        guard.lost("config", why=f"{type(given).__qualname__} has no names with values")
    return found if isinstance(found, dict) else {}


def _plain(value: object, budget: _Budget, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < _LARGEST else f"a number of {value.bit_length()} bits"
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return _cut(value, budget)
    fields = _fields(value)
    if depth < _DEEPEST and fields is not None:
        return {
            _cut(str(name), budget): _plain(one, budget, depth + 1)
            for name, one in fields.items()
            if _within(budget)
        }
    if depth < _DEEPEST and isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(one, budget, depth + 1) for one in value if _within(budget)]
    return _cut(str(value), budget)


def _fields(value: object) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    is_record = hasattr(value, "__dataclass_fields__") or type(value).__name__ == "Namespace"
    return vars(value) if is_record and hasattr(value, "__dict__") else None


def _cut(text: str, budget: _Budget) -> str:
    text = text[:_LONGEST]
    budget.text_left -= len(text)
    return text


def _within(budget: _Budget) -> bool:
    if budget.left > 0 and budget.text_left > 0:
        budget.left -= 1
        return True
    budget.cut += 1
    return False
