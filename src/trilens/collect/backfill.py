"""Samples of the past, sent as text: parsed, checked, and handed to whoever keeps the samples."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from trilens.collect.exposition import parse_backfill
from trilens.model.series import MAX_AHEAD_MS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from numpy.typing import NDArray

    from trilens.collect.exposition import FamilyMetadata
    from trilens.model.labels import Labels
    from trilens.model.series import Floats, Times


class Description(Protocol):
    @property
    def help(self) -> str: ...


class BackfillSink(Protocol):
    """Thread-safe."""

    def backfill(
        self, series: Sequence[Labels], owner: NDArray[np.integer], t_ms: Times, values: Floats
    ) -> int:
        """Write samples of any age, in any order; `owner[i]` is the place in `series` of sample i's labels.

        Durable on return. Writing a sample again changes nothing.
        """

    def describe(self, metric: str, kind: str, help_text: str, unit: str) -> None: ...

    def metadata(self, metric: str | None) -> Mapping[str, Sequence[Description]]: ...


class Taken(NamedTuple):
    """What became of one piece. The times are of what was written; None where that is nothing."""

    samples: int
    expired: int  # left out: older than anything that is kept
    oldest_ms: int | None
    newest_ms: int | None


class BackfillReceiver:
    """`keep` is how long samples are kept; None where that is not known."""

    def __init__(self, sink: BackfillSink, keep: timedelta | None = None) -> None:
        self._sink = sink
        self._keep_ms = None if keep is None else int(keep.total_seconds() * 1000)

    def take(self, text: bytes, *, openmetrics: bool, first_line: int = 1) -> Taken:
        """One piece of whole lines. All of it is written, or nothing and an ExpositionError names a line."""
        now_ms = int(time.time() * 1000)
        piece = parse_backfill(
            text, openmetrics=openmetrics, first_line=first_line, newest_ms=now_ms + MAX_AHEAD_MS
        )
        owner, times, values = piece.owner, piece.t_ms, piece.values
        expired = 0
        if self._keep_ms is not None:
            kept = times > now_ms - self._keep_ms
            owner, times, values = owner[kept], times[kept], values[kept]
            expired = len(kept) - len(times)
        if not len(times):
            return Taken(0, expired, None, None)
        present, place = np.unique(owner, return_inverse=True)
        written = self._sink.backfill([piece.series[i] for i in present.tolist()], place, times, values)
        for family in piece.families:
            self._describe(family)
        return Taken(written, expired, int(times.min()), int(times.max()))

    def _describe(self, family: FamilyMetadata) -> None:
        """Only what nobody has said yet: a scrape knows better than an old file."""
        known = self._sink.metadata(family.metric).get(family.metric)
        if not known or (family.help_text and not known[0].help):
            self._sink.describe(*family)
