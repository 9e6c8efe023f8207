"""Series that senders named before, by the bytes they name them with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from trilens.collect.sink import SampleSink

_SPARE: Final = 10_000


class KnownSeries:
    """Grows with the series that are sent, and lets go of those that the sink has forgotten."""

    def __init__(self, sink: SampleSink) -> None:
        self._sink = sink
        self.handles: dict[bytes, int] = {}
        self._look_at = _SPARE

    def prune(self) -> bool:
        """Called now and then; looks once the number has doubled. Whether any were dropped."""
        if len(self.handles) < self._look_at:
            return False
        handles = np.fromiter(self.handles.values(), np.int64, len(self.handles))
        held = self._sink.held(handles).tolist()
        before = len(self.handles)
        self.handles = {
            key: handle for (key, handle), keep in zip(self.handles.items(), held, strict=True) if keep
        }
        self._look_at = 2 * len(self.handles) + _SPARE
        return len(self.handles) < before

    def clear(self) -> None:
        self.handles.clear()
