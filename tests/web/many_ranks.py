"""A job of 4,096 ranks, one of them slow, as a server finds it on its disk."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING

from run_records import position, process
from run_records import step as step_record
from trilens.model.gpu import BindingInterval, ClaimSource, GpuBinding, GpuKey
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.run import RunFacts, RunId
from trilens.model.run_commit import RunCommit
from trilens.model.run_sums import AttemptSpan
from trilens.model.workload import GpuUuid, Membership, PodKey, Workload, WorkloadKey
from trilens.serve.storage import open_store
from trilens.settings.storage import StorageSettings

if TYPE_CHECKING:
    from pathlib import Path

RANKS = 4096
SLOW = 1717
PATH = "/workloads/lab/ml/PyTorchJob/giant"
_KEY = WorkloadKey("lab", "ml", "kubeflow.org", "PyTorchJob", "giant", "u-giant")
_RUN = RunId("giant-run")
_IN_A_POD = 8
_STEPS = 24
_STEP_MS = 60_000


def own_us(rank: int) -> int:
    """The others wait for the slow one."""
    return 6_000_000 if rank == SLOW else 4_000_000


def span_of(rank: int, begin_us: int, end_us: int) -> AttemptSpan:
    return AttemptSpan(rank, 0, 0, _STEPS - 1, _STEPS, None, None, begin_us, end_us, 0, _STEPS - 1)


def write_many_ranks(folder: Path) -> None:
    """Into the data directory of a server that is not started yet."""
    store = open_store(StorageSettings.model_validate({"data_dir": folder}), upkeep=False)
    begin_ms = round(time.time() * 1000) - (_STEPS + 2) * _STEP_MS
    try:
        store.workloads.workload(Workload(_KEY, begin_ms, 1, "vision"))
        store.workloads.phase(PhaseInterval(_KEY, 0, Phase.RUNNING, "", begin_ms))
        commit = RunCommit(facts=[RunFacts(_RUN, begin_ms, world_size=RANKS, total_steps=1000)])
        for number in range(RANKS // _IN_A_POD):
            pod = PodKey("lab", "ml", f"giant-{number}", f"uid-{number}")
            place = Membership(pod, _KEY, 0, "worker", None, number)
            store.workloads.membership(MembershipInterval(place, f"node-{number}", begin_ms))
            for rank in range(number * _IN_A_POD, (number + 1) * _IN_A_POD):
                gpu = GpuUuid(f"GPU-{rank}")
                held = GpuBinding(GpuKey(gpu), pod, "main", Fraction(1), (ClaimSource.KUBELET,), rank)
                store.gpus.binding(BindingInterval(held, begin_ms, None))
                commit.processes.append(
                    process(
                        rank, run=_RUN, started_ms=begin_ms, node=f"node-{number}", namespace="ml",
                        pod=pod.name, pod_uid=pod.uid, gpus=(gpu,), heard_ms=begin_ms + _STEPS * _STEP_MS,
                    )
                )  # fmt: skip
        commit.steps.extend(
            step_record(
                number,
                rank,
                run=_RUN,
                start_us=(begin_ms + number * _STEP_MS) * 1000 + rank,
                duration_us=9_000_000,
                phases={"forward": own_us(rank), "grad_sync": 9_000_000 - own_us(rank)},
                values={"loss": 10 / (1 + number)},
            )
            for number in range(_STEPS)
            for rank in range(RANKS)
        )
        begin_us, end_us = begin_ms * 1000, (begin_ms + _STEPS * _STEP_MS) * 1000
        commit.positions.extend(
            position(0, span_of(rank, begin_us, end_us), rank=rank, run=_RUN) for rank in range(RANKS)
        )
        store.runs.commit(commit)
        store.records_settled(60)
    finally:
        store.close()
