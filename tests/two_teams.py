"""A fleet of two teams, one of which must not see the other: everything that it must not see says CANARY."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ledger_nights import billed, hour, row
from memory_api import Api, Description
from memory_runs import MemoryRuns
from trilens.alert.delivery.outbox import Outbox
from trilens.alert.delivery.silences import Silences
from trilens.alert.evaluation import GroupState, RuleState
from trilens.alert.rule_file import parse_rules
from trilens.collect.target import Health, TargetStatus
from trilens.detect.scene import JobView, Place, Scene, Telemetry
from trilens.detect.watch import Changes
from trilens.model.alert import Alert, AlertState
from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.fix import Deed, Fix, FixState, FixTarget
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.identity import Grant, Identity, Right
from trilens.model.incident import Incident, IncidentState, Moment, MomentKind, Symptom, SymptomKind
from trilens.model.kubernetes import GroupKind, KubeObject
from trilens.model.labels import make_labels
from trilens.model.ledger import HOUR_MS, Bucket, Holder
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.machine import Machine
from trilens.model.run import (
    ArtifactRecord,
    BatchRecord,
    CheckpointRecord,
    NoteRecord,
    RankProcess,
    RunFacts,
    RunId,
    StepRecord,
    Tracker,
    WriterId,
)
from trilens.model.run_commit import RunCommit
from trilens.model.tracked_run import RUN_TAG, TrackedRun
from trilens.model.workload import GpuUuid, Membership, PodKey, Workload, WorkloadKey
from trilens.serve.cases import kinds
from trilens.serve.cases.about import NoObjects, Objects
from trilens.serve.cases.gathering import Cases
from trilens.serve.cases.records import CaseRecords
from trilens.serve.cases.run_records import CaseRuns
from trilens.serve.cases.subjects import Subjects as CaseSubjects
from trilens.serve.detection.keeper import DetectionState
from trilens.serve.gpu_bindings import GpusNow
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.fleet_map import FleetApi
from trilens.serve.pages.fleet_scene import KeptScene
from trilens.serve.pages.gpu_life import GpuLifeApi
from trilens.serve.pages.now import NowApi
from trilens.serve.pages.rank_heat import RankHeatApi
from trilens.serve.pages.services import ServicesApi
from trilens.serve.pages.timeline import TimelineApi, TimelineSources
from trilens.serve.pages.timeline_subject import Subjects
from trilens.serve.pages.workload_table import WorkloadTableApi
from trilens.serve.pages.workload_table_money import WorkloadMoney
from trilens.serve.rules import active_alerts
from trilens.serve.standing_faults import StandingFaults
from trilens.serve.storage import open_store
from trilens.settings.storage import StorageSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.datastructures import Headers
    from starlette.types import Scope

    from trilens.serve.app import Parts
    from trilens.store.gpus import GpuRecords
    from trilens.store.ledger import Ledger
    from trilens.store.store import Store
    from trilens.store.workloads import WorkloadRecords

CANARY = "canary"
NOW_MS = 1_793_750_400_000 + 90 * 60_000  # 01:30 of a day
HOUR = 1_793_750_400_000
MINUTE = timedelta(minutes=1)
HALF_KNOWN = RunId("run-canary-half")
CLAIMED = RunId("run-claimed")  # by what was booked alone
UNNAMED = "canary-unnamed"
CHECKPOINT = "training_checkpoint_duration_seconds"
SAMPLE_OF_ALL = 7  # that every run saw
NODE = "gpu-01"  # which both are on
QUEUED_AS = "job-nlp-train-1a2b3"  # what queues and schedulers make of the own job

OWN = WorkloadKey("lab", "shared", "batch", "Job", "nlp-train", "u-own")
THEIRS = WorkloadKey("lab", "shared", "batch", "Job", "canary-train", "u-canary")
NOBODYS = WorkloadKey("lab", "shared", "batch", "Job", "canary-nobodys", "u-canary-2")
ELSEWHERE = WorkloadKey("canary-west", "shared", "batch", "Job", "nlp-far", "u-far")  # nlp's, elsewhere
TWIN = OWN._replace(cluster="canary-west", uid="u-twin")  # another's, called as the own one is, elsewhere
TEAMS = {OWN: "nlp", THEIRS: "canary-vision", NOBODYS: None, ELSEWHERE: "nlp", TWIN: "canary-vision"}

ROLES = {
    "admin": Grant(frozenset({Right.ADMIN})),
    "nlp": Grant(frozenset({Right.READ}), teams=frozenset({"nlp"})),
    "nlp in lab": Grant(frozenset({Right.READ}), clusters=frozenset({"lab"}), teams=frozenset({"nlp"})),
    "nlp fixer": Grant(frozenset({Right.FIX}), clusters=frozenset({"lab"}), teams=frozenset({"nlp"})),
    "lab": Grant(frozenset({Right.READ}), clusters=frozenset({"lab"})),
    "lab fixer": Grant(frozenset({Right.FIX}), clusters=frozenset({"lab"})),
    "nobody": Grant(frozenset({Right.READ}), teams=frozenset()),
}


class Wristband:
    """A door that knows who it is by a header."""

    def identify(self, _scope: Scope, headers: Headers) -> Identity | None:
        grant = ROLES.get(headers.get("role", ""))
        return Identity(headers["role"], "test", grant) if grant is not None else None


def pod_of(key: WorkloadKey) -> PodKey:
    return PodKey(key.cluster, key.namespace, f"{key.name}-0", f"pod-{key.uid}")


def gpu_of(key: WorkloadKey) -> GpuKey:
    return GpuKey(GpuUuid(f"GPU-{_alone(key)}"))


def run_of(key: WorkloadKey) -> RunId:
    return RunId(f"run-{_alone(key)}")


def sample_of(key: WorkloadKey) -> str:
    """That its run alone saw."""
    return f"text-{_alone(key)}"


def _alone(key: WorkloadKey) -> str:
    """What nobody else is called."""
    return key.name if key is not TWIN else "canary-twin"


def finding(key: WorkloadKey) -> FindingInterval:
    subject = Subject(key, TEAMS[key], cluster=key.cluster, node=NODE)
    text = f"{key.name} makes no steps"
    found = Finding(
        "D001", FindingKind.STALL, subject, Severity.WARNING, "", HOUR, text, f"look at {key.name}"
    )
    return FindingInterval(found, HOUR + 60_000, NOW_MS)


def fault_of_shared_gpu() -> FindingInterval:
    """Of a GPU that the own workload has now: another's had it when it was told."""
    where = Subject(THEIRS, TEAMS[THEIRS], cluster="lab", node=NODE, gpu=gpu_of(OWN).uuid)
    told = ("xid-79", HOUR, "Xid 79 on a GPU (canary-train)", "Reset it.")
    found = Finding("D009", FindingKind.GPU_FAULT, where, Severity.CRITICAL, *told)
    return FindingInterval(found, HOUR, HOUR + 600_000, ended_ms=HOUR + 600_000)


