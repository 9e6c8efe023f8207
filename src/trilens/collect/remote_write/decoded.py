"""What a request holds once it is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field

from trilens.collect.remote_write.wire import SampleCollector, Samples


@dataclass(slots=True)
class Decoded:
    samples: Samples = field(default_factory=lambda: SampleCollector().finish())
    histograms: int = 0
    exemplars: int = 0
    refused_series: int = 0
    first_refusal: str = ""
    described: list[tuple[str, str, str, str]] = field(default_factory=list)  # metric, type, help, unit

    def refuse(self, reason: str) -> None:
        """Leave a series out; the others are taken all the same."""
        self.refused_series += 1
        self.first_refusal = self.first_refusal or reason
