"""NVIDIA's management library, behind the few questions that are asked of it."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from trilens.model.errors import NodeError
from trilens.model.pci import PciAddress
from trilens.model.workload import GpuUuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ALL_LINKS: Final = 0xFFFFFFFF  # the scope that sums a field over all links
_SHORTEST_GPM_S: Final = 0.1  # two samples must lie at least so far apart
_LONGEST_GPM_S: Final = 300.0  # an average over more than this is not "now"
_LOST: Final = frozenset({15, 16})  # GPU is lost, GPU requires reset
_FIELD_VALUES: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


class Unanswered(Exception):
    """The driver does not tell: not supported, not permitted, not there."""


class GpuGone(Unanswered):
    """The GPU answers nothing any more."""


class Field(NamedTuple):
    number: int  # NVML_FI_...
    scope: int = 0  # a link


class GpuIdentity(NamedTuple):
    number: int  # NVML's index, which nvidia-smi shows
    uuid: GpuUuid
    model: str
    pci: PciAddress
    minor: int  # /dev/nvidia<minor>


class MigIdentity(NamedTuple):
    uuid: str
    gpu_instance: int
    compute_instance: int
    profile: str  # 1g.10gb


class MigPart(NamedTuple):
    gpu: GpuIdentity
    part: MigIdentity


class GpuProcess(NamedTuple):
    pid: int
    memory_bytes: int | None
    gpu_instance: int | None


class MigDevice(Protocol):
    identity: MigIdentity

    def ask(self, question: str, *arguments: int) -> Any: ...
    def activity(self, metrics: Sequence[int]) -> Mapping[int, float]: ...


class Gpu(Protocol):
    identity: GpuIdentity

    def ask(self, question: str, *arguments: int) -> Any:
        """What nvmlDeviceGet`question` answers; raises Unanswered."""
        ...

    def fields(self, wanted: Sequence[Field]) -> Mapping[Field, float]:
        """Several at once; one that the driver does not have is not among the answers."""
        ...

    def activity(self, metrics: Sequence[int]) -> Mapping[int, float]:
        """GPM metrics, averaged since they were last asked for. Empty the first time, and without GPM."""
        ...

    def processes(self) -> Sequence[GpuProcess]:
        """Raises GpuGone: who is on a GPU that answers nothing is not known."""
        ...

    def mig_devices(self) -> Sequence[MigDevice]: ...


class Nvml(Protocol):
    driver_version: str

    def gpus(self) -> Sequence[Gpu]: ...


class Driver:
    """The real one."""

    def __init__(self) -> None:
        import pynvml

        self._library: Any = pynvml
        try:
            pynvml.nvmlInit()
            self.driver_version = _text(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as e:
            raise NodeError(f"cannot ask the NVIDIA driver: {e}", hint="is the driver loaded?") from e
        self._gpus: dict[str, _DriverGpu] = {}

    def gpus(self) -> Sequence[Gpu]:
        """Those that answer now, each the same object every time."""
        library = self._library
        present: dict[str, _DriverGpu] = {}
        for index in range(_call(library, library.nvmlDeviceGetCount)):
            with contextlib.suppress(Unanswered):
                handle = _call(library, library.nvmlDeviceGetHandleByIndex, index)
                uuid = _text(_call(library, library.nvmlDeviceGetUUID, handle))
                present[uuid] = self._gpus.get(uuid) or _DriverGpu(library, handle, index, uuid)
        self._gpus = present
        return list(present.values())


class _Handle:
    """A GPU or a part of one."""

    def __init__(self, library: Any, handle: Any) -> None:
        self._library = library
        self._handle = handle

    def ask(self, question: str, *arguments: int) -> Any:
        return _call(
            self._library, getattr(self._library, f"nvmlDeviceGet{question}"), self._handle, *arguments
        )


class _DriverGpu(_Handle):
    def __init__(self, library: Any, handle: Any, index: int, uuid: str) -> None:
        super().__init__(library, handle)
        pci = PciAddress.parse(_text(self.ask("PciInfo").busId))
        if pci is None:
            raise Unanswered(f"the driver names no place on the bus for GPU {index}")
        name, minor = _text(self.ask("Name")), int(self.ask("MinorNumber"))
        self.identity = GpuIdentity(index, GpuUuid(uuid), name, pci, minor)
        self._gpm = (
            _Gpm(library, lambda sample: library.nvmlGpmSampleGet(handle, sample))
            if self._has_gpm()
            else None
        )
        self._mig: dict[str, _DriverMig] = {}

    def fields(self, wanted: Sequence[Field]) -> Mapping[Field, float]:
        answers = _call(self._library, self._library.nvmlDeviceGetFieldValues, self._handle, list(wanted))
        return {
            field: getattr(answer.value, _FIELD_VALUES[answer.valueType])
            for field, answer in zip(wanted, answers, strict=True)
            if answer.nvmlReturn == 0 and answer.valueType < len(_FIELD_VALUES)
        }

    def activity(self, metrics: Sequence[int]) -> Mapping[int, float]:
        return self._gpm.since_last(metrics) if self._gpm else {}

    def processes(self) -> Sequence[GpuProcess]:
        found: dict[int, GpuProcess] = {}
        for question in ("ComputeRunningProcesses", "GraphicsRunningProcesses", "MPSComputeRunningProcesses"):
            try:
                entries = self.ask(question)
            except GpuGone:
                raise
            except Unanswered:  # not every GPU has every kind
                continue
            for entry in entries:
                instance = getattr(entry, "gpuInstanceId", None)
                instance = None if instance in (None, 0xFFFFFFFF) else int(instance)
                found.setdefault(entry.pid, GpuProcess(entry.pid, entry.usedGpuMemory, instance))
        return list(found.values())

    def mig_devices(self) -> Sequence[MigDevice]:
        try:
            if self.ask("MigMode")[0] != 1:
                return ()
            count = self.ask("MaxMigDeviceCount")
        except Unanswered:
            return ()
        present: dict[str, _DriverMig] = {}
        for index in range(count):
            with contextlib.suppress(Unanswered):  # instances need not be numbered without gaps
                handle = self.ask("MigDeviceHandleByIndex", index)
                uuid = _text(_call(self._library, self._library.nvmlDeviceGetUUID, handle))
                present[uuid] = self._mig.get(uuid) or _DriverMig(
                    self._library, handle, uuid, self._handle, self._gpm is not None
                )
        self._mig = present
        return list(present.values())

    def _has_gpm(self) -> bool:
        try:
            support = _call(self._library, self._library.nvmlGpmQueryDeviceSupport, self._handle)
        except Unanswered:
            return False
        return bool(support.isSupportedDevice)


class _DriverMig(_Handle):
    def __init__(self, library: Any, handle: Any, uuid: str, parent: Any, has_gpm: bool) -> None:
        super().__init__(library, handle)
        gpu_instance = int(self.ask("GpuInstanceId"))
        name = _text(self.ask("Name"))  # "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
        self.identity = MigIdentity(
            uuid, gpu_instance, int(self.ask("ComputeInstanceId")), name.rpartition("MIG ")[2]
        )
        self._gpm = (
            _Gpm(library, lambda sample: library.nvmlGpmMigSampleGet(parent, gpu_instance, sample))
            if has_gpm
            else None
        )

    def activity(self, metrics: Sequence[int]) -> Mapping[int, float]:
        return self._gpm.since_last(metrics) if self._gpm else {}


class _Gpm:
    """Hardware counters between two moments (Hopper and newer)."""

    def __init__(self, library: Any, take: Any) -> None:
        self._library = library
        self._take = take
        self._samples = (
            _call(library, library.nvmlGpmSampleAlloc),
            _call(library, library.nvmlGpmSampleAlloc),
        )
        self._taken_s: float | None = None  # when the first of them was
        self._last: Mapping[int, float] = {}

    def since_last(self, metrics: Sequence[int]) -> Mapping[int, float]:
        now = time.monotonic()
        if self._taken_s is not None and now - self._taken_s < _SHORTEST_GPM_S:
            return self._last  # another scraper asked a moment ago
        earlier, later = self._samples
        if self._taken_s is None or now - self._taken_s > _LONGEST_GPM_S:
            _call(self._library, self._take, earlier)
            self._last = {}
        else:
            _call(self._library, self._take, later)
            self._last = self._compare(earlier, later, metrics)
            self._samples = (later, earlier)
        self._taken_s = now
        return self._last

    def _compare(self, earlier: Any, later: Any, metrics: Sequence[int]) -> Mapping[int, float]:
        request = self._library.c_nvmlGpmMetricsGet_t()
        request.version = self._library.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(metrics)
        request.sample1, request.sample2 = earlier, later
        for place, metric in enumerate(metrics):
            request.metrics[place].metricId = metric
        answer = _call(self._library, self._library.nvmlGpmMetricsGet, request)
        return {
            metric: answer.metrics[place].value
            for place, metric in enumerate(metrics)
            if answer.metrics[place].nvmlReturn == 0
        }


def _call(library: Any, function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except library.NVMLError as e:
        raise (GpuGone if e.value in _LOST else Unanswered)(str(e)) from e


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
