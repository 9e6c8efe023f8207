"""All detectors, in the order of their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.detect.cpu_fallback import CpuFallback
from trilens.detect.crash import Crash
from trilens.detect.divergence import Divergence
from trilens.detect.gpu_fault import GpuFault
from trilens.detect.hang import Hang
from trilens.detect.plateau import Plateau
from trilens.detect.stall import Stall
from trilens.detect.straggler import Straggler
from trilens.detect.suspect_telemetry import SuspectTelemetry
from trilens.detect.throttling import Throttling

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.detect.detector import Detector

DETECTORS: Final[tuple[Callable[[], Detector], ...]] = (
    Stall,  # D001
    Hang,  # D002
    Straggler,  # D003
    Throttling,  # D004
    CpuFallback,  # D005
    Plateau,  # D006
    Divergence,  # D007
    SuspectTelemetry,  # D008
    GpuFault,  # D009
    Crash,  # D010
)


def all_detectors() -> list[Detector]:
    """New ones, that remember nothing."""
    return [make() for make in DETECTORS]
