"""NVML as it answered on a real H200, played back."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from trilens.collect.node.nvml import (
    Field,
    Gpu,
    GpuGone,
    GpuIdentity,
    GpuProcess,
    MigDevice,
    MigIdentity,
    Unanswered,
)
from trilens.model.pci import PciAddress
from trilens.model.workload import GpuUuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FIXTURES = Path(__file__).parent / "fixtures"
UUID = "GPU-5a9f0c11-7b32-4e08-9d51-0c2b6e4f8a17"


def recording(name: str) -> dict[str, Any]:
    """`h200_idle` or `h200_busy`; a copy that a test may change."""
    return copy.deepcopy(json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8")))


class RecordedNvml:
    def __init__(self, recorded: dict[str, Any]) -> None:
        self.driver_version = str(recorded["driver_version"])
        self.recorded = recorded
        self.fails: Exception | None = None

    def gpus(self) -> Sequence[Gpu]:
        if self.fails is not None:
            raise self.fails
        return [RecordedGpu(gpu) for gpu in self.recorded["gpus"]]


class _Answers:
    def __init__(self, recorded: dict[str, Any]) -> None:
        self.recorded = recorded

    def ask(self, question: str, *arguments: int) -> Any:
        if self.recorded.get("lost"):
            raise GpuGone("GPU is lost")
        answer = self.recorded["calls"].get(f"{question}({','.join(map(str, arguments))})", {"error": 3})
        if "error" in answer:
            raise Unanswered(f"NVML error {answer['error']}")
        value = answer["value"]
        return SimpleNamespace(**value) if isinstance(value, dict) else value

    def activity(self, metrics: Sequence[int]) -> Mapping[int, float]:
        recorded = self.recorded["activity"]
        return {metric: recorded[str(metric)] for metric in metrics if str(metric) in recorded}


class RecordedGpu(_Answers):
    def __init__(self, recorded: dict[str, Any]) -> None:
        super().__init__(recorded)
        identity = recorded["identity"]
        pci = PciAddress.parse(identity["pci"])
        assert pci is not None
        self.identity = GpuIdentity(
            identity["number"], GpuUuid(identity["uuid"]), identity["model"], pci, identity["minor"]
        )

    def fields(self, wanted: Sequence[Field]) -> Mapping[Field, float]:
        recorded = self.recorded["fields"]
        return {field: recorded[str(field.number)] for field in wanted if str(field.number) in recorded}

    def processes(self) -> Sequence[GpuProcess]:
        if self.recorded.get("lost"):
            raise GpuGone("GPU is lost")
        return [GpuProcess(**process) for process in self.recorded["processes"]]

    def mig_devices(self) -> Sequence[MigDevice]:
        return [RecordedMig(part) for part in self.recorded.get("mig", ())]


class RecordedMig(_Answers):
    def __init__(self, recorded: dict[str, Any]) -> None:
        super().__init__(recorded)
        self.identity = MigIdentity(**recorded["identity"])
