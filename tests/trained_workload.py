"""A workload of eight ranks that trained for half an hour, with a slow rank, a restart and a fault, and a
server that tells of it."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from ledger_nights import hour, row
from memory_api import Api, running
from memory_book import MemoryBook
from run_records import process
from run_records import step as step_record
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.gpu import BindingInterval, ClaimSource, GpuBinding, GpuKey
from trilens.model.labels import make_labels
from trilens.model.ledger import HOUR_MS, Bucket, Holder
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.run import RunFacts, RunId
from trilens.model.run_commit import RunCommit
from trilens.model.workload import GpuUuid, Membership, PodKey, Workload, WorkloadKey
from trilens.serve.app import build_app
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.rank_heat import RankHeatApi
from trilens.serve.pages.timeline import TimelineApi, TimelineSources
from trilens.serve.pages.timeline_subject import Subjects
from trilens.serve.storage import open_store
from trilens.settings.storage import StorageSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.store.store import Store

NOON_MS = 1_768_392_000_000  # 2026-01-14T12:00:00Z
KEY = WorkloadKey("lab", "ml", "kubeflow.org", "PyTorchJob", "train", "u1")
RUN = RunId("train-run")
PATH = "/api/workloads/lab/ml/PyTorchJob/train"
RANKS = 8
SLOW = 5
STEP_S = 10
SLOW_FROM = 60  # the step from which one rank needs half as long again
RESTARTED_AT = 120  # steps; it comes back two minutes later, on other nodes
STEPS = 168
SUMMED_WATTS = {"mean": 603.25, "least": 600.25, "most": 607.25}  # told apart from what each GPU says


def minute(minutes: float) -> int:
    return NOON_MS + round(minutes * 60_000)


NOW_MS = minute(30)


def gpu_of(rank: int, attempt: int) -> GpuUuid:
    return GpuUuid(f"GPU-{attempt}-{rank}")


@contextmanager
def trained(folder: Path, *, findings: Any = None) -> Iterator[str]:
    """The address of a server that knows of it."""
    store = open_store(StorageSettings.model_validate({"data_dir": folder}), upkeep=False)
    try:
        _tell(store)
        store.records_settled(10)
        api = Api(now_ms=lambda: NOW_MS)
        subjects = Subjects(store.workloads, store.runs, store.step_grids)
        found = findings if findings is not None else Found()
        sources = TimelineSources(
            subjects, store.gpus, store.events, found, store.incidents, _book(), EmbeddedQueries(store)
        )
        pages = PageApis((TimelineApi(sources, api.questions), RankHeatApi(subjects, api.questions)))
        with running(build_app(replace(api.parts(), pages=pages))) as url:
            yield url
    finally:
        store.close()


class Found:
    """One straggler, and something about another workload."""

    def during(self, _from_ms: int, _to_ms: int, **_how: Any) -> list[FindingInterval]:
        return [_finding(KEY, "rank 5 is slow"), _finding(KEY._replace(uid="u2"), "not ours")]


def _finding(key: WorkloadKey, text: str) -> FindingInterval:
    subject = Subject(workload=key, rank=SLOW)
    finding = Finding("D003", FindingKind.STRAGGLER, subject, Severity.WARNING, "", minute(10), text, "look")
    return FindingInterval(finding, minute(11), minute(20), minute(20))


def _tell(store: Store) -> None:
    store.workloads.workload(Workload(KEY, minute(0), 1, "vision"))
    for attempt, begin, end in ((0, 0.0, 20.0), (1, 21.0, None)):
        for pod in range(2):
            _tell_pod(store, pod, attempt, minute(begin), None if end is None else minute(end))
    for phase, attempt, begin, end in (
        (Phase.RUNNING, 0, 0.0, 20.0),
        (Phase.RESTARTING, 0, 20.0, 21.0),
        (Phase.RUNNING, 1, 21.0, None),
    ):
        store.workloads.phase(
            PhaseInterval(KEY, attempt, phase, "", minute(begin), None if end is None else minute(end))
        )
    victim = Victim("ml", "train-0", "uid-0-0")
    for n, whom in enumerate((victim, victim, Victim("ml", "other", "uid-other"))):
        store.events.event(_fault(n, whom))
    store.runs.commit(_records())
    _tell_samples(store)


def _tell_pod(store: Store, pod: int, attempt: int, from_ms: int, to_ms: int | None) -> None:
    key = PodKey("lab", "ml", f"train-{pod}", f"uid-{pod}-{attempt}")
    place = Membership(key, KEY, attempt, "worker", None, pod)
    store.workloads.membership(MembershipInterval(place, _node(pod, attempt), from_ms, to_ms))
    for rank in range(4 * pod, 4 * pod + 4):
        held = GpuBinding(
            GpuKey(gpu_of(rank, attempt)), key, "main", Fraction(1), (ClaimSource.KUBELET,), rank
        )
        store.gpus.binding(BindingInterval(held, from_ms, to_ms))


def _node(pod: int, attempt: int) -> str:
    return f"node-{attempt}-{pod}"


def _fault(n: int, victim: Victim) -> EventRecord:
    return EventRecord(
        "node-0-0", f"line-{n}", minute(19) + n, EventKind.XID, 79, "NVRM: Xid 79", "fell off the bus",
        None, None, 3, None, None, None, 3, (victim,),
    )  # fmt: skip


def _records() -> RunCommit:
    commit = RunCommit(facts=[RunFacts(RUN, minute(0), world_size=RANKS, total_steps=1000)])
    for attempt in range(2):
        for rank in range(RANKS):
            pod = rank // 4
            commit.processes.append(
                process(
                    rank,
                    attempt,
                    run=RUN,
                    started_ms=minute(21 * attempt),
                    node=_node(pod, attempt),
                    namespace="ml",
                    pod=f"train-{pod}",
                    pod_uid=f"uid-{pod}-{attempt}",
                    gpus=(gpu_of(rank, attempt),),
                    heard_ms=NOW_MS - 5_000,
                )
            )
    for number in range(STEPS):
        attempt = int(number >= RESTARTED_AT)
        begins_ms = NOON_MS + number * STEP_S * 1000 + attempt * 120_000
        for rank in range(RANKS):
            own_us = 6_000_000 if rank == SLOW and SLOW_FROM <= number < RESTARTED_AT else 4_000_000
            commit.steps.append(
                step_record(
                    number,
                    rank,
                    attempt,
                    run=RUN,
                    start_us=begins_ms * 1000 + rank,
                    duration_us=9_000_000,
                    phases={"forward": own_us, "grad_sync": 9_000_000 - own_us},
                    samples=16,
                    values={"loss": math.nan if number == 30 else 10 / (1 + number), "train/lr": 0.5},
                )
            )
    return commit


def _tell_samples(store: Store) -> None:
    """Recorded for the second life; of the first there is only what dcgm-exporter said."""
    labels = {"cluster": "lab", "namespace": "ml", "kind": "PyTorchJob", "workload": "train"}
    for rank in range(RANKS):
        raw = {"UUID": gpu_of(rank, 0), "Hostname": "node", "__name__": "DCGM_FI_DEV_POWER_USAGE"}
        _append(store, raw, 0, 20, 300.0 + rank)
        recorded = {**labels, "UUID": gpu_of(rank, 1), "__name__": "trilens:gpu_power:watts"}
        _append(store, recorded, 21, 30, 600.0 + rank)
    for over, watts in SUMMED_WATTS.items():
        summed = {**labels, "over": over, "__name__": "trilens:workload_gpu_power:watts"}
        _append(store, summed, 21, 30, watts)
    _append(store, {**labels, "__name__": "trilens:workload_gpus:count"}, 21, 30, RANKS)
    _append(store, {"UUID": "GPU-other", "__name__": "DCGM_FI_DEV_POWER_USAGE"}, 0, 30, 1.0)


def _append(store: Store, labels: dict[str, str], begin: int, end: int, value: float) -> None:
    t_ms = np.arange(minute(begin), minute(end), 30_000, dtype=np.int64)
    series = np.full(len(t_ms), store.series(make_labels(labels)), np.int64)
    store.append(series, t_ms, np.full(len(t_ms), value))


def _book() -> MemoryBook:
    """Six dollars in half an hour, of which a third was of no use; and somebody else's."""
    ours, other = Holder(workload=KEY), Holder(workload=KEY._replace(uid="u2"))
    return MemoryBook(
        hour(
            minute(0),
            row(minute(0), ours, Bucket.PRODUCTIVE, ms=HOUR_MS),
            row(minute(0), ours, Bucket.STALLED, ms=HOUR_MS // 2),
            row(minute(0), other, Bucket.PRODUCTIVE, ms=HOUR_MS),
            upto_ms=NOW_MS,
        )
    )
