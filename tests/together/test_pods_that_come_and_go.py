"""A target whose pod has another name at every scrape, for a long time: memory does not grow with it."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from trilens.collect.config import load_scrape_configs
from trilens.collect.ingest import TargetIngest, join, stale_batch
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.store.options import StoreOptions
from trilens.store.residents import LINGER_S
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = 86_400_000
HOUR = 3_600_000
BEGIN = int(time.time() * 1000) - 50 * DAY
ROUNDS = 40
SERIES = 30


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)
    # Much time passes between any two steps.
    opened._residents._clock = itertools.count(0, 2 * LINGER_S).__next__
    yield opened
    opened.close()


def test_memory_holds_only_the_pods_of_the_last_days(store: Store, tmp_path: Path) -> None:
    config = load_scrape_configs(
        {"scrape_configs": [{"job_name": "dcgm", "static_configs": [{"targets": ["a:1"]}]}]}, tmp_path
    )[0]
    ingest = TargetIngest(config, make_labels({"job": "dcgm", "instance": "a:1"}), store)
    held = []
    for k in range(ROUNDS):
        t = BEGIN + k * DAY
        body = "".join(f'power{{gpu="{g}",pod="pod-{k}"}} {g}\n' for g in range(SERIES)).encode()
        found = ingest.read(body, openmetrics=False, t_ms=t)
        assert len(found.stale) == (SERIES if k else 0)
        stale = stale_batch(found.stale[store.held(found.stale)], t)
        batch = join([found.batch, stale, ingest.report(t, (1.0, 0.1, SERIES, SERIES, SERIES))])
        assert store.append(*batch).accepted == len(batch.refs)
        store.durable().result()
        store.evict_series()
        assert len(ingest._parser._refs) == SERIES
        index = store._index
        held.append((len(index), len(index.state.symbols), index.references.count))
    first, second = np.array(held[: ROUNDS // 2]), np.array(held[ROUNDS // 2 :])
    assert (second.max(axis=0) <= first.max(axis=0)).all()
    assert first.max(axis=0)[0] == 3 * SERIES + 5  # the pods of 48 hours and of today, and the reports
    every = f"count(count by (pod) (last_over_time(power[{ROUNDS + 1}d])))"
    result = Engine(store).instant(every, BEGIN + ROUNDS * DAY, QueryGuard())
    assert result.values.tolist() == [[ROUNDS]]
    assert store.label_values("pod", None, BEGIN, BEGIN + HOUR) == ["pod-0"]
    assert METRIC_NAME in store.label_names(None, BEGIN, BEGIN + HOUR)
