"""A sink that keeps everything in lists and treats old and repeated samples as a store does."""

from __future__ import annotations

import struct
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilens.model.errors import StoreReadOnly
from trilens.model.labels import make_labels
from trilens.model.series import STALE_BITS, AppendOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from trilens.model.labels import LabelFrame, Labels
    from trilens.model.series import Floats, Handles, Times

STALE = "stale"


class Recorded(NamedTuple):
    labels: dict[str, str]
    t_ms: int
    value: float | str  # STALE for the marker

    @property
    def name(self) -> str:
        return self.labels["__name__"]


class RecordingSink:
    """`wait_for` returns as soon as a condition on what was recorded holds."""

    def __init__(self, *, takes_old: bool = False) -> None:
        self._takes_old = takes_old  # a store with an out-of-order window
        self._changed = threading.Condition()  # reentrant: conditions may call `of`
        self._labels: list[Labels] = []
        self._refs: dict[Labels, int] = {}
        self._forgotten: set[int] = set()
        self._last: dict[int, tuple[int, bytes]] = {}
        self.samples: list[Recorded] = []
        self.batches = 0
        self.durable_calls = 0
        self.metadata: dict[str, tuple[str, str, str]] = {}
        self.read_only = False

    def series(self, labels: Labels) -> int:
        assert list(labels) == sorted(labels)
        assert all(value for _, value in labels)
        with self._changed:
            if labels not in self._refs:
                self._refs[labels] = len(self._labels)
                self._labels.append(labels)
            return self._refs[labels]

    def series_of(self, labels: LabelFrame) -> Handles:
        return np.array(
            [self.series(make_labels(labels.labels(row))) for row in range(len(labels))], np.int64
        )

    def held(self, handles: Handles) -> NDArray[np.bool_]:
        with self._changed:
            forgotten = np.fromiter(self._forgotten, np.int64)
        held: NDArray[np.bool_] = ~np.isin(handles, forgotten)
        return held

    def forget(self) -> None:
        """As a store does with series that get no samples for long."""
        with self._changed:
            self._forgotten.update(self._refs.values())
            self._refs.clear()

    def append(self, refs: Handles, t_ms: Times, values: Floats) -> AppendOutcome:
        assert (refs.dtype, t_ms.dtype, values.dtype) == ("int64", "int64", "float64")
        assert len(refs) == len(t_ms) == len(values)
        assert self.held(refs).all()
        if self.read_only:
            raise StoreReadOnly("the disk is full")
        counts = {"accepted": 0, "repeated": 0, "duplicate": 0, "out_of_order": 0}
        with self._changed:
            for ref, t, value in zip(refs.tolist(), t_ms.tolist(), values, strict=True):
                counts[self._append_one(ref, t, struct.pack("<d", value))] += 1
            self.batches += 1
            self._changed.notify_all()
        return AppendOutcome(**counts)

    def _append_one(self, ref: int, t: int, bits: bytes) -> str:
        last = self._last.get(ref)
        if last is not None and t < last[0] and not self._takes_old:
            return "out_of_order"
        if last is not None and t == last[0]:
            return "repeated" if bits == last[1] else "duplicate"
        self._last[ref] = (t, bits)
        stale = int.from_bytes(bits, "little") == STALE_BITS
        value = STALE if stale else struct.unpack("<d", bits)[0]
        self.samples.append(Recorded(dict(self._labels[ref]), t, value))
        return "accepted"

    def durable(self) -> Future[None]:
        self.durable_calls += 1
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def describe(self, metric: str, kind: str, help_text: str, unit: str) -> None:
        self.metadata[metric] = (kind, help_text, unit)

    def of(self, name: str, **labels: str) -> list[Recorded]:
        with self._changed:
            return [
                sample
                for sample in self.samples
                if sample.name == name and labels.items() <= sample.labels.items()
            ]

    def values(self, name: str, **labels: str) -> list[float | str]:
        return [sample.value for sample in self.of(name, **labels)]

    def wait_for(self, condition: Callable[[RecordingSink], object], timeout_s: float = 20.0) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: bool(condition(self)), timeout_s):
                raise AssertionError(f"not seen in {timeout_s} s; the last samples: {self.samples[-10:]}")
