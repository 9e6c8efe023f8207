"""What a program logs as numbers, without making a device wait."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from trilens.sdk.guard import describe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.sdk.guard import Guard
    from trilens.sdk.step_note import Later

LONGEST_NAME: Final = 200  # of a value or a phase; the server takes no longer ones


def as_numbers(values: Mapping[str, object], guard: Guard) -> tuple[dict[str, float], list[Later]]:
    """Numbers as they are; tensors copied without a sync, to be read later; the rest is counted as lost."""
    numbers: dict[str, float] = {}
    tensors: dict[str, object] = {}
    for name, value in values.items():
        if isinstance(value, (bool, int, float)):
            number = _float(value)
            if number is None:
                guard.lost("value", why=f"{name} is too large a number")
            else:
                numbers[name] = number
        elif _is_tensor(value):
            tensors[name] = value
        elif isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
            guard.lost("value", why=f"{name}={value!r:.80} is not a number")
        else:
            try:
                numbers[name] = float(value)
            except Exception as error:  # noqa: BLE001 - whatever a program may hand over
                guard.lost("value", why=f"{name}: {describe(error)}")
    laters: list[Later] = []
    if tensors:
        taken = guard.run("value", _take_tensors, tensors, guard)
        if taken is not None:
            numbers.update(taken[0])
            laters.extend(taken[1])
    return numbers, laters


def why_no_name(name: str) -> str | None:
    """Why a value of this name cannot be kept."""
    if 0 < len(name) <= LONGEST_NAME:
        return None
    return f"the name {name!r:.80} has {len(name)} characters, not 1 to {LONGEST_NAME}"


def _float(value: float) -> float | None:
    try:
        return float(value)
    except OverflowError:
        return None


def _take_tensors(tensors: Mapping[str, object], guard: Guard) -> tuple[Mapping[str, float], Sequence[Later]]:
    from trilens.sdk.pytorch.logged import take_tensors

    return take_tensors(tensors, guard)


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return tensor is not None and isinstance(value, tensor)
