"""The store answers what is asked of the ledger as going through all rows does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ledger_nights import NIGHT_MS, a_night
from memory_book import MemoryBook
from trilens.ledger.answers.cost import by_keys
from trilens.ledger.answers.sharing import sums
from trilens.ledger.answers.why import why
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Dimension, Sharing, Window
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.ledger.source import LedgerBook

WINDOW = Window(NIGHT_MS - HOUR_MS, NIGHT_MS + 4 * HOUR_MS)
HOURS = a_night()[5:10]
ASKED = (
    (Dimension.TEAM, Dimension.BUCKET),
    (Dimension.WORKLOAD, Dimension.RUN),
    (Dimension.DAY, Dimension.NODE),
    (Dimension.HOUR, Dimension.CAUSE),
    (Dimension.GPU_MODEL, Dimension.BASIS),
)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LedgerBook]:
    store = Store.open(StoreOptions(data_dir=tmp_path_factory.mktemp("ledger")), upkeep=False)
    for hour in HOURS:
        store.ledger.write(hour)
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