def symptom(key: WorkloadKey | None, name: str = "D001") -> Symptom:
    """Without a workload, of the node."""
    whose = Subject(key, TEAMS[key] if key is not None else None, cluster="lab", node=NODE)
    text = f"{name} of {key.name}" if key is not None else f"{NODE} is broken, and with it canary-train"
    labels = (("pod", f"{key.name}-0"),) if key is not None else (("victim", "canary-train"),)
    return Symptom(
        SymptomKind.FINDING, f"{name}-{key}", name, whose, Severity.WARNING, HOUR, text, text, labels
    )


def incident(id: str, *hit: WorkloadKey, root: Symptom | None = None) -> Incident:
    symptoms = ((root,) if root is not None else ()) + tuple(map(symptom, hit))
    names = tuple(f"{key.namespace}/{key.kind}/{key.name}" for key in hit)
    timeline = tuple(Moment(HOUR, MomentKind.JOINED, one.text) for one in symptoms)
    return Incident(
        id,
        IncidentState.OPEN,
        Severity.WARNING,
        symptoms[0].text,
        symptoms[0].subject,
        names,
        symptoms,
        (Moment(HOUR, MomentKind.ONSET, symptoms[0].text), *timeline),
        HOUR,
        HOUR + 60_000,
        lost_quanta=777_000_000_000,
        currency="USD",
    )


