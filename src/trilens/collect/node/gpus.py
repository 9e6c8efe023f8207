"""The GPUs of the node, asked with a limit on how long they may take."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final, TypeVar

from trilens.collect.node.asking import Asker, Overdue

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.collect.node.families import Sample
    from trilens.collect.node.gpu_readings import GpuReadings
    from trilens.collect.node.nvml import GpuIdentity, GpuProcess, MigPart
    from trilens.model.pci import PciAddress

log = logging.getLogger(__name__)

T = TypeVar("T")

_TIMEOUT_S: Final = 5.0  # below any scrape timeout: without the GPUs the rest must still be told


class Gpus:
    """Its methods may be called from any thread; what does not come in time is empty."""

    def __init__(self, readings: GpuReadings) -> None:
        self._readings = readings
        self._asker = Asker("trilens-gpu")
        self._overdue: str | None = None
        self.pass_seconds: float | None = None  # how long the last readings took
        self.known: tuple[GpuIdentity, ...] = ()  # all that ever answered

    @property
    def problem(self) -> str | None:
        return self._overdue or self._readings.problem

    def samples(
        self, pods: Mapping[str, Mapping[str, str]], last_xids: Mapping[PciAddress, int] | None
    ) -> list[Sample]:
        begun = time.monotonic()
        samples = self._ask(lambda: self._readings.take(pods, last_xids))
        self.pass_seconds = time.monotonic() - begun
        return samples or []

    def processes(self) -> Mapping[GpuIdentity, Sequence[GpuProcess]]:
        """Of the GPUs that tell."""
        return self._ask(self._readings.processes) or {}

    def mig_parts(self) -> Mapping[str, MigPart]:
        return self._ask(self._readings.mig_parts) or {}

    def _ask(self, question: Callable[[], T]) -> T | None:
        try:
            answer = self._asker.ask(question, _TIMEOUT_S)
        except Overdue as e:
            if self._overdue is None:
                log.warning("the GPUs do not answer", extra={"reason": str(e)})
            self._overdue = f"the driver does not answer: {e}"
            return None
        self._overdue = None
        self.known = self._readings.known()
        return answer
