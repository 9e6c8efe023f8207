"""The rules over scrapes that were captured from real dcgm-exporters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from recording_rules import Recorder
from servers import corpus
from trilens.collect.exposition import parse_samples
from trilens.promql.memory import MemorySource

if TYPE_CHECKING:
    from pathlib import Path

    from recording_rules import Series

CORPUS = corpus("dcgm")
SCRAPES = sorted(CORPUS.glob("*.prom"))
AT_MS = 1_700_000_000_000

pytestmark = pytest.mark.skipif(
    not SCRAPES, reason="no DCGM scrapes: set TRILENS_CORPORA to the folder that holds dcgm/*.prom"
)


def scraped(file: Path) -> list[tuple[dict[str, str], float]]:
    """One capture was shortened by hand: "..." stands for the labels of the same GPU further up."""
    text = file.read_text()
    whole = dict(re.findall(r'{(gpu="\d+"),(UUID=[^}]*)}', text))
    text = re.sub(r'{(gpu="\d+"),\.\.\.,[^}]*}', lambda line: f"{{{line[1]},{whole[line[1]]}}}", text)
    samples, _ = parse_samples(text.encode(), openmetrics=False)
    return [({str(k): str(v) for k, v in sample.labels}, sample.value) for sample in samples]


def recorded(file: Path, extra: list[dict[str, str]] | None = None) -> dict[str, Series]:
    source = MemorySource()
    for labels, value in scraped(file):
        source.add(labels, [(AT_MS, value)])
    for labels in extra or []:
        source.add(labels, [(AT_MS, 1.0)])
    return Recorder(source, "gpu.yml").evaluate(AT_MS)


def by_gpu(series: Series) -> dict[str, float]:
    return {dict(labels)["UUID"]: value for labels, value in series.items()}


# Name, the field it comes from, the factor to its base unit.
PLAIN = [
    ("trilens:gpu_utilization:ratio", "DCGM_FI_DEV_GPU_UTIL", 0.01),
    ("trilens:memory_bandwidth:ratio", "DCGM_FI_DEV_MEM_COPY_UTIL", 0.01),
    ("trilens:engine_active:ratio", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1),
    ("trilens:sm_active:ratio", "DCGM_FI_PROF_SM_ACTIVE", 1),
    ("trilens:sm_occupancy:ratio", "DCGM_FI_PROF_SM_OCCUPANCY", 1),
    ("trilens:tensor_active:ratio", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1),
    ("trilens:dram_active:ratio", "DCGM_FI_PROF_DRAM_ACTIVE", 1),
    ("trilens:gpu_memory_used:bytes", "DCGM_FI_DEV_FB_USED", 2**20),
    ("trilens:gpu_memory_free:bytes", "DCGM_FI_DEV_FB_FREE", 2**20),
    ("trilens:gpu_memory_reserved:bytes", "DCGM_FI_DEV_FB_RESERVED", 2**20),
    ("trilens:gpu_power:watts", "DCGM_FI_DEV_POWER_USAGE", 1),
    ("trilens:gpu_energy:joules_total", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 0.001),
    ("trilens:gpu_temperature:celsius", "DCGM_FI_DEV_GPU_TEMP", 1),
    ("trilens:sm_clock:hertz", "DCGM_FI_DEV_SM_CLOCK", 1e6),
    ("trilens:mem_clock:hertz", "DCGM_FI_DEV_MEM_CLOCK", 1e6),
    ("trilens:pcie_rx:bytes_per_second", "DCGM_FI_PROF_PCIE_RX_BYTES", 1),
    ("trilens:pcie_tx:bytes_per_second", "DCGM_FI_PROF_PCIE_TX_BYTES", 1),
    ("trilens:row_remap_failure:bool", "DCGM_FI_DEV_ROW_REMAP_FAILURE", 1),
    ("trilens:pcie_replays:total", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", 1),
    ("trilens:xid_last:code", "DCGM_FI_DEV_XID_ERRORS", 1),
]


@pytest.mark.parametrize("file", SCRAPES, ids=lambda file: file.stem)
def test_every_reading_comes_through_in_base_units_and_nothing_else_does(file: Path) -> None:
    readings = scraped(file)
    found = recorded(file)
    for record, field, factor in PLAIN:
        expected = {
            labels["UUID"]: pytest.approx(value * factor)
            for labels, value in readings
            if labels["__name__"] == field
        }
        assert by_gpu(found[record]) == expected, record
    gpus = {labels["UUID"] for labels, _ in readings}
    assert {dict(labels)["UUID"] for labels in found["trilens:gpu:info"]} == gpus
    # In no capture are these told: their series must be missing, not 0.
    for record in (
        "trilens:gpu_throttled:bool",
        "trilens:gpu_violation:seconds_total",
        "trilens:ecc_double_bit:total",
    ):
        assert found[record] == {}


@pytest.mark.parametrize("file", SCRAPES, ids=lambda file: file.stem)
def test_series_carry_the_identity_of_their_gpu(file: Path) -> None:
    said = {labels["UUID"]: labels for labels, _ in scraped(file)}
    for labels in recorded(file)["trilens:gpu_utilization:ratio"]:
        named = dict(labels)
        for name in ("Hostname", "modelName", "gpu"):
            assert named[name] == said[named["UUID"]][name]
        assert "workload" not in named


def test_total_memory_is_the_cards_memory() -> None:
    found = recorded(CORPUS / "v1.35_ericsson-ccd.prom")
    ((uuid, total),) = by_gpu(found["trilens:gpu_memory_total:bytes"]).items()
    assert total == (9791 + 5120 + 447) * 2**20
    assert by_gpu(found["trilens:gpu_memory_used:ratio"]) == {uuid: pytest.approx(5120 / 15358)}


def test_total_memory_is_unknown_where_reserved_memory_is() -> None:
    found = recorded(CORPUS / "v1.35_viettel-ai-platform.prom")
    assert found["trilens:gpu_memory_free:bytes"]
    assert found["trilens:gpu_memory_total:bytes"] == {}
    assert found["trilens:gpu_memory_used:ratio"] == {}


def test_a_memory_without_a_sensor_has_no_temperature() -> None:
    """All captured cards answer 0 there."""
    for file in SCRAPES:
        assert recorded(file)["trilens:gpu_memory_temperature:celsius"] == {}, file.stem


def test_pods_of_dcgm_lead_to_their_workload() -> None:
    pod = "vllm-agg-0-vllmdecodeworker-s65j5"
    info = {
        "__name__": "trilens_workload_pod_info",
        "cluster": "east",
        "namespace": "dynamo-workload",
        "pod": pod,
        "node": "gpu-node-1",
        "workload": "vllm-agg",
        "kind": "DynamoGraphDeployment",
        "attempt": "0",
        "team": "search",
    }
    found = recorded(CORPUS / "h100x8_eks_aicr.prom", [info])["trilens:gpu_power:watts"]
    assert len(found) == 8
    held = [dict(labels) for labels in found if dict(labels).get("workload")]
    assert held
    for labels in held:
        assert labels["pod"] == pod
        assert labels["cluster"] == "east"
        assert labels["team"] == "search"
        assert labels["kind"] == "DynamoGraphDeployment"
