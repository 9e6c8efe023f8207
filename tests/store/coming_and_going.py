"""A store whose time passes quickly, and what it should hold: for tests of series that leave memory."""

from __future__ import annotations

import re
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.labels import METRIC_NAME, Labels, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest
from trilens.store.options import StoreOptions
from trilens.store.residents import LINGER_S
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

HOUR = 3_600_000
DAY = 24 * HOUR
BEGIN = 1_756_688_400_000  # long ago, and the same in every process that a test starts

Held = dict[Labels, list[tuple[int, float]]]


def open_store(location: str | Path, **changes: object) -> Store:
    where = {"url": location} if isinstance(location, str) else {"data_dir": location}
    options = StoreOptions(**where, retention=timedelta(days=5000), recent_bytes=1 << 20, **changes)
    return Store.open(options, upkeep=False)


def power(gpu: str, pod: str = "p") -> Labels:
    return make_labels({METRIC_NAME: "power", "gpu": gpu, "pod": pod})


def append(store: Store, t_ms: int, values: dict[Labels, float]) -> None:
    handles = np.array([store.series(labels) for labels in values], dtype=np.int64)
    outcome = store.append(handles, np.full(len(handles), t_ms), np.array(list(values.values())))
    assert outcome.accepted == len(values)


def evict(store: Store) -> int:
    """As if nobody had asked for anything in the last minutes."""
    store.durable().result()
    residents = store._residents
    residents._clock = lambda: time.monotonic() + 2 * LINGER_S
    try:
        return store.evict_series()
    finally:
        residents._clock = time.monotonic


def read(store: Store, start_ms: int, end_ms: int, *matchers: Matcher) -> Held:
    """The samples of (start, end], by labels; series without any left out."""
    wanted = matchers or (Matcher(METRIC_NAME, "=", "power"),)
    found = store.select(SelectRequest(wanted, start_ms, end_ms), QueryGuard())
    block = found.samples
    held: Held = {}
    for i in range(len(found.labels)):
        mine = slice(int(block.offsets[i]), int(block.offsets[i + 1]))
        labels = make_labels(found.labels.labels(i))
        assert labels not in held, "a series is there once"
        held[labels] = list(zip(block.t[mine].tolist(), block.v[mine].tolist(), strict=True))
    return {labels: samples for labels, samples in held.items() if samples}


def expected(model: Held, start_ms: int, end_ms: int, matchers: Iterable[Matcher]) -> Held:
    found = {
        labels: [(t, v) for t, v in sorted(samples) if start_ms < t <= end_ms]
        for labels, samples in model.items()
        if all(matches(labels, m) for m in matchers)
    }
    return {labels: samples for labels, samples in found.items() if samples}


def matches(labels: Labels, matcher: Matcher) -> bool:
    value = dict(labels).get(matcher.name, "")
    if matcher.op in ("=", "!="):
        hit = value == matcher.value
    else:
        hit = re.fullmatch(matcher.value, value, re.DOTALL) is not None
    return hit == (matcher.op in ("=", "=~"))
