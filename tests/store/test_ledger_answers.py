"""The store answers what is asked of the ledger as going through all rows does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from ledger_nights import NIGHT_MS, a_night, billed, holder, hour, row
from memory_book import MemoryBook
from trilens.ledger.answers.cost import by_keys
from trilens.ledger.answers.sharing import sums
from trilens.ledger.answers.why import why
from trilens.model.ledger import HOUR_MS, Bucket, Holder
from trilens.model.ledger_sums import Dimension, Sharing, Window
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_sums import Sum
    from trilens.store.ledger import Ledger

DAY_MS = 24 * HOUR_MS
BEGIN_MS = NIGHT_MS + 22 * DAY_MS  # the end of a month
WINDOW = Window(NIGHT_MS - HOUR_MS, NIGHT_MS + 4 * HOUR_MS)
HOURS = [billed(one) for one in a_night()[5:10]]
ASKED = (
    (Dimension.TEAM, Dimension.BUCKET),
    (Dimension.WORKLOAD, Dimension.RUN),
    (Dimension.DAY, Dimension.NODE),
    (Dimension.HOUR, Dimension.CAUSE),
    (Dimension.GPU_MODEL, Dimension.BASIS),
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    store = Store.open(StoreOptions(data_dir=tmp_path_factory.mktemp("ledger")), upkeep=False)
    for one in HOURS:
        store.ledger.write(one)
    yield store.ledger
    store.close()


@pytest.fixture(scope="module")
def counted() -> MemoryBook:
    return MemoryBook(*HOURS)


@pytest.mark.parametrize("sharing", Sharing)
def test_sums(kept: LedgerBook, counted: MemoryBook, sharing: Sharing) -> None:
    for by in ASKED:
        assert sums(kept, by, WINDOW, sharing, None) == sums(counted, by, WINDOW, sharing, None), by


@pytest.mark.parametrize(
    "where",
    [
        {Dimension.TEAM: ("vision", None)},
        {Dimension.WORKLOAD: ("ml/chat", "PyTorchJob/ablation")},
        {Dimension.BUCKET: ("stalled",), Dimension.RUN: ("run-v",)},
    ],
    ids=["team", "workload", "both"],
)
def test_sums_of_a_part(
    kept: LedgerBook, counted: MemoryBook, where: dict[Dimension, tuple[str | None, ...]]
) -> None:
    window = Window(NIGHT_MS, NIGHT_MS + 5 * HOUR_MS, where)
    by = (Dimension.WORKLOAD, Dimension.BUCKET)
    found = by_keys(counted.sums(by, window))
    assert found
    assert by_keys(kept.sums(by, window)) == found


def test_causes(kept: LedgerBook, counted: MemoryBook) -> None:
    assert why(kept, WINDOW, limit=10) == why(counted, WINDOW, limit=10)


def test_hours(kept: LedgerBook, counted: MemoryBook) -> None:
    asked = ("hour_ms", "revision", "upto_ms", "gpu_ms", "quanta", "unpriced_ms", "warnings")
    told, expected = (
        [[getattr(one, name) for name in asked] for one in book.hours(WINDOW.from_ms, WINDOW.to_ms)]
        for book in (kept, counted)
    )
    assert told == expected


def ten_days() -> list[LedgerHour]:
    """Two hours a day: every day others hold GPUs, on some days nobody, and some GPUs are always free."""
    rng = random.Random(5)
    hours = []
    for day in range(10):
        for at in (BEGIN_MS + day * DAY_MS + n * HOUR_MS for n in (3, 20)):
            held = [
                row(at, holder(f"{team}-{day % 3}", team), Bucket.PRODUCTIVE, price=rng.randrange(10**9))
                for team in ("vision", "research", None)
                if rng.random() < 0.5
            ]
            price = rng.randrange(1, 10**9)
            hours.append(hour(at, row(at, Holder(), Bucket.UNALLOCATED, gpus=2, price=price), *held))
    return [*hours, hour(BEGIN_MS + 10 * DAY_MS)]


def test_days_are_shared_out_from_their_own_table_as_from_hours(kept: Ledger) -> None:
    """Whoever held GPUs on a day pays for what was free on it."""
    window = Window(BEGIN_MS, BEGIN_MS + 10 * DAY_MS)
    asked = ((Dimension.TEAM, Dimension.BUCKET), (Dimension.WORKLOAD,), (Dimension.DAY, Dimension.TEAM))

    def shared(book: LedgerBook) -> list[list[Sum]]:
        return [sums(book, by, window, Sharing.BY_COST, None) for by in asked]

    hours = ten_days()
    kept.write_all(hours)
    found = shared(MemoryBook(*hours))
    assert shared(kept) == found
    assert kept.settle() >= 10
    of_these = f"hour_ms >= {BEGIN_MS}"
    kept._engine.command(f"DELETE FROM ledger_rows WHERE {of_these}")  # now only the days can tell
    assert shared(kept) == found
