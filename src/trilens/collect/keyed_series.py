"""Series that are told in groups, again and again: what each object has to say, until that changes.

All of them are written each time, and only the groups that changed are worked on: a cluster has hundreds of
thousands of such series, and few objects of it change in half a minute.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from trilens.model.series import STALE_NAN

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from trilens.collect.sink import SampleSink
    from trilens.model.labels import Labels
    from trilens.model.series import Floats, Handles

K = TypeVar("K", bound="Hashable")


class _Group(NamedTuple):
    handles: Handles
    values: Floats


class KeyedSeries(Generic[K]):
    """Not thread-safe. Labels are not kept: the store has them, and they are most of what series weigh."""

    def __init__(self, sink: SampleSink) -> None:
        self._sink = sink
        self._groups: dict[K, _Group] = {}
        self._left: list[Handles] = []  # what may have to be ended

    def __len__(self) -> int:
        return sum(len(group.handles) for group in self._groups.values())

    def put(self, key: K, samples: Mapping[Labels, float]) -> None:
        """From now on these, in place of what this key told before."""
        self.drop(key)
        handles = np.fromiter((self._sink.series(labels) for labels in samples), np.int64, len(samples))
        self._groups[key] = _Group(handles, np.fromiter(samples.values(), np.float64, len(samples)))

    def drop(self, key: K) -> None:
        before = self._groups.pop(key, None)
        if before is not None:
            self._left.append(before.handles)

    def drop_all(self) -> None:
        for key in [*self._groups]:
            self.drop(key)

    def are_held(self) -> bool:
        """False when the store has forgotten some, after a time without writes: all are to be put again."""
        return bool(self._sink.held(_joined([group.handles for group in self._groups.values()])).all())

    def write(self, t_ms: int) -> None:
        """Raises StoreError with nothing taken; the next call then ends what this one would have ended."""
        handles = _joined([group.handles for group in self._groups.values()])
        left = np.setdiff1d(_joined(self._left), handles)
        left = left[self._sink.held(left)]
        values = [group.values for group in self._groups.values()]
        if len(handles) or len(left):
            every = np.concatenate((handles, left))
            told = np.concatenate((*values, np.full(len(left), STALE_NAN)))
            self._sink.append(every, np.full(len(every), t_ms, np.int64), told)
        self._left.clear()


def _joined(parts: list[Handles]) -> Handles:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)
