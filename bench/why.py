"""A case of many ranks: gathered from the store, written as a bundle, read back, and the verdict on it.

One rank has left; the others wait for it, and say so in their logs, notes and stacks.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from trilens.diagnose.bundle import read_bundle, write_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseTarget, LogKind, LogText
from trilens.diagnose.masked_names import masked_names
from trilens.diagnose.walk import why
from trilens.model.kubernetes import KubeObject
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.run import (
    ArtifactRecord,
    Ending,
    NoteRecord,
    RankProcess,
    RunFacts,
    RunId,
    StepRecord,
    WriterId,
)
from trilens.model.run_commit import RunCommit
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.serve.cases.records import CaseRecords
from trilens.serve.cases.run_records import CaseRuns
from trilens.serve.cases.subjects import Subjects
from trilens.serve.cases.without_secrets import without_secrets
from trilens.serve.storage import open_store
from trilens.settings.load import load_settings
from trilens.store.workloads import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from trilens.store.store import Store

_T = TypeVar("_T")

_PER_POD = 8
_STEPS = 500
_LINES = 500  # of a rank's log
_GONE = 5  # the rank that left
_RUN = RunId("bench-why")
_JOB = WorkloadKey("lab", "ml", "batch", "Job", "train", "u-job")
_HOUR_MS = 3_600_000


class WhyResult(NamedTuple):
    ranks: int
    gathered_s: float
    cleaned_s: float
    written_s: float
    masked_s: float
    megabytes: float
    read_s: float
    walked_s: float
    causes: tuple[str, ...]

    @property
    def verdict_s(self) -> float:
        return self.read_s + self.walked_s


def run(out: Path, *, ranks: int) -> WhyResult:
    now_ms = time.time_ns() // 1_000_000
    settings = load_settings(overrides={"storage.data_dir": str(out / "why")}, environ={})
    store = open_store(settings.storage, upkeep=False)
    try:
        _fill(store, ranks, now_ms)
        store.records_settled(60)
        began = time.perf_counter()
        case = _gathered(store, now_ms)
        gathered_s = time.perf_counter() - began
    finally:
        store.close()
    case = replace(
        case,
        objects=tuple(_objects(ranks, now_ms)),
        logs=tuple(_logs(ranks, now_ms)),
        targets=tuple(_targets(ranks, now_ms)),
    )
    file = out / "case.zip"
    cleaned, cleaned_s = _timed(lambda: without_secrets(case))
    _, written_s = _timed(lambda: write_bundle(cleaned, file))
    _, masked_s = _timed(lambda: masked_names(cleaned))
    read, read_s = _timed(lambda: read_bundle(file))
    verdicts, walked_s = _timed(lambda: why(Case(read)))
    return WhyResult(
        ranks,
        gathered_s,
        cleaned_s,
        written_s,
        masked_s,
        file.stat().st_size / 1e6,
        read_s,
        walked_s,
        tuple(one.cause for one in verdicts),
    )


def _timed(work: Callable[[], _T]) -> tuple[_T, float]:
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def _gathered(store: Store, now_ms: int) -> CaseFile:
    span = Span(now_ms - _HOUR_MS, now_ms)
    meant = Subjects(store.workloads, store.gpus, list).find("train", None, now_ms, None)
    known = CaseRecords(store.workloads, store.gpus, store.events, store.findings).read(meant, span, None)
    runs = CaseRuns(store.runs, store.workloads).read(meant, known, span, None)
    return CaseFile(
        meant.subject,
        span.start_ms,
        span.end_ms,
        "bench",
        workloads=known.workloads,
        members=known.members,
        phases=known.phases,
        gpus=known.gpus,
        runs=runs.runs,
        ranks=runs.ranks,
        steps=runs.steps,
        notes=runs.notes,
        artifacts=runs.artifacts,
    )


def _pod(number: int) -> PodKey:
    return PodKey("lab", "ml", f"train-{number}", f"u-{number}")


def _fill(store: Store, ranks: int, now_ms: int) -> None:
    begin_ms = now_ms - _HOUR_MS // 2
    store.workloads.workload(Workload(_JOB, begin_ms, team="vision"))
    store.workloads.phase(PhaseInterval(_JOB, 0, Phase.RUNNING, "", begin_ms))
    for number in range(-(-ranks // _PER_POD)):
        place = Membership(_pod(number), _JOB, node_rank=number)
        store.workloads.membership(MembershipInterval(place, f"gpu-{number}", begin_ms))
    last_ms = now_ms - 60_000
    facts = RunFacts(_RUN, begin_ms, "bench", "train", {"lr": 0.1}, world_size=ranks)
    processes, notes, artifacts = [], [], []
    for rank in range(ranks):
        is_gone = rank == _GONE
        pod = _pod(rank // _PER_POD)
        processes.append(
            RankProcess(
                _RUN,
                rank,
                WriterId(f"{rank:032x}"),
                begin_ms,
                world_size=ranks,
                node=f"gpu-{rank // _PER_POD}",
                namespace=pod.namespace,
                pod=pod.name,
                pod_uid=pod.uid,
                heard_ms=last_ms if is_gone else now_ms,
                step=_STEPS - 1,
                phase=None if is_gone else "grad_sync",
                ended_ms=last_ms if is_gone else None,
                ending=Ending.FAILED if is_gone else None,
                error="RuntimeError: CUDA error: out of memory" if is_gone else None,
            )
        )
        if not is_gone:
            notes.append(NoteRecord(_RUN, rank, 0, 0, now_ms - 20_000, "stalled", "no step for 40 s", _STEPS))
            stack = "\n".join(f'  File "train.py", line {line}, in all_reduce' for line in range(60))
            artifacts.append(
                ArtifactRecord(_RUN, rank, 0, 0, now_ms - 20_000, "stacks", "stacks", stack.encode())
            )
    store.runs.commit(RunCommit(facts=[facts], processes=processes, notes=notes, artifacts=artifacts))
    for first in range(0, ranks, 64):
        steps = [
            StepRecord(
                _RUN,
                step,
                rank,
                0,
                step,
                (last_ms - (_STEPS - step) * 1000) * 1000,
                900_000,
                {"data": 20_000, "grad_sync": 90_000},
                values={"loss": 2.0 - step / 1000, "grad_norm": 1.0},
            )
            for rank in range(first, min(first + 64, ranks))
            for step in range(_STEPS)
        ]
        store.runs.commit(RunCommit(steps=steps))


def _objects(ranks: int, now_ms: int) -> Iterator[KubeObject]:
    for number in range(-(-ranks // _PER_POD)):
        key, node = _pod(number), f"gpu-{number}"
        container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(_PER_POD)}}}
        body = {"spec": {"nodeName": node, "containers": [container]}, "status": {"phase": "Running"}}
        yield KubeObject(
            "lab", "", "v1", "Pod", key.namespace, key.name, key.uid, "1", now_ms, None, {}, {}, (), body
        )
        amounts = {"nvidia.com/gpu": str(_PER_POD)}
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        yield KubeObject(
            "lab", "", "v1", "Node", "", node, f"u-{node}", "1", now_ms, None, {}, {}, (), status
        )


def _targets(ranks: int, now_ms: int) -> Iterator[CaseTarget]:
    """An exporter on each node, and each program; the one that left answers no more."""
    for number in range(-(-ranks // _PER_POD)):
        node = f"gpu-{number}"
        yield CaseTarget("dcgm", f"{node}:9400", {"node": node}, True, scraped_ms=now_ms)
    for rank in range(ranks):
        pod, is_up = _pod(rank // _PER_POD), rank != _GONE
        labels = {"namespace": pod.namespace, "pod": pod.name, "node": f"gpu-{rank // _PER_POD}"}
        error = "" if is_up else "connection refused"
        yield CaseTarget("programs", f"{pod.name}:{9000 + rank}", labels, is_up, error, now_ms)


def _logs(ranks: int, now_ms: int) -> Iterator[LogText]:
    for rank in range(ranks):
        host = f"gpu-{rank // _PER_POD}"
        prefix = f"{host}:{4000 + rank}:{9000 + rank} [{rank % _PER_POD}] NCCL INFO"
        route = f"{rank}[{rank}] -> {(rank + 1) % ranks}[0] via P2P/IPC"
        lines = [f"{prefix} Channel {line:02}/0 : {route}" for line in range(_LINES)]
        if rank == _GONE:
            lines += [
                "Traceback (most recent call last):",
                '  File "train.py", line 88, in step',
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            ]
        else:
            lines.append(
                f"[rank{rank}]:[E1115 10:00:03.100 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
                "collective operation timeout: WorkNCCL(SeqNum=900, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
                "Timeout(ms)=600000) ran for 600011 milliseconds before timing out."
            )
        pod = _pod(rank // _PER_POD)
        yield LogText(LogKind.CONTAINER, f"rank-{rank}", tuple(lines), host, pod, rank, is_cut=True)