INCIDENTS = {
    "20261104-0000-a1": ("own", [OWN], None),
    "20261104-0000-a2": ("canary", [THEIRS], None),
    "20261104-0000-a3": ("both", [OWN, THEIRS], symptom(None, "NodeDown")),
    "20261104-0000-a4": ("own, by its machine", [OWN], symptom(None, "Xid79")),
}


class Incidents:
    def __init__(self) -> None:
        self.known = {id: incident(id, *hit, root=root) for id, (_, hit, root) in INCIDENTS.items()}
        clean = self.known["20261104-0000-a4"]
        told = replace(clean.symptoms[0], text=f"{NODE} is broken", action="", labels=())
        self.known[clean.id] = replace(
            clean, title=told.text, symptoms=(told, *clean.symptoms[1:]), timeline=()
        )

    def open(self) -> list[Incident]:
        return list(self.known.values())

    def get(self, id: str, *, guard: Any = None) -> Incident | None:
        return self.known.get(id)

    def during(self, from_ms: int, to_ms: int, **_: Any) -> list[Incident]:
        return self.open()

    def acknowledge(self, id: str, by: str) -> Incident:
        self.known[id] = replace(self.known[id], acknowledged_ms=NOW_MS, acknowledged_by=by)
        return self.known[id]

    def held_back(self) -> dict[str, Any]:
        return {}


@dataclass
class TwoTeams:
    api: Api
    pages: PageApis
    incidents: Incidents
    store: Store

    def parts(self) -> Parts:
        return replace(self.api.parts(), pages=self.pages)


@contextmanager
def two_teams(folder: Path) -> Iterator[TwoTeams]:
    store = open_store(StorageSettings.model_validate({"data_dir": folder}), upkeep=False)
    try:
        for key, team in TEAMS.items():
            _tell(key, team, store.workloads, store.gpus)
        for number, (hit, on) in enumerate(
            (
                ([OWN], None),
                ([THEIRS], None),
                ([OWN, THEIRS], OWN),
                ([THEIRS], OWN),
                ([], OWN),
                ([TWIN], None),
            )
        ):
            victims = tuple(Victim(*pod_of(key)[1:]) for key in hit)
            named = " ".join(key.name for key in hit if key is not TWIN) or "canary-nobody"
            uuid = gpu_of(on).uuid if on is not None else None
            told = (79, f"Xid by {named}", "bus", None, uuid, None, None, 4711, f"python {named}", None)
            store.events.event(
                EventRecord(NODE, f"line-{number}", HOUR + 60_000, EventKind.XID, *told, victims=victims)
            )
        for number, key in enumerate(TEAMS):
            target = FixTarget(key.cluster, "batch", "Job", key.namespace, key.name)
            told = (Deed.RESTART, target, "somebody", f"why of {_alone(key)}", "", FixState.DONE)
            store.fixes.put(Fix(f"fix-{number}-{_alone(key)}", HOUR, *told))
        node = FixTarget("lab", "", "Node", "", "canary-node")
        for key in (OWN, THEIRS):
            pod = FixTarget("lab", "", "Pod", "shared", pod_of(key).name)
            told = (Deed.DELETE_POD, pod, "somebody", "", "", FixState.DONE)
            store.fixes.put(Fix(f"fix-pod-{key.name}", HOUR + 60_000, *told))
        store.fixes.put(Fix("fix-node", HOUR, Deed.CORDON, node, "somebody", "", "", FixState.DONE))
        store.findings.put([*map(finding, (OWN, THEIRS)), fault_of_shared_gpu()])
        store.runs.commit(_run_records())
        for name, experiment, tags in (
            ("w-own", "shared", {RUN_TAG: run_of(OWN)}),
            ("w-theirs", "canary", {}),
        ):
            user = "canary-user" if tags == {} else "me"
            run = TrackedRun(Tracker("wandb", name, "there"), experiment, name, user=user, tags=tags)
            store.tracked_runs.run(run, "")
        _tell_series(store)
        _book(store.ledger)
        store.records_settled(30)
        incidents, found = Incidents(), [finding(key) for key in (OWN, THEIRS)]
        api = Api(
            workloads=store.workloads,
            events=store.events,
            gpus=store.gpus,
            book=store.ledger,
            facts=store.ledger_facts,
            runs=_runs(),
            findings=store.findings,
            faults=StandingFaults(store.findings, store.events, store.gpus, store.machines, store.ledger),
            cases=_cases(store, incidents),
            detection=DetectionState(open=tuple(found), looked_ms=NOW_MS),
            open_incidents=incidents,
            incidents=incidents,
            untold=incidents,
            fixes=store.fixes,
            tracked=store.tracked_runs,
            delivery=_delivery(),
            rules=[_rules()],
            now_ms=lambda: NOW_MS,
            doors=[Wristband()],
        )
        for key, team in TEAMS.items():
            named = {"__name__": "use" if key in (OWN, THEIRS) else "canary_use", **_labels(key)}
            api.source.add({**named, **({"team": team} if team is not None else {})}, [(NOW_MS, 0.5)])
        for key, team in ((OWN, "nlp"), (THEIRS, "canary-vision")):
            named = {"__name__": "trilens:inference_requests:per_second", "team": team, **_labels(key)}
            api.source.add({**named, "model": f"model-of-{key.name}"}, [(NOW_MS, 0.5)])
        api.catalog.described = {name: [Description("gauge", name)] for name in ("use", "canary_use")}
        yield TwoTeams(api, _pages(api, store, incidents), incidents, store)
    finally:
        store.close()


