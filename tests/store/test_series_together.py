"""Series that enter the store many at a time are the same as those that enter one by one."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.model.errors import IntakeError
from trilens.model.labels import METRIC_NAME, LabelFrame, Labels, Symbols, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest
from trilens.store import residents
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

NOW = int(time.time() * 1000)


def gpu(number: int, **more: str) -> Labels:
    return make_labels({METRIC_NAME: "power", "gpu": str(number), **more})


def frame(rows: list[Labels]) -> LabelFrame:
    return LabelFrame.of(Symbols(), rows)


def append(store: Store, handles: np.ndarray) -> None:
    store.append(handles, np.full(len(handles), NOW, np.int64), np.arange(len(handles), dtype=np.float64))


def held(store: Store) -> dict[Labels, float]:
    request = SelectRequest((Matcher(METRIC_NAME, "=~", ".*"),), 0, 1 << 60)
    found = store.select(request, QueryGuard())
    labels = [make_labels(found.labels.labels(row)) for row in range(len(found.labels))]
    return dict(zip(labels, found.samples.v.tolist(), strict=True))


def test_they_are_found_read_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residents, "_AT_A_TIME", 3)  # so that a block ends inside
    options = StoreOptions(data_dir=tmp_path / "data")
    store = Store.open(options, upkeep=False)
    known = store.series(gpu(1))
    rows = [
        gpu(0),
        gpu(1),
        gpu(2, pod="a"),
        make_labels({METRIC_NAME: "heat", "gpu": "0"}),
        make_labels({"gpu": "0"}),
        gpu(3),
        gpu(4, pod="\u00fc"),
    ]
    handles = store.series_of(frame(rows))
    assert handles[1] == known
    assert handles.tolist() == [store.series(labels) for labels in rows]
    assert handles.tolist() == store.series_of(frame(rows)).tolist()
    append(store, handles)
    expected = {labels: float(value) for value, labels in enumerate(rows)}
    assert held(store) == expected
    store.close()
    again = Store.open(options, upkeep=False)
    assert held(again) == expected  # labels as they were written
    again.close()


def test_a_row_that_comes_twice_is_one_series(tmp_path: Path) -> None:
    store = Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)
    first, other, second = store.series_of(frame([gpu(0), gpu(1), gpu(0)])).tolist()
    assert first == second != other
    with pytest.raises(IntakeError, match="UTF-8"):
        store.series_of(frame([gpu(0, pod="\ud800")]))
    store.close()
