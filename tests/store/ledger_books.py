"""Hours of a ledger as tests of its store make them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from trilens.model.ledger import (
    FLEET,
    HOUR_MS,
    Basis,
    Bucket,
    Holder,
    LedgerHour,
    LedgerRow,
    NodeBill,
    Warned,
)
from trilens.model.run import RunId
from trilens.model.workload import Doubt, WorkloadKey
from trilens.store.engine import Engine
from trilens.store.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

DAY_MS = 24 * HOUR_MS
MIDNIGHT_MS = 1_768_348_800_000  # 2026-01-14T00:00:00Z
TRAIN = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
TUNE = WorkloadKey("lab", "web", "batch", "Job", "tune", "u2")
TRAINING = Holder(TRAIN, 1, "ml", RunId("a"), "lr", "vision", "cc-7", "fast")
TUNING = Holder(TUNE, 0, "web", None, None, "nlp")


def hour_ms(number: int) -> int:
    """Counted from midnight."""
    return MIDNIGHT_MS + number * HOUR_MS


def row(number: int, holder: Holder = TRAINING, **others: Any) -> LedgerRow:
    told: dict[str, Any] = {
        "cluster": "lab",
        "node": "n1",
        "gpu": "GPU-1",
        "model": "H100",
        "purchase": "spot",
        "region": "eu",
        "bucket": Bucket.UNALLOCATED if holder == FLEET else Bucket.PRODUCTIVE,
        "cause": "steps",
        "since_ms": None,
        "step": None,
        "basis": Basis.STEPS,
        "gpu_ms": 1_000,
        "throttled_ms": 0,
        "quanta": 5,
        "currency": "USD",
        "doubts": (),
    }
    return LedgerRow(hour_ms=hour_ms(number), holder=holder, **{**told, **others})


def bill(number: int, **others: Any) -> NodeBill:
    told = {
        "cluster": "lab",
        "node": "n1",
        "there_ms": HOUR_MS,
        "gpu_ms": 8 * HOUR_MS,
        "quanta": 12,
        "priced_ms": HOUR_MS,
        "currency": "USD",
        "components": {"gpu": 10, "cpu": 2},
        "price": "h100",
    }
    return NodeBill(hour_ms=hour_ms(number), **{**told, **others})


def hour(
    number: int,
    *rows: LedgerRow,
    upto: float = 1.0,
    prices: str = "p",
    bills: Sequence[NodeBill] = (),
    warnings: Sequence[str] = (),
) -> LedgerHour:
    told = tuple(Warned(Doubt(code, f"it's {code}", "do it"), 7) for code in warnings)
    return LedgerHour(
        hour_ms(number), hour_ms(number) + round(upto * HOUR_MS), rows, tuple(bills), told, prices
    )


@contextmanager
def ledger_engine(where: str | Path) -> Iterator[Engine]:
    with Engine.open(where) as engine:
        migrate(engine)
        yield engine


def emptied(engine: Engine) -> Engine:
    filled = "database = currentDatabase() AND name LIKE 'ledger%' AND total_rows > 0"
    found = engine.query_arrow(f"SELECT name FROM system.tables WHERE {filled}")
    for name in found["name"].to_pylist():
        engine.command(f"TRUNCATE TABLE {name}")
    return engine
