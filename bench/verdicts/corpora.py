"""Corpora that others wrote, with what they say of each case: PyTorch's own dumps, messages of schedulers,
lines of kernels."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.verdicts.gloo import of_flight
from bench.verdicts.labelled import Case, Label, Said
from bench.verdicts.simulated import asked
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.diagnose.case_file import CaseFile, CaseSubject, SubjectKind
from trilens.diagnose.flight.cause import judge_dumps
from trilens.diagnose.flight.flight_verdict import Reason
from trilens.diagnose.flight.operations import match
from trilens.diagnose.flight.reading import DumpSource, read_dumps
from trilens.diagnose.xid.kernel_log import KernelText
from trilens.diagnose.xid.report import judge_kernel_logs
from trilens.diagnose.xid.vendors import followed
from trilens.model.flight_recorder import Collective, read_flight_recorder
from trilens.model.kubernetes import GroupKind
from trilens.model.life import MembershipInterval
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.model.xid import XIDS, Asks
from trilens.serve.cases.kinds import CASE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BESIDE: Final = Path(__file__).resolve().parents[3] / "shared" / "corpora"
CORPORA: Final = Path(os.environ.get("TRILENS_CORPORA") or _BESIDE)
_NOW_MS: Final = 1_793_700_000_000
_AT: Final = "2026-11-03T09:58:00Z"

# What PyTorch's analyser says of its six examples, in our words.
FLIGHT_VERDICTS: Final = {
    1: (Reason.NOTHING_PENDING, ()),
    2: (Reason.NOTHING_PENDING, ()),
    3: (Reason.NOTHING_PENDING, ()),
    4: (Reason.MISMATCHED_SHAPE, (0, 1)),  # of two ranks, none is the odd one
    5: (Reason.NOTHING_PENDING, ()),
    6: (Reason.NEVER_ENTERED, (0,)),
}
# The corpus' words for what is in the way, and the ends that say the same. With messages alone nobody knows
# what nodes have: who takes the GPUs, or whether there is room behind a taint, is told as less sure.
_PENDING: Final[Mapping[str, Mapping[str, str]]] = {
    "insufficient_gpu": {"gpus-all-taken": "too few GPUs are free"},
    "insufficient_gpu+taint": {"gpus-all-taken": "the taint is the control plane's: the GPU nodes are full"},
    "taint": {"untolerated-taint": "nothing but the taint is in the way"},
    "vgpu_unfit+node_unreachable": {"vgpu-unfit": "no GPU has the share that it asks for"},
    "gang_not_ready": {
        "gang-members-missing": "its gang is not ready",
        "gang-no-room": "its gang is whole, and has no room",
    },
    "quota": {"kueue-quota": "too little quota is left"},
    "quota_pending_preemption": {"kueue-preempting": "it takes the place of others"},
    "autoscaler_no_fit": {"autoscaler-no-fit": "no node that it could bring would fit"},
}
# What NVIDIA asks for at once, in our classes.
NVIDIA_ASKS: Final = {
    "RESTART_APP": Asks.APPLICATION,
    "RESET_GPU": Asks.GPU_RESET,
    "RESTART_BM": Asks.NODE_OUT,
    "RESTART_VM": Asks.NODE_OUT,
    "CHECK_MECHANICALS": Asks.NODE_OUT,
    "IGNORE": Asks.NOTHING,
}


def flights() -> Iterator[Case]:
    group = "corpus: flight recorder"
    folder = CORPORA / "flight-recorder" / "cases"
    for number, (reason, culprits) in FLIGHT_VERDICTS.items():
        (file,) = folder.glob(f"e2e_{number}_*.json")
        parts = sorted(file.with_suffix("").iterdir())
        verdict = judge_dumps(read_dumps(DumpSource(one.name, one.read_bytes()) for one in parts))
        yield Case(group, file.stem, Label({reason: "as PyTorch states it"}, culprits), [of_flight(verdict)])
    for pair in json.loads((CORPORA / "flight-recorder" / "match_one_event_cases.json").read_text()):
        found = match(_event(pair["event_a"]), _event(pair["event_b"]), len(pair["membership"]["0"]))
        label = Label({pair["expected_match_state"]: "as PyTorch states it"})
        yield Case(f"{group}, pairs", pair["case"], label, [Said(found.state, 1.0, found.state)])


def _event(told: Mapping[str, Any]) -> Collective:
    dump = {"version": "2.8", "entries": [{"record_id": 0, **told}]}
    return read_flight_recorder(json.dumps(dump).encode()).entries[0]


def scheduling() -> Iterator[Case]:
    for line in (CORPORA / "scheduling" / "messages.jsonl").read_text().splitlines():
        told = json.loads(line)
        cause, reporter = told["cause"].split(" ")[0], told["reporter"]
        named = f"{told['source']}, {reporter}"
        yield Case("corpus: scheduling", named, Label(_PENDING[cause]), asked(_waiting(told)))


def _waiting(told: Mapping[str, Any]) -> CaseFile:
    """A job of one pod of which nothing is known but that message."""
    job = WorkloadKey("lab", "ml", "batch", "Job", "train", "job-train")
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": job.uid, "controller": True}
    if told["reporter"].startswith("kueue"):
        held = {"type": "QuotaReserved", "status": "False", "reason": "Pending"}
        held |= {"message": told["message"], "lastTransitionTime": _AT}
        queued = _object("kueue.x-k8s.io/v1beta1", "Workload", "job-train", owner)
        queued |= {"spec": {"queueName": "team-a", "active": True}, "status": {"conditions": [held]}}
        return _case(job, [_object("batch/v1", "Job", "train", spec={"suspend": True}), queued], [])
    pod = PodKey("lab", "ml", "train-0", "pod-train-0")
    container = {"name": "main", "image": "train:7", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    bodies = [
        _object("batch/v1", "Job", "train", spec={"parallelism": 1}),
        _object("v1", "Pod", pod.name, owner, spec={"containers": [container]}, status={"phase": "Pending"}),
        _object(
            "v1", "Event", "said",
            involvedObject={"kind": "Pod", "namespace": "ml", "name": pod.name, "uid": pod.uid},
            reason=told.get("reason") or "FailedScheduling", message=told["message"], type="Warning",
            firstTimestamp=_AT, lastTimestamp=_AT, source={"component": told["reporter"]},
            reportingComponent=told["reporter"],
        ),
    ]  # fmt: skip
    return _case(job, bodies, [MembershipInterval(Membership(pod, job), "", _NOW_MS - 600_000)])


def _object(
    version: str, kind: str, name: str, owner: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "ownerReferences": [owner] if owner is not None else []}
    metadata |= {"uid": f"{kind.lower()}-{name}", "resourceVersion": "1"}
    metadata["creationTimestamp"] = "2026-11-03T09:30:00Z"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _case(job: WorkloadKey, bodies: list[dict[str, Any]], members: list[MembershipInterval]) -> CaseFile:
    kinds = {kind.group_kind: kind for kind in CASE_KINDS}
    reader = ObjectReader(job.cluster)
    objects = []
    for body in bodies:
        group, _, version = body["apiVersion"].rpartition("/")
        objects.append(reader.read(kinds[GroupKind(group, body["kind"])], version, json.dumps(body).encode()))
    return CaseFile(
        CaseSubject(SubjectKind.WORKLOAD, job.cluster, job.namespace, job.name),
        _NOW_MS - 3_600_000,
        _NOW_MS,
        workloads=(Workload(job),),
        members=tuple(members),
        objects=tuple(objects),
    )


def xids() -> Iterator[Case]:
    """Lines of kernels, one at a time: what NVIDIA's catalogue asks for at once; and a whole log."""
    group = "corpus: Xid"
    with (CORPORA / "xid" / "nvidia_xid_catalog_2025-10.csv").open(encoding="utf-8") as stream:
        nvidia = {
            int(row["Code"]): NVIDIA_ASKS.get(row["ImmediateResolution"]) for row in csv.DictReader(stream)
        }
    done = set()
    for line in (CORPORA / "xid" / "xid_sxid_kernel_lines.txt").read_text(encoding="utf-8").splitlines():
        report = judge_kernel_logs([KernelText("kernel.log", [line], "")], _NOW_MS)
        code = report.judged[0].episode.root.fault.code if report.judged else None
        if code is None or code in done or "SXid" in line:
            continue
        done.add(code)
        if code in XIDS and nvidia.get(code) is None:
            continue  # a look, or the driver's own advice, is no answer that could be wrong
        asks = XIDS[code].asks if code in nvidia and followed(code) is not None else nvidia.get(code)
        label = Label({asks or "": "NVIDIA's catalogue"}, may_not_know=code not in XIDS)
        root = report.judged[0].episode
        yield Case(group, line, label, [Said(root.asks, root.confidence, f"Xid {code}")])
    lines = (CORPORA / "xid" / "dmesg-with-xid-119.log").read_text(encoding="utf-8").splitlines()
    report = judge_kernel_logs([KernelText("dmesg", lines, "")], _NOW_MS)
    said = [Said(f"Xid {one.episode.root.fault.code}", one.episode.confidence, "") for one in report.judged]
    yield Case(group, "dmesg-with-xid-119.log", Label({"Xid 119": "the name of the file"}), said)
