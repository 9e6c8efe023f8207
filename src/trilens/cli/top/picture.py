"""What the screen shows, as it was at one moment. None is unknown, never zero."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from decimal import Decimal

GRAVITY: Final = {"critical": 0, "warning": 1, "info": 2, "ok": 3, "unknown": 4}
ENDED: Final = frozenset({"succeeded", "failed", "gone"})


@dataclass(frozen=True, slots=True)
class Told:
    """An open incident or finding: `code` is what its own command knows it by."""

    severity: str
    code: str
    text: str
    since_ms: int
    action: str = ""
    lost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """Of the whole fleet. `gpus` are those of each state that /api/now tells apart; `incidents` are the
    gravest, and `lost` is by all that are open."""

    currency: str | None = None
    burn_per_hour: Decimal | None = None
    gpus: tuple[tuple[str, int], ...] = ()
    incidents: tuple[Told, ...] = ()
    more_incidents: int = 0
    lost: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A run whose workload nobody knows has no cluster."""

    cluster: str
    namespace: str
    kind: str
    name: str
    team: str | None = None
    phase: str | None = None
    gpus: int | None = None
    health: str = "ok"
    health_text: str = ""
    goodput: float | None = None
    per_hour: Decimal | None = None
    spent: Decimal | None = None
    currency: str | None = None
    step: int | None = None
    total_steps: int | None = None
    left_s: float | None = None
    run: str | None = None
    use: tuple[float, ...] = ()

    @property
    def path(self) -> str:
        """As the server is asked for it."""
        return f"{self.cluster}/{self.namespace}/{self.kind}/{self.name}"

    @property
    def is_over(self) -> bool:
        return self.phase in ENDED

    @property
    def progress(self) -> float | None:
        return self.step / self.total_steps if self.step is not None and self.total_steps else None

    def has(self, words: str) -> bool:
        """Whether each of the words is somewhere in what names it."""
        told = " ".join(
            (self.cluster, self.namespace, self.kind, self.name, self.team or "", self.phase or "")
        )
        return all(word in told.lower() for word in words.lower().split())


@dataclass(frozen=True, slots=True)
class RankGpu:
    """A rank and its GPU; a pod without ranks has only the GPU."""

    rank: int | None
    pod: str
    node: str | None
    gpu: str | None
    utilization: float | None = None
    power_watts: float | None = None
    celsius: float | None = None
    step: int | None = None
    step_s: float | None = None
    own_s: float | None = None  # of a step, without waiting for other ranks
    use: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class OneWorkload:
    """A workload from inside."""

    path: str
    lines: tuple[str, ...]
    incidents: tuple[Told, ...] = ()
    findings: tuple[Told, ...] = ()
    ranks: tuple[RankGpu, ...] = ()
    is_known: bool = True


@dataclass(frozen=True, slots=True)
class Picture:
    at_s: float
    head: Head = field(default_factory=Head)
    workloads: tuple[Workload, ...] = ()
    opened: OneWorkload | None = None
    warnings: tuple[str, ...] = ()
