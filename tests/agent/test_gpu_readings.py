"""What NVML answers on an H200, under DCGM's names and in DCGM's units."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import pytest
from recorded_nvml import FIXTURES, UUID, RecordedGpu, RecordedNvml, recording

from trilens.collect.exposition import parse_samples
from trilens.collect.node.agent_metrics import DESCRIPTIONS
from trilens.collect.node.families import Sample, write
from trilens.collect.node.gpu_readings import GpuReadings
from trilens.collect.node.nvml import Unanswered
from trilens.model.errors import NodeError
from trilens.model.pci import PciAddress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.collect.node.nvml import Field

LABELS = {
    "gpu": "0",
    "UUID": UUID,
    "pci_bus_id": "00000000:00:06.0",
    "device": "nvidia0",
    "modelName": "NVIDIA H200",
    "Hostname": "h200-1",
    "DCGM_FI_DRIVER_VERSION": "580.159.04",
}


def take(recorded: dict[str, Any], **arguments: Any) -> list[Sample]:
    readings = GpuReadings(lambda: RecordedNvml(recorded), "h200-1")
    return readings.take(arguments.get("pods", {}), arguments.get("last_xids"))


def by_name(samples: list[Sample]) -> dict[str, float]:
    return {sample.name: sample.value for sample in samples}


def test_a_busy_gpu_in_dcgms_units() -> None:
    samples = take(recording("h200_busy"))
    values = by_name(samples)
    assert values["DCGM_FI_DEV_GPU_UTIL"] == 100  # percent
    assert values["DCGM_FI_DEV_POWER_USAGE"] == 686.41  # watts, of milliwatts
    assert values["DCGM_FI_DEV_FB_USED"] == 19984  # MiB, of bytes
    assert values["DCGM_FI_DEV_FB_FREE"] == 123171
    assert values["DCGM_FI_DEV_FB_RESERVED"] == 615
    assert values["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == 9039010  # millijoules
    assert values["DCGM_FI_DEV_POWER_VIOLATION"] == 6943538592  # nanoseconds
    assert values["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] == 4
    assert values["DCGM_FI_DEV_MEMORY_TEMP"] == 51
    assert values["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"] == pytest.approx(0.51205, abs=1e-5)  # a ratio
    assert values["DCGM_FI_PROF_SM_ACTIVE"] == pytest.approx(0.95043, abs=1e-5)
    assert values["DCGM_FI_PROF_PCIE_RX_BYTES"] == pytest.approx(32.16407 * 1024**2, rel=1e-5)
    assert all(sample.labels == LABELS for sample in samples if sample.name.startswith("DCGM"))


def test_what_the_gpu_does_not_have_is_absent() -> None:
    values = by_name(take(recording("h200_idle")))
    assert "DCGM_FI_DEV_FAN_SPEED" not in values  # not supported
    assert "DCGM_FI_DEV_RETIRED_SBE" not in values
    assert "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL" not in values
    assert values["DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"] == 0  # known to be none
    assert values["DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"] == 0


def test_no_nvlink_traffic_without_links_although_gpm_says_zero() -> None:
    recorded = recording("h200_busy")
    assert recorded["gpus"][0]["activity"]["60"] == 0
    assert "DCGM_FI_PROF_NVLINK_RX_BYTES" not in by_name(take(recorded))
    recorded["gpus"][0]["fields"]["91"] = 18
    recorded["gpus"][0]["activity"]["60"] = 2.5
    recorded["gpus"][0]["fields"]["138"] = 7
    samples = take(recorded)
    assert by_name(samples)["DCGM_FI_PROF_NVLINK_RX_BYTES"] == 2.5 * 1024**2
    (sent,) = (sample for sample in samples if sample.name == "trilens_gpu_nvlink_bytes_total")
    assert (sent.labels["direction"], sent.value) == ("transmitted", 7 * 1024)


def test_no_activity_before_there_are_two_samples() -> None:
    recorded = recording("h200_busy")
    recorded["gpus"][0]["activity"] = {}
    assert not [name for name in by_name(take(recorded)) if name.startswith("DCGM_FI_PROF")]


def test_activity_that_may_not_be_read_does_not_make_a_gpu_lost() -> None:
    class WithoutPermission(RecordedGpu):
        def activity(self, metrics: Sequence[int]) -> Mapping[int, float]:
            raise Unanswered("Insufficient Permissions")

    class WithoutFields(WithoutPermission):
        def fields(self, wanted: Sequence[Field]) -> Mapping[Field, float]:
            raise Unanswered("Function Not Found")

    for kind, present in ((WithoutPermission, True), (WithoutFields, False)):
        nvml = RecordedNvml(recording("h200_busy"))
        nvml.gpus = lambda kind=kind, nvml=nvml: [kind(gpu) for gpu in nvml.recorded["gpus"]]  # type: ignore[method-assign]
        values = by_name(GpuReadings(lambda nvml=nvml: nvml, "h200-1").take({}, None))
        assert values["trilens_gpu_answers"] == 1
        assert values["DCGM_FI_DEV_FB_USED"] == 19984
        assert "DCGM_FI_PROF_SM_ACTIVE" not in values
        assert ("DCGM_FI_DEV_MEMORY_TEMP" in values) is present


def test_the_last_xid_is_told_where_the_log_is_read() -> None:
    place = PciAddress(0, 0, 6)
    assert by_name(take(recording("h200_idle"), last_xids={place: 31}))["DCGM_FI_DEV_XID_ERRORS"] == 31
    assert by_name(take(recording("h200_idle"), last_xids={}))["DCGM_FI_DEV_XID_ERRORS"] == 0
    assert "DCGM_FI_DEV_XID_ERRORS" not in by_name(take(recording("h200_idle"), last_xids=None))


def test_who_holds_a_gpu_is_on_its_readings() -> None:
    holder = {"container": "main", "namespace": "llm", "pod": "train-0"}
    samples = take(recording("h200_idle"), pods={UUID: holder})
    assert all(sample.labels == LABELS | holder for sample in samples if sample.name.startswith("DCGM"))


def test_an_old_driver_tells_no_reserved_memory() -> None:
    recorded = recording("h200_idle")
    recorded["gpus"][0]["calls"]["MemoryInfo(33554472)"] = {"error": 13}
    values = by_name(take(recorded))
    assert values["DCGM_FI_DEV_FB_USED"] == 615
    assert "DCGM_FI_DEV_FB_RESERVED" not in values


def mig(recorded: dict[str, Any], *instances: int) -> None:
    """Splits the recorded GPU; what each part answers is what the whole one did."""
    gpu = recorded["gpus"][0]
    gpu["mig"] = [
        {
            "identity": {
                "uuid": f"MIG-{number}",
                "gpu_instance": number,
                "compute_instance": 0,
                "profile": "1g.18gb",
            },
            "calls": gpu["calls"],
            "activity": {"2": 10.0 * number},
        }
        for number in instances
    ]


def test_mig_instances_have_their_own_memory_and_activity_and_share_the_rest() -> None:
    recorded = recording("h200_busy")
    mig(recorded, 1, 2)
    samples = take(recorded, pods={"MIG-2": {"pod": "notebook"}})
    active = [sample for sample in samples if sample.name == "DCGM_FI_PROF_SM_ACTIVE"]
    assert [(sample.labels["GPU_I_ID"], sample.value) for sample in active] == [("1", 0.1), ("2", 0.2)]
    assert [sample.labels.get("pod") for sample in active] == [None, "notebook"]
    assert active[0].labels["GPU_I_PROFILE"] == "1g.18gb"
    assert [sample.name for sample in samples].count("DCGM_FI_DEV_FB_USED") == 2
    assert [sample.name for sample in samples].count("DCGM_FI_DEV_POWER_USAGE") == 1  # not to be summed


def test_compute_instances_of_one_gpu_instance_are_told_once() -> None:
    recorded = recording("h200_busy")
    mig(recorded, 1, 1)
    recorded["gpus"][0]["mig"][1]["identity"] |= {"uuid": "MIG-other", "compute_instance": 1}
    samples = take(recorded, pods={"MIG-1": {"pod": "one"}, "MIG-other": {"pod": "other"}})
    (used,) = (sample for sample in samples if sample.name == "DCGM_FI_DEV_FB_USED")
    assert used.labels["GPU_I_ID"] == "1"
    assert "pod" not in used.labels  # it is not one's alone


def test_no_series_comes_twice() -> None:
    recorded = recording("h200_busy")
    mig(recorded, 1, 2, 2)
    named = [(sample.name, tuple(sample.labels.items())) for sample in take(recorded, last_xids={})]
    assert len(named) == len(set(named))


def test_activity_that_gpm_could_not_tell_is_absent() -> None:
    recorded = recording("h200_busy")
    recorded["gpus"][0]["activity"]["2"] = float("nan")
    values = by_name(take(recorded))
    assert "DCGM_FI_PROF_SM_ACTIVE" not in values
    assert "DCGM_FI_PROF_SM_OCCUPANCY" in values


def test_a_gpu_that_is_lost_is_told_as_lost() -> None:
    recorded = recording("h200_busy")
    nvml = RecordedNvml(recorded)
    readings = GpuReadings(lambda: nvml, "h200-1")
    assert by_name(readings.take({}, None))["trilens_gpu_answers"] == 1
    recorded["gpus"][0]["lost"] = True  # it is still listed, and answers nothing
    values = by_name(readings.take({}, None))
    assert (values["trilens_gpu_answers"], values["trilens_node_gpus"]) == (0, 0)
    assert "DCGM_FI_DEV_GPU_UTIL" not in values
    recorded["gpus"].clear()  # now it is not even listed
    values = by_name(readings.take({}, None))
    assert (values["trilens_gpu_answers"], values["trilens_node_gpus"]) == (0, 0)
    assert [gpu.uuid for gpu in readings.known()] == [UUID]


def test_a_driver_that_comes_later_and_goes_again() -> None:
    now = 0.0
    nvml = RecordedNvml(recording("h200_idle"))
    loaded = False

    def open_nvml() -> RecordedNvml:
        if not loaded:
            raise NodeError("cannot ask the NVIDIA driver: Driver Not Loaded")
        return nvml

    readings = GpuReadings(open_nvml, "h200-1", lambda: now)
    assert readings.take({}, {}) == []
    assert readings.problem == "cannot ask the NVIDIA driver: Driver Not Loaded"
    loaded = True
    assert readings.take({}, {}) == []  # not asked again at once
    now = 31
    assert readings.take({}, {})
    assert readings.problem is None
    nvml.fails = Unanswered("Uninitialized")
    assert readings.take({}, {}) == []
    assert readings.problem == "Uninitialized"
    nvml.fails, now = None, 62
    assert readings.take({}, {})


def test_processes_with_their_gpu() -> None:
    readings = GpuReadings(lambda: RecordedNvml(recording("h200_busy")), "h200-1")
    ((gpu, (process,)),) = readings.processes().items()
    assert (gpu.uuid, process.pid, process.memory_bytes) == (UUID, 463, 19976 * 1024**2)


def served() -> dict[str, float]:
    """What the agent served on the machine itself."""
    text = (FIXTURES / "h200_busy.prom").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_the_agent_agreed_with_nvidia_smi_on_the_real_machine() -> None:
    with (FIXTURES / "h200_busy_nvidia_smi.csv").open(encoding="utf-8") as stream:
        (beside,) = csv.DictReader(stream)
    names = {
        "utilization.gpu": "DCGM_FI_DEV_GPU_UTIL",
        "utilization.memory": "DCGM_FI_DEV_MEM_COPY_UTIL",
        "clocks.sm": "DCGM_FI_DEV_SM_CLOCK",
        "clocks.mem": "DCGM_FI_DEV_MEM_CLOCK",
        "temperature.gpu": "DCGM_FI_DEV_GPU_TEMP",
        "temperature.memory": "DCGM_FI_DEV_MEMORY_TEMP",
        "enforced.power.limit": "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
        "pcie.link.gen.gpucurrent": "DCGM_FI_DEV_PCIE_LINK_GEN",
        "pcie.link.width.current": "DCGM_FI_DEV_PCIE_LINK_WIDTH",
    }
    values = served()
    assert {name: float(beside[name]) for name in names} == {
        name: values[ours] for name, ours in names.items()
    }
    assert values["DCGM_FI_DEV_POWER_USAGE"] == pytest.approx(float(beside["power.draw.average"]), abs=0.01)
    assert values["DCGM_FI_DEV_CLOCKS_EVENT_REASONS"] == int(beside["clocks_event_reasons.active"], 16)
    for name, ours in (("used", "USED"), ("free", "FREE"), ("reserved", "RESERVED")):
        # nvidia-smi rounds up to whole MiB, DCGM down.
        assert float(beside[f"memory.{name}"]) - values[f"DCGM_FI_DEV_FB_{ours}"] in (0, 1)


def test_the_same_series_come_of_the_recording_as_came_of_the_machine() -> None:
    made = set(by_name(take(recording("h200_busy"), last_xids={})))
    assert made == {
        name
        for name in served()
        if name.startswith(("DCGM", "trilens_gpu_a", "trilens_gpu_r", "trilens_node_g"))
    }


def test_the_text_reads_back_as_it_was_meant() -> None:
    odd = Sample("trilens_node_gpus", {"odd": 'a"b\\c\nd', "empty": ""}, 2.5)
    samples = [*take(recording("h200_busy"), last_xids={}), odd]
    read, metadata = parse_samples(write(samples, DESCRIPTIONS), openmetrics=False)
    assert [(dict(sample.labels), sample.value) for sample in read] == [
        ({"__name__": name, **{key: text for key, text in labels.items() if text}}, value)
        for name, labels, value in samples
    ]
    kinds = {family.metric: family.kind for family in metadata}
    assert kinds["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"] == "counter"
    assert kinds["DCGM_FI_DEV_GPU_UTIL"] == "gauge"


def test_every_series_is_described() -> None:
    for name in served():
        assert name in DESCRIPTIONS
