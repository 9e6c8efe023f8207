"""What /api/ledger answers, as types: the OpenAPI schema is made from them.

Money is a decimal text, exact to 1e-9, beside its currency. Times are milliseconds, GPU time
GPU-milliseconds.
"""

from __future__ import annotations

import msgspec


class LedgerAnswer(msgspec.Struct, frozen=True):
    """`upto_ms` is until when the open hour is booked, null before the first time. `waiting` are hours to be
    computed, `computed` those that were since the start, both by reason. `left` hours stay as they are,
    because what they were computed from has expired."""

    upto_ms: int | None
    waiting: dict[str, int]
    computed: dict[str, int]
    revisions: int
    failures: int
    left: int
    took_s: float | None
    troubles: list[str]


class HourWarning(msgspec.Struct, frozen=True):
    code: str
    text: str
    remedy: str | None
    gpu_ms: int


class HourAnswer(msgspec.Struct, frozen=True):
    """One revision of an hour, which is open while `upto_ms` lies before its end. `changed` is how much of
    the money moved against the revision before, counted once. `amount` is null with no price, or with
    several currencies."""

    hour_ms: int
    revision: int
    upto_ms: int
    open: bool
    computed_ms: int
    reason: str
    rows: int
    gpu_ms: int
    unpriced_gpu_ms: int
    amount: str | None
    changed: str | None
    currency: str
    prices: str
    digest: str
    warnings: list[HourWarning]


class MismatchAnswer(msgspec.Struct, frozen=True):
    hour_ms: int
    cluster: str
    node: str
    code: str
    text: str


class VerifyAnswer(msgspec.Struct, frozen=True):
    """What was looked at, and what does not hold; `billed` and `booked` are the sums of both sides by
    currency."""

    hours: int
    node_hours: int
    rows: int
    gpu_ms: int
    billed: dict[str, str]
    booked: dict[str, str]
    mismatches: list[MismatchAnswer]


class RecomputeAnswer(msgspec.Struct, frozen=True):
    """So many hours wait now; /api/ledger tells how many still do."""

    hours: int
