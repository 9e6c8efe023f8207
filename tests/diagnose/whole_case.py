"""A case that has something in every section."""

from __future__ import annotations

from trilens.diagnose.case_file import (
    CaseFile,
    CaseSeries,
    CaseSubject,
    GpuSeat,
    LogKind,
    LogText,
    RankSteps,
    SubjectKind,
)
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.kubernetes import GroupKind, KubeObject, OwnerRef
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.run import ArtifactRecord, NoteRecord, RankProcess, RunFacts, RunId, WriterId
from trilens.model.verdict import Missing
from trilens.model.workload import GpuUuid, Membership, PodKey, Workload, WorkloadKey

JOB = WorkloadKey("c", "ml", "batch", "Job", "train", "u-1")
POD = PodKey("c", "ml", "train-0", "u-2")
RUN = RunId("r-1")
OWNER = OwnerRef("batch", "Job", "train", "u-1", controller=True)
BODY = {"spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
CASE = CaseFile(
    CaseSubject(SubjectKind.WORKLOAD, "c", "ml", "train"),
    1_000,
    2_000,
    "0.5.0",
    workloads=(Workload(JOB, 900, team="vision"),),
    members=(MembershipInterval(Membership(POD, JOB), "n1", 950),),
    phases=(PhaseInterval(JOB, 0, Phase.RUNNING, "", 960),),
    objects=(
        KubeObject("c", "", "v1", "Pod", "ml", "train-0", "u-2", "7", 940, None, {"a": "b"}, {}, (OWNER,),
                   BODY),
    ),
    kinds=(GroupKind("apps", "DaemonSet"),),
    events=(
        EventRecord(
            "n1", "e", 1_500, EventKind.XID, 79, "fell off", "t", "node-out", GpuUuid("GPU-1"), 0,
            None, 7, "py", 0, (Victim("ml", "train-0", "u-2"),),
        ),
    ),
    findings=(
        FindingInterval(
            Finding(
                "D002", FindingKind.HANG, Subject(workload=JOB, rank=3), Severity.CRITICAL, "odd-rank", 1_400,
                "hangs", "look", 0.9, figures={"ranks": 8.0},
            ),
            1_410,
            1_990,
        ),
    ),
    gpus=(GpuSeat(GpuUuid("GPU-1"), "n1", "0", "H200", POD, 0),),
    series={"gpu-power": (CaseSeries({"UUID": "GPU-1"}, (1_000, 1_015), (700.0, float("inf"))),)},
    runs=(RunFacts(RUN, 950, config={"lr": 0.1}),),
    ranks=(RankProcess(RUN, 0, WriterId("w"), 955, gpus=("GPU-1",)),),
    steps=(RankSteps(0, 0, (1, 2), (1_100, 1_200), (90.0, 91.5), (1.0, None), (None, 2.0),
                     (3.5, None), (None, None)),),
    notes=(NoteRecord(RUN, 0, 0, 1, 1_300, "barrier", "rank 3 is missing", 2, {"missing": [3]}),),
    artifacts=(ArtifactRecord(RUN, 0, 0, 1, 1_310, "flight-recorder", "dump", b"\x80\x02}."),),
    logs=(LogText(LogKind.CONTAINER, "main", ("one", "zwei ü", ""), "n1", POD, 0, is_cut=True),),
    missing=(Missing("nodes", "let them be read"),),
)  # fmt: skip