def _pages(api: Api, store: Store, incidents: Incidents) -> PageApis:
    """With the parts of a server that look at a fleet of now standing still."""
    places = [
        Place(gpu_of(key).uuid, "", key.cluster, NODE if key is OWN else "canary-node", "0", "H100", key)
        for key in TEAMS
    ]
    jobs = [
        JobView(key, team, 0, Phase.RUNNING, HOUR, serves=False, rows=(at,))
        for at, (key, team) in enumerate(TEAMS.items())
    ]
    scene = KeptScene()
    scene.take(Scene(NOW_MS, Telemetry(places, np.arange(0), {}), jobs), Changes())
    seen = {gpu_of(key): Gpu(gpu_of(key), key.cluster, NODE, "0", "H100") for key in TEAMS}
    gpus: Any = SimpleNamespace(now=GpusNow(gpus=seen, trouble="canary-west is away"), held=(), held_by=None)
    costs: Any = SimpleNamespace(look=lambda *_: None, of=lambda _: Decimal(4), currency="USD")
    machine = Machine("lab", "canary-free", gpus=8)
    machines: Any = SimpleNamespace(lasting=lambda _guard: [machine])
    asked, detection = api.questions, (lambda: api.detection)
    queries = EmbeddedQueries(store)
    subjects = Subjects(store.workloads, store.runs, store.step_grids)
    found: Any = api.findings
    kept: Any = incidents
    sources = TimelineSources(subjects, store.gpus, store.events, found, kept, store.ledger, queries)
    money = WorkloadMoney(store.ledger, lambda: "USD", api.now_ms)
    every = (
        NowApi(store.ledger, store.ledger_facts, incidents, incidents, gpus, store.workloads, asked),
        WorkloadTableApi(scene, store.workloads, money, costs, gpus, detection, incidents.open, None, asked),
        FleetApi(scene, gpus, api.faults, machines, store.workloads, detection, incidents.open, None, asked),
        GpuLifeApi(store.gpus, store.workloads, store.events, found, store.ledger, queries, gpus, asked),
        TimelineApi(sources, asked),
        RankHeatApi(subjects, asked),
        ServicesApi(EmbeddedQueries(api.source, api.now_ms), list, asked),
    )
    return PageApis(every)


