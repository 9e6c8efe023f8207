"""How long a run held GPUs, as its processes tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.model.run import RankProcess


class GpuTime(NamedTuple):
    """`silent` processes did not tell which GPUs they use: what they held is missing from `seconds`. Until
    `is_over` it grows."""

    seconds: float
    gpus: frozenset[str]
    from_ms: int
    to_ms: int
    silent: int
    is_over: bool


def gpu_time(processes: Iterable[RankProcess], now_ms: int) -> GpuTime | None:
    """None when nobody told of a GPU: that is unknown, not zero.

    A GPU that two ranks share counts once: what two hold at the same time is one GPU's time.
    """
    held: dict[str, list[tuple[int, int]]] = {}
    silent, is_over = 0, True
    for process in processes:
        is_over = is_over and process.ended_ms is not None
        end_ms = process.ended_ms if process.ended_ms is not None else now_ms
        if not process.gpus:
            silent += 1
        for gpu in process.gpus:
            held.setdefault(gpu, []).append((process.started_ms, max(end_ms, process.started_ms)))
    if not held:
        return None
    return GpuTime(
        sum(_covered_ms(spans) for spans in held.values()) / 1000,
        frozenset(held),
        min(start for spans in held.values() for start, _ in spans),
        max(end for spans in held.values() for _, end in spans),
        silent,
        is_over,
    )


def _covered_ms(spans: list[tuple[int, int]]) -> int:
    covered, reached = 0, 0
    for start, end in sorted(spans):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered
