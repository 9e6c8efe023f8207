"""Money under a workload's charts: the ledger's hours, laid evenly over the time that it was there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.ledger.answers.cost import whole_hours
from trilens.model.ledger import HOUR_MS, as_amount
from trilens.model.ledger_sums import Dimension, Window
from trilens.serve.pages.timeline_answers import MoneyLayer
from trilens.serve.pages.timeline_grid import told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from trilens.ledger.source import LedgerBook
    from trilens.model.query import QueryGuard
    from trilens.model.workload import WorkloadKey
    from trilens.serve.pages.timeline_grid import Floats, Grid

_SPREAD: Final = "hour"


class Life(NamedTuple):
    """When a workload was there; `to_ms` is now where it still is."""

    from_ms: int
    to_ms: int


def money_layer(book: LedgerBook, key: WorkloadKey, life: Life, grid: Grid, guard: QueryGuard) -> MoneyLayer:
    first_ms, end_ms = whole_hours(life.from_ms, max(life.to_ms, life.from_ms + 1))
    by = [Dimension.WORKLOAD, Dimension.HOUR, Dimension.BUCKET]
    window = Window(first_ms - HOUR_MS, end_ms + HOUR_MS, {Dimension.WORKLOAD: (key.name,)})
    sums = [one for one in book.sums(by, window, guard=guard) if one.keys[0] == key]
    currencies = {one.currency for one in sums if one.currency}
    if len(currencies) != 1 or any(one.unpriced_ms for one in sums):
        return MoneyLayer(None, _SPREAD, {}, [None] * grid.slots, None, None, None)
    upto = {one.hour_ms: one.upto_ms for one in book.hours(window.from_ms, window.to_ms, guard=guard)}
    amounts: dict[str, dict[int, float]] = {}
    for one in sums:
        hour_ms, bucket = one.keys[1], str(one.keys[2])
        assert isinstance(hour_ms, int)
        of_bucket = amounts.setdefault(bucket, {})
        of_bucket[hour_ms] = of_bucket.get(hour_ms, 0.0) + float(as_amount(one.quanta))
    hours = sorted({hour_ms for each in amounts.values() for hour_ms in each})
    pieces = {hour_ms: _piece(hour_ms, upto.get(hour_ms, hour_ms + HOUR_MS), life) for hour_ms in hours}
    last, until_ms = hours[-1], pieces[hours[-1]][1]
    last_h = (until_ms - pieces[last][0]) / HOUR_MS
    spent = {bucket: _spent_by(grid.edges_ms, each, pieces) for bucket, each in amounts.items()}
    total = np.sum([*spent.values()], axis=0)
    unknown = (grid.edges_ms[:-1] >= until_ms) | (grid.edges_ms[1:] <= life.from_ms)
    return MoneyLayer(
        currencies.pop(),
        _SPREAD,
        {bucket: told(np.where(unknown, np.nan, np.diff(each))) for bucket, each in sorted(spent.items())},
        told(np.where(unknown, np.nan, total[1:]), digits=9),
        sum(each.get(last, 0.0) for each in amounts.values()) / last_h if last_h > 0 else None,
        sum(sum(each.values()) for each in amounts.values()),
        until_ms,
    )


def _piece(hour_ms: int, upto_ms: int, life: Life) -> tuple[int, int]:
    """The part of an hour over which its amount lies: what is booked of it, while the workload was there."""
    booked_ms = min(upto_ms, hour_ms + HOUR_MS)
    begin_ms, end_ms = max(hour_ms, life.from_ms), min(booked_ms, life.to_ms)
    return (begin_ms, end_ms) if begin_ms < end_ms else (hour_ms, max(booked_ms, hour_ms + 1))


def _spent_by(
    edges_ms: NDArray[np.int64], amounts: Mapping[int, float], pieces: Mapping[int, tuple[int, int]]
) -> Floats:
    """How much was spent by each of these moments."""
    moments, done = [], []
    so_far = 0.0
    for hour_ms, amount in sorted(amounts.items()):
        begin_ms, end_ms = pieces[hour_ms]
        moments += [begin_ms, end_ms]
        done += [so_far, so_far + amount]
        so_far += amount
    return np.interp(edges_ms, moments, done)