def _tell(key: WorkloadKey, team: str | None, workloads: WorkloadRecords, gpus: GpuRecords) -> None:
    workloads.workload(Workload(key, HOUR, 0, team))
    workloads.phase(PhaseInterval(key, 0, Phase.RUNNING, "", HOUR))
    workloads.membership(MembershipInterval(Membership(pod_of(key), key), NODE, HOUR))
    gpu = gpu_of(key)
    gpus.gpu(GpuInterval(Gpu(gpu, key.cluster, NODE, "0", "H100"), HOUR, None))
    gpus.binding(BindingInterval(GpuBinding(gpu, pod_of(key), "main", None, (ClaimSource.DCGM,)), HOUR, None))


def _delivery() -> Any:
    silences = Silences(Outbox(None))
    for matchers in (
        ('workload="canary-train"',),
        ('team="canary-vision"',),
        ('team="nlp"', 'cluster="lab"'),
    ):
        silences.add(matchers, HOUR, NOW_MS + HOUR_MS, "somebody", f"for {matchers[0]}", NOW_MS)
    return SimpleNamespace(silences=silences, silenced=lambda: None, reports=list)


def _labels(key: WorkloadKey) -> dict[str, str]:
    pod = pod_of(key)
    return {"cluster": key.cluster, "namespace": pod.namespace, "pod": pod.name, "workload": key.name}


class ObjectsOfAll(NoObjects):
    """What a cluster answers to who asks about one workload: more than that."""

    async def ask(self, about: Any, until: float) -> Objects:
        pods = [_object(kinds.POD, "shared", pod_of(key).name, pod_of(key).uid) for key in (OWN, THEIRS)]
        jobs = [_object(GroupKind("batch", "Job"), "shared", key.name, key.uid) for key in (OWN, THEIRS)]
        nodes = [_object(kinds.NODE, "", name) for name in (NODE, "canary-node")]
        others = [
            _object(kinds.CLUSTER_QUEUE, "", "canary-queue"),
            _object(kinds.DAEMON_SET, "canary-system", "canary-daemon"),
            _object(kinds.RESOURCE_CLAIM, "shared", "canary-claim"),
        ]
        made = [_object(kind, "shared", QUEUED_AS) for kind in (kinds.QUEUED, kinds.POD_GROUPS[0])]
        pods[0] = replace(pods[0], body={"spec": {"volumes": [_claimed("own-data")]}})
        return Objects((*pods, *jobs, *nodes, *others, *made, *_told_events()), (), (kinds.POD, kinds.NODE))


def _told_events() -> list[KubeObject]:
    """Of what is own, and of others' jobs, one of which has the own one's name in its own."""
    own, theirs = pod_of(OWN), pod_of(THEIRS)
    near = f"{OWN.name}-again"
    told = (
        ("Pod", own.name, own.uid, "told of the own pod"),
        ("Pod", own.name, "", "told of the own pod by name"),
        ("Job", OWN.name, OWN.uid, "told of the own job"),
        ("PersistentVolumeClaim", "own-data", "uid-own-data", "told of the own claim"),
        ("Workload", QUEUED_AS, f"uid-{QUEUED_AS}", "told of the own place in the queue"),
        ("Pod", theirs.name, theirs.uid, "canary pod"),
        ("Pod", own.name, "uid-canary", "canary pod that had the own one's name"),
        ("Job", THEIRS.name, "", "canary job"),
        ("PersistentVolumeClaim", "their-data", "uid-their-data", "canary claim"),
        ("Workload", f"job-{near}-5e6f7", "uid-near", "canary preempts"),
        ("PodGroup", f"podgroup-{near}", "uid-group", "canary gang"),
        ("PodGroup", f"podgroup-{near}", "", "canary gang by name"),
    )
    return [_told_event(number, *one) for number, one in enumerate(told)]


def _told_event(number: int, kind: str, name: str, uid: str, message: str) -> KubeObject:
    about = {"kind": kind, "namespace": "shared", "name": name, "uid": uid}
    body = {"involvedObject": about, "reason": "Told", "message": message}
    return replace(_object(kinds.EVENT, "shared", f"event-{number}"), body=body)


def _claimed(name: str) -> dict[str, Any]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


