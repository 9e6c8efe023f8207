"""Hours of GPUs in letters, for tests of what is told without steps."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from trilens.ledger.source import GpuMinutes, ServingMinutes, Signals
from trilens.ledger.telemetry.coarse import Asked, coarse_spans
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.ledger_facts import Facts
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.workload import GpuUuid, Membership, PodKey, WorkloadKey

if TYPE_CHECKING:
    from trilens.ledger.span import Span

HOUR_MS = 1_768_392_000_000
MINUTE = 60_000
H100 = "NVIDIA H100 80GB HBM3"
JOB = WorkloadKey("lab", "ml", "batch", "Job", "train", "w")
UUID = GpuUuid("GPU-1")

# What a letter means: how much of the minute a kernel ran, and watts.
READINGS = {
    "w": (0.93, 480.0),  # works
    "f": (1.0, 650.0),  # works at full power
    "l": (0.3, 150.0),  # works a little
    ".": (0.0, 112.0),  # quiet
    "h": (1.0, 121.0),  # waits for a partner that does not come
    "?": (np.nan, np.nan),
}


def pod(name: str = "train-0", cluster: str = "lab") -> PodKey:
    return PodKey(cluster, "ml", name, f"uid-{name}")


class Story:
    """A minute a letter, from `HOUR_MS` on; asked about from minute `asked` to the end."""

    def __init__(self, letters: str, *, asked: int = 0, since: int | None = None, model: str = H100) -> None:
        letters = letters.replace(" ", "")
        self.minutes = len(letters)
        read = np.array([[READINGS[letter] for letter in letters]])
        nan = np.full((1, self.minutes), np.nan)
        self.gpus = GpuMinutes(HOUR_MS, {(UUID, ""): 0}, read[:, :, 0], nan, read[:, :, 1], nan)
        self.serving = ServingMinutes(HOUR_MS, {}, nan[:0], nan[:0], nan[:0])
        self.workload = JOB
        self.from_ms = HOUR_MS + asked * MINUTE
        self.to_ms = HOUR_MS + self.minutes * MINUTE
        self.held_since = asked if since is None else since
        self.model = model
        self.phases: list[PhaseInterval] = []
        self.others: list[Membership] = []

    def phase(self, phase: Phase, begin: float, end: float | None, attempt: int = 0) -> Story:
        to_ms = None if end is None else HOUR_MS + round(end * MINUTE)
        begin_ms = HOUR_MS + round(begin * MINUTE)
        self.phases.append(PhaseInterval(self.workload, attempt, phase, "", begin_ms, to_ms))
        return self

    def serves(
        self, requests: str, name: str = "train-0", kind: tuple[str, str] = ("apps", "Deployment")
    ) -> Story:
        """A digit is so many requests in that minute, a blank is a minute of which nothing is known."""
        self.workload = self.workload._replace(group=kind[0], kind=kind[1])
        load = np.array(
            [[np.nan if letter == "?" else float(letter) for letter in requests.replace(" ", "")]]
        )
        nan = np.full(load.shape, np.nan)
        self.serving = ServingMinutes(HOUR_MS, {("lab", "ml", name): 0}, nan, load, nan)
        return self

    def facts(self) -> Facts:
        begin_ms = HOUR_MS + self.held_since * MINUTE
        binding = GpuBinding(GpuKey(UUID), pod(), "main", Fraction(1), (ClaimSource.DCGM,))
        members = [Membership(pod(), self.workload, group=0), *self.others]
        return Facts(
            self.from_ms,
            self.to_ms,
            gpus=[GpuInterval(Gpu(GpuKey(UUID), "lab", "node-a", model=self.model), begin_ms, None)],
            bindings=[BindingInterval(binding, begin_ms, None)],
            members=[
                MembershipInterval(replace(one, workload=self.workload), "node-a", begin_ms)
                for one in members
            ],
            phases=self.phases,
        )

    def spans(self) -> list[Span]:
        asked = Asked(UUID, "", pod(), self.workload, self.from_ms, self.to_ms)
        (found,) = coarse_spans([asked], self.facts(), Signals(self.gpus, self.serving))
        assert_covers(asked, found)
        return found

    def told(self) -> list[tuple[str, float]]:
        """Bucket, cause and basis of each span, with its minutes."""
        return [
            (f"{part.bucket.value} {part.cause} {span.basis.value}", part.ms / MINUTE)
            for span in self.spans()
            for part in span.parts
        ]

    def since(self) -> list[float | None]:
        """In minutes, of each span."""
        return [
            None if span.since_ms is None else (span.since_ms - HOUR_MS) / MINUTE for span in self.spans()
        ]


def assert_covers(asked: Asked, spans: list[Span]) -> None:
    edges = [asked.from_ms, *(span.to_ms for span in spans)]
    assert [span.from_ms for span in spans] == edges[:-1]
    assert edges[-1] == asked.to_ms
    for span in spans:
        assert sum(part.ms for part in span.parts) == span.to_ms - span.from_ms > 0
