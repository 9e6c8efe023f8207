"""One GPU's life as a team sees it: while its own workloads held it, and nothing of the time between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from trilens.serve.event_view import answers, seen_events
from trilens.serve.pages.gpu_life_answers import LifeCurves, LifeEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.event import EventRecord
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight
    from trilens.serve.pages.gpu_life_answers import GpuLife, HeldSpan


def own_events(
    told: Sequence[EventRecord], workloads: Workloads, sight: Sight, guard: QueryGuard
) -> list[LifeEvent]:
    """Newest first: those that hit its own, and in plain words those of which nobody knows whom they hit."""
    found = answers(told, workloads, guard)
    hit = seen_events(found, workloads, sight, guard)
    nobodys = [replace(one, text=one.title or one.kind) for one in found if not one.victims]
    seen = sorted((*hit, *nobodys), key=lambda one: -one.t_ms)
    return [LifeEvent(one.t_ms, one.kind, one.code, one.title, one.asks, one.text) for one in seen]


def own_time(life: GpuLife) -> GpuLife:
    """`held` are its own spans already."""
    curves = life.curves
    is_own = [_is_held(life.held, t_ms) for t_ms in curves.times_ms]

    def kept(values: list[float | None]) -> list[float | None]:
        return [value if own else None for value, own in zip(values, is_own, strict=True)]

    return replace(
        life,
        first_seen_ms=None,
        reporting=[],
        events=[one for one in life.events if _is_held(life.held, one.t_ms)],
        curves=LifeCurves(
            curves.times_ms,
            kept(curves.utilization),
            kept(curves.temperature_celsius),
            kept(curves.power_watts),
            kept(curves.memory_used),
        ),
    )


def _is_held(held: Sequence[HeldSpan], t_ms: int) -> bool:
    return any(one.from_ms <= t_ms and (one.to_ms is None or t_ms <= one.to_ms) for one in held)