def _object(kind: GroupKind, namespace: str, name: str, uid: str = "") -> KubeObject:
    return KubeObject(
        "lab",
        kind.group,
        "v1",
        kind.kind,
        namespace,
        name,
        uid or f"uid-{name}",
        "1",
        HOUR,
        None,
        {},
        {},
        (),
        {},
    )


def _cases(store: Store, incidents: Incidents) -> Cases:
    return Cases(
        CaseSubjects(store.workloads, store.gpus, lambda: [("lab", NODE), ("lab", "canary-node")]),
        CaseRecords(store.workloads, store.gpus, store.events, store.findings),
        CaseRuns(store.runs, store.workloads),
        ObjectsOfAll(),
        EmbeddedQueries(store),
        None,
        _targets,
        lambda: active_alerts([_rules()]),
        lambda id, _guard: incidents.get(id),
        StandingFaults(store.findings, store.events, store.gpus, store.machines, store.ledger),
    )


def _rules() -> Any:
    """One alert of each workload, by one rule."""
    alerts = [
        Alert(
            make_labels({"alertname": "Idle", **_labels(key), "team": team or ""}),
            make_labels({"summary": f"{key.name} is idle"}),
            AlertState.FIRING,
            1.0,
            HOUR,
        )
        for key, team in TEAMS.items()
    ]
    (group,) = parse_rules("groups: [{name: g, rules: [{alert: Idle, expr: use < 1}]}]", Path("f"), MINUTE)
    state = RuleState(group.rules[0], alone=True, last_error="canary-train has two series", health="err")
    state.active = SimpleNamespace(alerts=lambda: alerts)  # type: ignore[assignment]
    return GroupState(group, (state,), SimpleNamespace())  # type: ignore[arg-type]


def _run_records() -> RunCommit:
    """A run of each; of THEIRS a process says that it is in a pod of OWN. A run of which a process is there,
    and another nowhere."""
    told = RunCommit()
    for key in (OWN, THEIRS, NOBODYS, ELSEWHERE, TWIN):
        name = f"run of {key.name}" if key is OWN else f"canary run of {key.name}"
        experiment = "shared" if key in (OWN, THEIRS) else "canary-experiment"
        said = (Tracker("wandb", "w-theirs", "there"),) if key is OWN else ()  # which is not its own
        facts = RunFacts(run_of(key), HOUR, experiment, name, trackers=said)
        _add_run(told, facts, _process(run_of(key), pod_of(key)))
        _add_batches(told, key)
    _add_checkpoints(told)
    told.processes.append(_process(run_of(THEIRS), pod_of(OWN), rank=1))  # that they did not send
    lost = pod_of(OWN)._replace(name="canary-gone", uid="pod-canary-gone")
    ranks = (_process(HALF_KNOWN, pod_of(OWN)), _process(HALF_KNOWN, lost, rank=1))
    _add_run(told, RunFacts(HALF_KNOWN, HOUR, "canary-experiment", "canary-half"), *ranks)
    return told


def _add_run(told: RunCommit, facts: RunFacts, *ranks: RankProcess) -> None:
    told.facts.append(facts)
    told.processes += ranks
    if facts.run != run_of(OWN):
        told.notes.append(
            NoteRecord(facts.run, 0, 0, 0, HOUR + 1_000, "stalled", f"canary note of {facts.run}")
        )
    told.artifacts.append(_stacks(facts.run))
    for one in ranks:
        values = {"loss": 2.0} if facts.run == run_of(OWN) else {"loss": 2.0, "canary_loss": 2.0}
        told.steps.append(StepRecord(facts.run, 1, one.rank, 0, 0, HOUR * 1000, 1_000, values=values))


def _stacks(run: RunId) -> ArtifactRecord:
    by = "own" if run == run_of(OWN) else "canary"
    return ArtifactRecord(
        run, 0, 0, 0, HOUR + 1_000, "stacks", f"{by}-dump", f"{by} stacks of {run}".encode()
    )


def _add_batches(told: RunCommit, key: WorkloadKey) -> None:
    """Of its one step: a sample that all saw, and one that nobody else did."""
    dataset = "texts" if key is OWN else "canary-texts"
    told.batches += [
        BatchRecord(run_of(key), 1, 0, 0, 0, 0, dataset, size=1, ids=(SAMPLE_OF_ALL,)),
        BatchRecord(run_of(key), 1, 0, 0, 0, 1, dataset, size=1, names=(sample_of(key),)),
    ]


