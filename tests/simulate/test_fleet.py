"""The simulated fleet looks like the real thing, repeats itself exactly, and agrees with itself."""

from __future__ import annotations

import re
import urllib.request

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from servers import require_corpus
from trilens.simulate.dcgm import FAMILIES
from trilens.simulate.fleet import Fleet
from trilens.simulate.targets import FleetTargets

NOW = 1_794_709_265.0


def read(text: bytes) -> dict[tuple[str, str, str], float]:
    """(metric, host, gpu) -> value"""
    return {
        (s.name, s.labels["Hostname"], s.labels["gpu"]): s.value
        for family in text_string_to_metric_families(text.decode())
        for s in family.samples
    }


def test_the_same_seed_says_the_same_and_another_does_not() -> None:
    assert Fleet(2, seed=7).exposition(1, NOW) == Fleet(2, seed=7).exposition(1, NOW)
    assert Fleet(2, seed=7).exposition(1, NOW) != Fleet(2, seed=8).exposition(1, NOW)
    assert Fleet(2, seed=7).exposition(1, NOW) != Fleet(2, seed=7).exposition(1, NOW + 15)


def test_labels_and_values_of_the_exposition_are_those_of_history() -> None:
    fleet = Fleet(3, 8, seed=3)
    shown = {}
    for node in range(3):
        for family in text_string_to_metric_families(fleet.exposition(node, NOW).decode()):
            for sample in family.samples:
                shown[tuple(sorted({**sample.labels, "__name__": sample.name}.items()))] = sample.value
    (piece,) = fleet.history(NOW, NOW + 15, 15)
    assert piece.t_ms.tolist() == [NOW * 1000]
    past = dict(zip(fleet.series(), piece.values[:, 0].tolist(), strict=True))
    # prometheus_client appends _total to a counter's name; DCGM's counters carry none.
    renamed = {
        tuple((n, v.removesuffix("_total") if n == "__name__" else v) for n, v in labels): value
        for labels, value in shown.items()
    }
    assert len(past) == 3 * fleet.series_per_node
    assert renamed == pytest.approx(past)


def test_several_nodes_make_one_text_with_each_family_once() -> None:
    fleet = Fleet(4)
    text = fleet.exposition(range(4), NOW)
    assert text.count(b"# TYPE") == len(FAMILIES)
    one_by_one = {}
    for node in range(4):
        one_by_one.update(read(fleet.exposition(node, NOW)))
    assert read(text) == one_by_one


def test_the_stories_in_the_fleet() -> None:
    fleet = Fleet(3)
    values = read(fleet.exposition(range(3), NOW))

    def of(metric: str, node: int, gpu: int) -> float:
        return values[(metric, fleet.hostname(node), str(gpu))]

    # A hung job: fully used, but little above idle power and without any tensor work.
    assert of("DCGM_FI_DEV_GPU_UTIL", 2, 0) == 100
    assert of("DCGM_FI_DEV_POWER_USAGE", 2, 0) < 150
    assert of("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 2, 0) == 0
    # A hot GPU in a training job: thermal slowdown, lower clocks.
    assert int(of("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 1, 3)) & 0x40
    assert of("DCGM_FI_DEV_SM_CLOCK", 1, 3) < of("DCGM_FI_DEV_SM_CLOCK", 1, 2)
    assert of("DCGM_FI_DEV_GPU_TEMP", 1, 3) >= 80
    # Nobody's GPU.
    assert of("DCGM_FI_DEV_GPU_UTIL", 2, 7) == 0
    total = sum(of(f"DCGM_FI_DEV_FB_{part}", 0, 0) for part in ("FREE", "USED", "RESERVED"))
    assert total == pytest.approx(81_559, abs=2)


def test_counters_only_rise_and_energy_is_the_integral_of_power() -> None:
    fleet = Fleet(3)
    (piece,) = fleet.history(NOW, NOW + 7200, 15)
    rows = {name: [] for name in (f.name for f in FAMILIES)}
    for i, labels in enumerate(fleet.series()):
        rows[dict(labels)["__name__"]].append(i)
    for family in FAMILIES:
        if family.kind == "counter":
            assert (np.diff(piece.values[rows[family.name]], axis=1) >= 0).all(), family.name
    energy = piece.values[rows["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"]]
    watts = piece.values[rows["DCGM_FI_DEV_POWER_USAGE"]].mean(axis=1)
    assert (energy[:, -1] - energy[:, 0]) / 1000 / (7200 - 15) == pytest.approx(watts, rel=0.01)


def test_targets_serve_over_http() -> None:
    fleet = Fleet(3)
    with FleetTargets(fleet, nodes_per_target=2, clock=lambda: NOW) as targets:
        assert len(targets.addresses) == 2
        with urllib.request.urlopen(f"http://{targets.addresses[0]}/metrics", timeout=5) as answer:
            assert answer.read() == fleet.exposition(range(2), NOW)


def test_families_and_labels_are_real_ones() -> None:
    """Every label, and every family a capture could hold, is spelled as in a capture of a real exporter."""
    dcgm = require_corpus("dcgm")
    captured = (dcgm / "h100x8_eks_aicr.prom").read_text(encoding="utf-8")
    known = "".join(file.read_text(encoding="utf-8") for file in dcgm.iterdir())
    ours = Fleet(1).exposition(0, NOW).decode()
    names = set(re.findall(r'[{,](\w+)="', ours))
    assert names <= set(re.findall(r'[{,](\w+)="', captured))
    unknown = [f.name for f in FAMILIES if f.name not in known and "CLOCKS_EVENT" not in f.name]
    assert unknown == []
