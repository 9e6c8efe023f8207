"""What a request holds once it is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from trilens.collect.remote_write.wire import SampleCollector, Samples
from trilens.model.errors import RemoteWriteError

_MOST_REFUSED: Final = 100_000  # each takes microseconds, and others wait meanwhile


@dataclass(slots=True)
class Decoded:
    samples: Samples = field(default_factory=lambda: SampleCollector().finish())
    histograms: int = 0
    exemplars: int = 0
    refused_series: int = 0
    first_refusal: str = ""
    described: list[tuple[str, str, str, str]] = field(default_factory=list)  # metric, type, help, unit

    def refuse(self, reason: str) -> None:
        """Leave a series out; the others are taken all the same. Where so many are wrong, so is the request:
        raises RemoteWriteError."""
        self.refused_series += 1
        self.first_refusal = self.first_refusal or reason
        if self.refused_series > _MOST_REFUSED:
            how_many = f"more than {_MOST_REFUSED:,} series of the request are refused"
            raise RemoteWriteError(f"{how_many}, the first: {self.first_refusal}")
