"""What is answered about many steps of a run, in columns: the OpenAPI schema is made from these types."""

from __future__ import annotations

import msgspec

from trilens.serve.run_answers import Value  # noqa: TC001  msgspec reads the annotations


class StepsPage(msgspec.Struct, frozen=True):
    """Records of steps by step, rank and attempt: each column has one item a record, null where the program
    told nothing. `next` is null at the end."""

    run: str
    step: list[int]
    rank: list[int]
    attempt: list[int]
    n: list[int]
    start_us: list[int]
    duration_us: list[int]
    samples: list[int | None]
    tokens: list[int | None]
    epoch: list[int | None]
    phases_us: dict[str, list[int | None]]
    device_phases_us: dict[str, list[int | None]]
    values: dict[str, list[Value | None]]
    next: str | None


class CurveAnswer(msgspec.Struct, frozen=True):
    """A value over steps, by step and attempt: the mean of the ranks that told it, and the worst of them."""

    run: str
    value: str
    step: list[int]
    attempt: list[int]
    t_ms: list[int]
    mean: list[Value]
    worst: list[Value]
    worst_rank: list[int]
