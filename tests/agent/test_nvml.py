"""The real NVML's binding, with the driver's part played by a stand-in: what only shows with odd hardware."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from trilens.collect.node.nvml import Driver, Field, GpuGone, GpuProcess, Unanswered
from trilens.model.errors import NodeError

NOT_SUPPORTED, LOST = 3, 15


class StandIn:
    """pynvml, for one GPU whose MIG devices and GPM a test can set."""

    NVML_GPM_METRICS_GET_VERSION = 1

    class NVMLError(Exception):
        def __init__(self, value: int) -> None:
            super().__init__(f"error {value}")
            self.value = value

    def __init__(self) -> None:
        self.loaded = True
        self.mig: dict[int, str] = {}  # uuid by index
        self.gpm = True
        self.taken: list[str] = []
        self.failures: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        if name in self.failures:
            return lambda *_arguments: self._fail(self.failures[name])
        raise AttributeError(name)

    def _fail(self, code: int) -> Any:
        raise self.NVMLError(code)

    def nvmlInit(self) -> None:
        if not self.loaded:
            self._fail(9)

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"580.159.04"  # text in newer bindings

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return f"gpu{index}" if index == 0 else self._fail(LOST)

    def nvmlDeviceGetUUID(self, handle: str) -> str:
        return {"gpu0": "GPU-0"}.get(handle, handle)

    def nvmlDeviceGetPciInfo(self, _handle: str) -> SimpleNamespace:
        return SimpleNamespace(busId="00000000:9B:00.0")

    def nvmlDeviceGetName(self, handle: str) -> str:
        return "NVIDIA H100" if handle == "gpu0" else "NVIDIA H100 MIG 1g.10gb"

    def nvmlDeviceGetMinorNumber(self, _handle: str) -> int:
        return 0

    def nvmlDeviceGetFanSpeed(self, _handle: str) -> int:
        return int(self._fail(NOT_SUPPORTED))

    def nvmlDeviceGetPowerUsage(self, _handle: str) -> int:
        return int(self._fail(LOST))

    def nvmlDeviceGetFieldValues(self, _handle: str, wanted: list[Field]) -> list[SimpleNamespace]:
        values = SimpleNamespace(dVal=0.5, uiVal=1, ulVal=2, ullVal=3, sllVal=-4, siVal=-5, usVal=6)
        answers = {
            1: SimpleNamespace(nvmlReturn=0, valueType=3, value=values),
            2: SimpleNamespace(nvmlReturn=NOT_SUPPORTED, valueType=3, value=values),
            3: SimpleNamespace(nvmlReturn=0, valueType=5, value=values),
            4: SimpleNamespace(nvmlReturn=0, valueType=99, value=values),  # of a driver newer than this code
        }
        return [answers[field.number] for field in wanted]

    def nvmlDeviceGetComputeRunningProcesses(self, _handle: str) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(pid=7, usedGpuMemory=100, gpuInstanceId=0xFFFFFFFF),
            SimpleNamespace(pid=8, usedGpuMemory=None, gpuInstanceId=2),
        ]

    def nvmlDeviceGetGraphicsRunningProcesses(self, _handle: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=7, usedGpuMemory=100, gpuInstanceId=0xFFFFFFFF)]

    def nvmlDeviceGetMPSComputeRunningProcesses(self, _handle: str) -> list[SimpleNamespace]:
        return list(self._fail(NOT_SUPPORTED))

    def nvmlDeviceGetMigMode(self, _handle: str) -> list[int]:
        return [1 if self.mig else 0, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, _handle: str) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, _handle: str, index: int) -> str:
        return self.mig[index] if index in self.mig else self._fail(6)

    def nvmlDeviceGetGpuInstanceId(self, handle: str) -> int:
        return int(handle.rpartition("-")[2])

    def nvmlDeviceGetComputeInstanceId(self, _handle: str) -> int:
        return 0

    def nvmlGpmQueryDeviceSupport(self, _handle: str) -> SimpleNamespace:
        return SimpleNamespace(isSupportedDevice=int(self.gpm))

    def nvmlGpmSampleAlloc(self) -> SimpleNamespace:
        return SimpleNamespace()

    def nvmlGpmSampleGet(self, handle: str, sample: SimpleNamespace) -> None:
        self.taken.append(handle)
        sample.number = len(self.taken)

    def nvmlGpmMigSampleGet(self, handle: str, instance: int, sample: SimpleNamespace) -> None:
        self.nvmlGpmSampleGet(f"{handle}/{instance}", sample)

    def c_nvmlGpmMetricsGet_t(self) -> SimpleNamespace:
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, nvmlReturn=0) for _ in range(10)])

    def nvmlGpmMetricsGet(self, request: SimpleNamespace) -> SimpleNamespace:
        """The value tells between which samples it was measured."""
        for metric in request.metrics[: request.numMetrics]:
            metric.value = request.sample1.number * 100 + request.sample2.number
            metric.nvmlReturn = NOT_SUPPORTED if metric.metricId == 99 else 0
        return request


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setitem(__import__("sys").modules, "pynvml", stand_in)
    return stand_in


def gpu(library: StandIn) -> Any:
    (found,) = Driver().gpus()
    return found


def test_a_driver_that_is_not_loaded(library: StandIn) -> None:
    library.loaded = False
    with pytest.raises(NodeError, match="is the driver loaded"):
        Driver()


def test_a_lost_gpu_does_not_hide_the_others(library: StandIn) -> None:
    driver = Driver()
    assert driver.driver_version == "580.159.04"
    (found,) = driver.gpus()
    assert (found.identity.uuid, str(found.identity.pci)) == ("GPU-0", "00000000:9B:00.0")
    assert driver.gpus()[0] is found  # it remembers what GPM measured last


def test_what_is_not_supported_and_what_is_lost(library: StandIn) -> None:
    found = gpu(library)
    with pytest.raises(Unanswered) as caught:
        found.ask("FanSpeed")
    assert not isinstance(caught.value, GpuGone)
    with pytest.raises(GpuGone):
        found.ask("PowerUsage")
    library.failures["nvmlDeviceGetNewThing"] = 13
    with pytest.raises(Unanswered):
        found.ask("NewThing")


def test_fields_by_their_type(library: StandIn) -> None:
    assert gpu(library).fields([Field(1), Field(2), Field(3), Field(4)]) == {Field(1): 3, Field(3): -5}


def test_processes_once_each(library: StandIn) -> None:
    assert gpu(library).processes() == [GpuProcess(7, 100, None), GpuProcess(8, None, 2)]


def test_who_is_on_a_lost_gpu_is_not_known(library: StandIn) -> None:
    found = gpu(library)
    library.nvmlDeviceGetComputeRunningProcesses = library.nvmlDeviceGetPowerUsage  # type: ignore[method-assign, assignment]
    with pytest.raises(GpuGone):
        found.processes()


def test_mig_devices_with_gaps_between_them(library: StandIn) -> None:
    assert gpu(library).mig_devices() == ()
    library.mig = {0: "MIG-a-1", 4: "MIG-b-9"}
    found = gpu(library)
    first, second = found.mig_devices()
    assert [part.identity.gpu_instance for part in (first, second)] == [1, 9]
    assert first.identity.profile == "1g.10gb"
    first.activity([2])
    assert library.taken == ["gpu0/1"]
    assert found.mig_devices()[0] is first
    library.mig = {4: "MIG-b-9"}
    assert [part.identity.uuid for part in found.mig_devices()] == ["MIG-b-9"]


def test_activity_between_one_scrape_and_the_next(library: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("trilens.collect.node.nvml.time.monotonic", lambda: now)
    found = gpu(library)
    assert found.activity([2, 99]) == {}  # nothing to compare with yet
    now += 15
    assert found.activity([2, 99]) == {2: 102}  # from the first sample to the second; 99 is not supported
    now += 15
    assert found.activity([2]) == {2: 203}
    now += 0.05
    assert found.activity([2]) == {2: 203}  # too soon to measure again: what the last one saw
    assert len(library.taken) == 3
    now += 301
    assert found.activity([2]) == {}  # what lies so far apart says nothing of now
    now += 15
    assert found.activity([2]) == {2: 405}


def test_a_gpu_without_gpm(library: StandIn) -> None:
    library.gpm = False
    assert gpu(library).activity([2]) == {}
    assert library.taken == []