def _add_checkpoints(told: RunCommit) -> None:
    """What THEIRS wrote OWN loaded, and wrote again as its own."""
    base, result = "/shared/base", "/shared/result"
    told.checkpoints += [
        CheckpointRecord(run_of(THEIRS), 1, 0, 0, 0, base, HOUR + 10),
        CheckpointRecord(run_of(OWN), 1, 0, 0, 0, base, HOUR + 20, loaded=True),
        CheckpointRecord(run_of(OWN), 1, 0, 0, 1, result, HOUR + 30),
    ]


def _process(run: RunId, pod: PodKey, rank: int = 0) -> RankProcess:
    node = NODE if pod == pod_of(OWN) else "canary-node"
    told = (HOUR, 0, None, None, node)
    where = {"namespace": pod.namespace, "pod": pod.name, "pod_uid": pod.uid}
    return RankProcess(run, rank, WriterId(f"{rank:032x}"), *told, **where, heard_ms=NOW_MS, step=1)


def _runs() -> MemoryRuns:
    told = _run_records()
    return MemoryRuns(
        told.facts,
        told.processes,
        told.steps,
        told.batches,
        told.checkpoints,
        told_notes=told.notes,
        told_artifacts=told.artifacts,
    )


def _tell_series(store: Store) -> None:
    """What a case asks for: of OWN, of its namesake on a node of the same name, and of such a node of which
    nobody says in which cluster it is."""
    for key in (OWN, TWIN):
        for name in ("trilens:node_cpu:ratio", "trilens:inference_queue:count", CHECKPOINT):
            told = {"__name__": name, "node": NODE} if "node" in name else {"__name__": name, **_labels(key)}
            _add_series(store, {**told, "cluster": key.cluster})
    _add_series(store, {"__name__": "trilens:node_cpu:ratio", "node": NODE, "instance": UNNAMED})


def _add_series(store: Store, labels: dict[str, str]) -> None:
    times = np.array([NOW_MS - 30_000, NOW_MS])
    store.append(np.full(2, store.series(make_labels(labels)), np.int64), times, np.full(2, 0.5))


def _targets() -> tuple[TargetStatus, ...]:
    """Of equal pods in two clusters, and an exporter of the other that is down."""
    told = ({**_labels(OWN), "instance": "own:1"}, {**_labels(TWIN), "instance": "canary-twin:1"})
    down = {"cluster": TWIN.cluster, "instance": "canary-dcgm:1"}
    pods = (_target("pods", labels, "up") for labels in told)
    return (*pods, _target("dcgm", down, "down"))


def _target(job: str, labels: dict[str, str], health: Health) -> TargetStatus:
    return TargetStatus(job, labels, {}, "http://canary", health, "", NOW_MS / 1000, 0.1, 15.0, 10.0)


def _book(book: Ledger) -> None:
    """An hour: 3 GPUs of nlp, 6 of the other team, of which 1 by what is nlp's now; 2 that nobody held."""
    rows = []
    for key, gpus in ((OWN, 3), (THEIRS, 5)):
        stalled = CLAIMED if key is OWN else run_of(key)
        for bucket, run in ((Bucket.PRODUCTIVE, run_of(key)), (Bucket.STALLED, stalled)):
            whose, ms = Holder(key, 0, key.namespace, run, None, TEAMS[key]), HOUR_MS // 2
            rows += row(HOUR, whose, bucket, gpus=gpus, ms=ms, node=NODE if key is OWN else "canary-node")
    before = Holder(OWN, 0, OWN.namespace, None, None, "canary-vision")  # whose it was until then
    rows += row(HOUR, before, Bucket.PRODUCTIVE, gpus=1, node=NODE)
    rows += row(HOUR, Holder(), Bucket.UNALLOCATED, gpus=2, node="canary-free")
    made = hour(HOUR, [one._replace(cluster="lab") for one in rows])
    book.write(billed(made), reason="closed")
