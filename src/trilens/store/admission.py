"""Which samples are taken: Prometheus's rules for repeats, order and age.

A series' samples come in order of time. The same time with the same value again is a harmless repeat; with
another value it is refused. An older one is refused, unless it falls into `out_of_order_ms` behind the newest
sample of all; and nothing is taken that is more than an hour behind that. Where the clock was ahead for a
while, what was taken then refuses nothing: an older sample of such a series is late, and taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilens.model.series import AppendOutcome, Floats, Times
from trilens.store.arrays import grown
from trilens.store.rows import group_starts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trilens.model.labels import Codes

NEVER = np.iinfo(np.int64).min
_LATER = np.iinfo(np.int64).max
IN_ORDER_REACH_MS = 3_600_000  # Prometheus: half of its two-hour head


class Admitted(NamedTuple):
    """Samples to keep, grouped by series with time ascending in each group."""

    refs: Codes  # one entry a series
    counts: NDArray[np.int64]
    t: Times
    v: Floats
    late: NDArray[np.bool_]  # per series: some sample here is older than one taken before
    outcome: AppendOutcome


class Admission:
    """Newest sample of every series. Not thread-safe: the store calls it under its append lock."""

    def __init__(self, out_of_order_ms: int = 0) -> None:
        self._out_of_order_ms = out_of_order_ms
        self.newest_t: Times = np.full(1024, NEVER, dtype=np.int64)
        self.oldest_t: Times = np.full(1024, _LATER, dtype=np.int64)
        self._newest_bits = np.zeros(1024, dtype=np.uint64)
        self.max_t: int = NEVER
        self._latest_ms: int = _LATER  # what is after it was taken while the clock was wrong

    def reserve(self, series: int) -> None:
        if series > len(self.newest_t):
            size = max(series, 2 * len(self.newest_t))
            self.newest_t = grown(self.newest_t, size, NEVER)
            self.oldest_t = grown(self.oldest_t, size, _LATER)
            self._newest_bits = grown(self._newest_bits, size)

    def enter(self, refs: Codes | int) -> None:
        """Other series take these references, and nothing is known of them yet."""
        self.newest_t[refs] = NEVER
        self.oldest_t[refs] = _LATER

    def restore(self, refs: Codes, oldest: Times, newest: Times, value: Floats) -> None:
        """Take what the disk knows of series that have just entered."""
        if len(refs):
            self.oldest_t[refs] = oldest
            self.newest_t[refs] = newest
            self._newest_bits[refs] = value.view(np.uint64)
            self.max_t = max(self.max_t, int(newest.max()))

    def note_on_disk(self, refs: Codes, oldest: Times, newest: Times) -> None:
        """The disk has, or is about to have, samples of these times, which were not seen here."""
        self.oldest_t[refs] = np.minimum(self.oldest_t[refs], oldest)
        later = newest > self.newest_t[refs]
        if later.any():
            self.newest_t[refs[later]] = newest[later]
            self._newest_bits[refs[later]] = np.float64(np.nan).view(np.uint64)  # not known
            self.max_t = max(self.max_t, int(newest.max()))

    def heal(self, limit_ms: int) -> None:
        """Samples from the future that are on disk must not make every honest one too old."""
        self.max_t = min(self.max_t, limit_ms)
        self._latest_ms = limit_ms

    def newest(self, refs: Codes) -> tuple[Times, Floats]:
        return self.newest_t[refs], self._newest_bits[refs].view(np.float64)

    @property
    def reach_ms(self) -> int:
        """How far behind the newest sample of all one may be and still be taken."""
        return max(IN_ORDER_REACH_MS, self._out_of_order_ms)

    @property
    def settled_ms(self) -> int:
        """Nothing at or before this time is taken any more."""
        return self.max_t - self.reach_ms - 1

    def admit(self, refs: Codes, t: Times, v: Floats) -> Admitted:
        return self._admit_scrape(refs, t, v) or self._admit_any(refs, t, v)

    def _admit_scrape(self, refs: Codes, t: Times, v: Floats) -> Admitted | None:
        """What comes all day: each series once, all newer than before. None for anything else."""
        count = len(refs)
        if count == 0 or not (refs[1:] > refs[:-1]).all():
            return None
        newest = self.newest_t[refs]
        earliest = int(t.min())
        if not (t > newest).all() or (self.max_t != NEVER and earliest < self.max_t - IN_ORDER_REACH_MS):
            return None
        self.newest_t[refs] = t
        self._newest_bits[refs] = v.view(np.uint64)
        self.max_t = max(self.max_t, int(t.max()))
        fresh = newest == NEVER
        if fresh.any():
            self.oldest_t[refs[fresh]] = t[fresh]
        return Admitted(refs, np.ones(count, np.int64), t, v, np.zeros(count, bool), AppendOutcome(count))

    def _admit_any(self, refs: Codes, t: Times, v: Floats) -> Admitted:
        if len(refs) > 1 and not bool((refs[1:] > refs[:-1]).all()):
            order = np.lexsort((np.arange(len(refs)), refs))
            refs, t, v = refs[order], t[order], v[order]
        starts = group_starts(refs)
        if len(starts) == len(refs) or self._ascending(refs, t, starts):
            return self._admit_ascending(refs, t, v)
        return self._admit_one_by_one(refs, t, v)

    def _ascending(self, refs: Codes, t: Times, starts: NDArray[np.intp]) -> bool:
        """Every series' samples in this batch already climb in time."""
        inside = np.ones(len(t), dtype=bool)
        inside[starts] = False
        return bool((np.diff(t, prepend=t[:1])[inside] > 0).all()) and bool(
            (t[starts] > self.newest_t[refs[starts]]).all()
        )

    def _admit_ascending(self, refs: Codes, t: Times, v: Floats) -> Admitted:
        """Samples that only have to be compared with what was taken before, not with each other."""
        v = np.ascontiguousarray(v, dtype=np.float64)
        newest = self.newest_t[refs]
        in_order = t > newest
        floor = NEVER if self.max_t == NEVER else self.max_t - IN_ORDER_REACH_MS
        if in_order.all() and (len(t) == 0 or int(t.min()) >= floor):
            keep = None
            outcome = AppendOutcome(len(refs))
            late_sample = np.zeros(len(refs), dtype=bool)
        else:
            same_time = t == newest
            repeated = same_time & (v.view(np.uint64) == self._newest_bits[refs])
            duplicate = same_time & ~repeated
            older = t < newest
            reach = NEVER if self.max_t == NEVER else self.max_t - self._out_of_order_ms
            late_sample = older & (newest > self._latest_ms) & (t >= floor)
            if self._out_of_order_ms:
                late_sample |= older & (t >= reach)
            too_old = (t < min(floor, reach)) & ~repeated & ~duplicate
            out_of_order = older & ~late_sample & ~too_old
            keep = ~(repeated | duplicate | out_of_order | too_old)
            outcome = AppendOutcome(
                int(keep.sum()),
                int(repeated.sum()),
                int(duplicate.sum()),
                int(out_of_order.sum()),
                int(too_old.sum()),
            )
            refs, t, v, late_sample = refs[keep], t[keep], v[keep], late_sample[keep]
        return self._note(refs, t, v, late_sample, outcome)

    def _admit_one_by_one(self, refs: Codes, t: Times, v: Floats) -> Admitted:
        """A batch that repeats itself or goes back in time: the k-th sample of every series in round k."""
        starts = group_starts(refs)
        counts = np.diff(np.append(starts, len(refs)))
        rank = np.arange(len(refs)) - np.repeat(starts, counts)
        rounds = [self._admit_ascending(refs[r], t[r], v[r]) for r in _by_rank(rank)]
        all_refs = np.concatenate([np.repeat(a.refs, a.counts) for a in rounds])
        all_t = np.concatenate([a.t for a in rounds])
        all_v = np.concatenate([a.v for a in rounds])
        late = np.concatenate([np.repeat(a.late, a.counts) for a in rounds])
        order = np.lexsort((all_t, all_refs))
        outcome = AppendOutcome(
            *(sum(a.outcome[i] for a in rounds) for i in range(len(AppendOutcome._fields)))
        )
        return _grouped(all_refs[order], all_t[order], all_v[order], late[order], outcome)

    def _note(
        self, refs: Codes, t: Times, v: Floats, late: NDArray[np.bool_], outcome: AppendOutcome
    ) -> Admitted:
        if len(refs):
            self.max_t = max(self.max_t, int(t.max()))
            fresh = ~late
            # With several samples of one series, numpy assigns in order, so the last one stays.
            self.newest_t[refs[fresh]] = t[fresh]
            self._newest_bits[refs[fresh]] = v.view(np.uint64)[fresh]
            np.minimum.at(self.oldest_t, refs, t) if late.any() else self._note_oldest(refs, t)
        return _grouped(refs, t, v, late, outcome)

    def _note_oldest(self, refs: Codes, t: Times) -> None:
        unseen = self.oldest_t[refs] > t
        if unseen.any():
            self.oldest_t[refs[unseen][::-1]] = t[unseen][::-1]


def _by_rank(rank: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    order = np.argsort(rank, kind="stable")
    return np.split(order, np.cumsum(np.bincount(rank))[:-1])


def _grouped(refs: Codes, t: Times, v: Floats, late: NDArray[np.bool_], outcome: AppendOutcome) -> Admitted:
    if len(refs) == 0:
        none = np.zeros(0, np.int64)
        return Admitted(refs, none, t, v, late, outcome)
    starts = group_starts(refs)
    counts = np.diff(np.append(starts, len(refs)))
    return Admitted(refs[starts], counts, t, v, np.logical_or.reduceat(late, starts), outcome)
