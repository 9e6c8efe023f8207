"""Finished steps and what belongs to them, as the sections of the protocol. In the background thread."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.sdk.guard import Guard
    from trilens.sdk.step_note import Batch, StepNote


def steps_section(notes: Sequence[StepNote], wall_offset_ns: int) -> dict[str, Any]:
    """Columns of equal length; null where a step has none. `wall_offset_ns` makes wall time of monotonic."""
    n, step, start, end, phases, values, device, samples, tokens, epoch, _, _ = zip(*notes, strict=True)
    section: dict[str, Any] = {
        "n": n,
        "step": step,
        "start_us": [(ns + wall_offset_ns) // 1000 for ns in start],
        "us": [(to - since) // 1000 for since, to in zip(start, end, strict=True)],
    }
    section |= {
        name: column
        for name, column in (("samples", samples), ("tokens", tokens), ("epoch", epoch))
        if any(value is not None for value in column)
    }
    if any(phases):
        section["phases"] = {
            name: [None if (ns := of.get(name)) is None else ns // 1000 for of in phases]
            for name in _names(phases)
        }
    if any(device):
        section["device"] = {name: [of.get(name) for of in device] for name in _names(device)}
    if any(values):
        section["values"] = {name: _finite([of.get(name) for of in values]) for name in _names(values)}
    return section


def batches_section(told: Iterable[tuple[int, int, Sequence[Batch]]], guard: Guard) -> list[dict[str, Any]]:
    """Of (n, step, batches): ids become ranges and digests here, out of the program's time."""
    section: list[dict[str, Any]] = []
    for n, step, batches in told:
        for i, batch in enumerate(batches):
            fields = guard.run("batch", batch.told)
            if fields is not None:
                section.append({"n": n, "step": step, "i": i, **fields})
    return section


def artifact_fields(fields: Mapping[str, object]) -> dict[str, Any]:
    import base64  # for what is rare

    content = fields["content"]
    assert isinstance(content, bytes)
    rest = {name: value for name, value in fields.items() if name != "content"}
    return {**rest, "base64": base64.b64encode(content).decode("ascii")}


def finite_values(values: Mapping[str, float]) -> dict[str, float | str]:
    return {name: value if math.isfinite(value) else _as_text(value) for name, value in values.items()}


def _names(of_steps: Sequence[Mapping[str, object]]) -> list[str]:
    """In the order in which they first appear."""
    names: dict[str, None] = {}
    for one in of_steps:
        names |= dict.fromkeys(one)
    return list(names)


def _finite(column: list[Any]) -> list[Any]:
    """JSON has no number for NaN and the infinities."""
    return [_as_text(v) if v is not None and not math.isfinite(v) else v for v in column]


def _as_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
