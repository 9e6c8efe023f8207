"""Series that are told as a whole, again and again: one that is no longer among them ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trilens.model.series import STALE_NAN

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.collect.sink import SampleSink
    from trilens.model.labels import Labels


class CurrentSeries:
    """Not thread-safe."""

    def __init__(self, sink: SampleSink, alive: Iterable[Labels] = ()) -> None:
        """`alive` are those that were told before a restart, and end unless they are told again."""
        self._sink = sink
        self._alive = set(alive)
        self._handles: dict[Labels, int] = {}

    def write(self, samples: Mapping[Labels, float], t_ms: int) -> None:
        """Raises StoreError with nothing taken; the next call then ends what this one would have ended."""
        self._forget_what_is_not_held()
        ended = self._alive - samples.keys()
        refs = [self._handle(labels) for labels in (*samples, *ended)]
        values = [*samples.values(), *([STALE_NAN] * len(ended))]
        if refs:
            self._sink.append(np.array(refs, np.int64), np.full(len(refs), t_ms, np.int64), np.array(values))
        self._alive = set(samples)
        self._handles = {labels: self._handles[labels] for labels in samples}

    def _handle(self, labels: Labels) -> int:
        known = self._handles.get(labels)
        if known is None:
            known = self._handles[labels] = self._sink.series(labels)
        return known

    def _forget_what_is_not_held(self) -> None:
        if self._handles:
            held = self._sink.held(np.fromiter(self._handles.values(), np.int64, len(self._handles)))
            kept = zip(self._handles.items(), held.tolist(), strict=True)
            self._handles = dict(pair for pair, is_held in kept if is_held)
