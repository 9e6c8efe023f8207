"""GPUs and their holders: written, and read back for any moment."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.workload import Doubt, GpuUuid, PodKey
from trilens.store.gpus import GpuRecords
from trilens.store.record_writer import RecordWriter

if TYPE_CHECKING:
    from trilens.store.engine import Engine

KEY = GpuKey(GpuUuid("GPU-1"), "3")
GPU = Gpu(KEY, "lab", "node-a", "0", "H100", "1g.10gb")
POD = PodKey("lab", "ml", "train-0", "uid-0")
BINDING = GpuBinding(
    KEY,
    POD,
    "main",
    Fraction(1, 7),
    (ClaimSource.PROCESS, ClaimSource.DCGM),
    9,
    1,
    (Doubt("gpu-claims-disagree", "it's \\ odd", None),),
)


class Told:
    """Writes, closes the writer so that all is on disk, and reads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __call__(self, *told: GpuInterval | BindingInterval) -> GpuRecords:
        writer = RecordWriter(self.engine)
        records = GpuRecords(self.engine, writer)
        for one in told:
            if isinstance(one, GpuInterval):
                records.gpu(one)
            else:
                records.binding(one)
        writer.close()
        return records


@pytest.fixture
def told(engine: Engine) -> Told:
    return Told(engine)


def test_everything_comes_back_as_it_was_told(told: Told) -> None:
    held, there = BindingInterval(BINDING, 1_000, None), GpuInterval(GPU, 500, None)
    records = told(held, there)
    assert records.gpus_at(2_000) == [there]
    assert records.bindings_at(2_000) == [held]
    bare = BindingInterval(GpuBinding(KEY, POD, "", None, ()), 3_000, None)
    assert told(bare).bindings_at(3_000) == [held, bare]


def test_a_moment_is_answered_by_what_was_then(told: Told) -> None:
    first = BindingInterval(BINDING, 1_000, 5_000)
    second = BindingInterval(replace(BINDING, pod=POD._replace(uid="uid-1")), 5_000, None)
    there = GpuInterval(GPU, 1_000, 6_000)
    records = told(first, second, there)
    assert records.bindings_at(999) == []
    assert records.bindings_at(4_999) == [first._replace(to_ms=None)]  # its end was still to come
    assert records.bindings_at(5_000) == [second]
    assert records.gpus_at(5_999) == [there._replace(to_ms=None)]
    assert records.gpus_at(6_000) == []
    assert records.gpus_at(1_000, node="node-b") == []
    assert records.bindings_at(5_000, cluster="prod") == []
    assert records.bindings_of([POD], 9_000) == [first]
    assert records.bindings_of([], 9_000) == []
    assert records.gpus_named(["GPU-1"], 9_000) == [there]
    assert records.gpus_named(["GPU-1"], 900) == []


def test_what_lasts_is_found_after_a_restart(told: Told) -> None:
    over = BindingInterval(BINDING, 1_000, 2_000)
    lasting = BindingInterval(replace(BINDING, container="side"), 1_000, None)
    other = replace(GPU, key=GpuKey(GpuUuid("GPU-2")))
    told(over._replace(to_ms=None), GpuInterval(other, 100, 200))
    records = told(over, lasting, GpuInterval(GPU, 100, 900), GpuInterval(GPU, 1_000, None))
    assert records.unfinished() == [lasting]
    assert records.last_of_each(500) == [GpuInterval(GPU, 1_000, None)]
    assert set(records.last_of_each(100)) == {GpuInterval(GPU, 1_000, None), GpuInterval(other, 100, 200)}
    # Where its cluster was learnt, the one that lasts is the one that is meant.
    learnt = replace(GPU, cluster="", node="host")
    (found,) = told(GpuInterval(learnt, 1_000, 1_000)).last_of_each(500)
    assert found.gpu == GPU


def test_more_pods_than_fit_into_one_statement(told: Told) -> None:
    pods = [POD._replace(uid=f"uid-{n}" + "x" * 200) for n in range(5_000)]
    last = BindingInterval(replace(BINDING, pod=pods[-1]), 1_000, None)
    records = told(last, BindingInterval(BINDING, 1_000, None))
    assert records.bindings_of(pods, 9_000) == [last]


def test_which_gpus_a_node_had_in_a_span(told: Told) -> None:
    over = GpuInterval(GPU, 1_000, 2_000)
    there = GpuInterval(replace(GPU, key=GpuKey(GpuUuid("GPU-2"))), 3_000, None)
    elsewhere = GpuInterval(replace(GPU, key=GpuKey(GpuUuid("GPU-3")), node="node-b"), 1_000, None)
    records = told(over, there, elsewhere)
    assert records.gpus_on({"node-a"}, 1_500, 3_000) == [over, there]
    assert records.gpus_on({"node-a"}, 2_000, 2_999) == []
    assert records.gpus_on({"node-a"}, 0, 1_500) == [over._replace(to_ms=None)]
    assert records.gpus_on({"node-b", "node-c"}, 1_500, 3_000) == [elsewhere]
    assert records.gpus_on(set(), 1_500, 3_000) == []


def test_who_held_a_gpu_in_a_span(told: Told) -> None:
    early = BindingInterval(BINDING, 1_000, 2_000)
    late = BindingInterval(replace(BINDING, pod=POD._replace(uid="uid-1")), 3_000, None)
    records = told(early, late)
    assert records.bindings_on(KEY.uuid, 1_500, 3_000) == [early, late]
    assert records.bindings_on(KEY.uuid, 2_000, 2_999) == []
    assert records.bindings_on(KEY.uuid, 0, 1_500) == [early._replace(to_ms=None)]
    assert records.bindings_on("GPU-9", 0, 9_000) == []
