"""Which episodes there are: small simulated clusters in which one thing goes wrong, or only seems to."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Final

from trilens.model.finding import FindingKind
from trilens.simulate.gpu_noise import STEPS
from trilens.simulate.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_STALL, _HANG, _CRASH = FindingKind.STALL, FindingKind.HANG, FindingKind.CRASH
_FAULT, _SUSPECT = FindingKind.GPU_FAULT, FindingKind.SUSPECT_TELEMETRY
_STOPPED: Final = frozenset({_STALL, _HANG, _CRASH})
_USUAL_STEP_S: Final = 1.29  # of the simulator's defaults, all phases together
_STEPS_S: Final = (0.4, 1.3, 2.6, 4.6)
_ONSET_S: Final = (240.0, 330.0)
_FAST_S: Final = 150.0  # after the onset; the goal is a tenth of that


@dataclass(frozen=True, slots=True)
class FaultClass:
    """What goes wrong, how bad, and what should be said of it."""

    name: str
    fault: Mapping[str, Any]
    severities: Sequence[Mapping[str, Any]]  # over the fault, or `step_s`
    named_by: Mapping[FindingKind, frozenset[str] | None]  # the causes that are right; None where any is
    classic: frozenset[str]  # rules that name it rightly
    seeds: int  # for each severity
    also: frozenset[FindingKind] = frozenset()  # that follow from it, and are not wrong
    has_rank: bool = True
    is_fast: bool = True
    watch_s: float = _FAST_S
    goal: str = "20 s, 95 % in 60 s"
    told_by: str = "records"  # or "metrics", or "nobody"
    job: Mapping[str, Any] = field(default_factory=dict)  # of the job's training


@dataclass(frozen=True, slots=True)
class CalmClass:
    name: str
    seeds: int
    calm: Mapping[str, Any] | None = None
    fault: Mapping[str, Any] | None = None  # of the simulator, too small to be one
    lasts_s: tuple[float, float] | None = None
    training: Mapping[str, Any] = field(default_factory=dict)
    draws: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # of `training`
    duration_s: tuple[float, float] | None = None  # of the job
    seconds: float = 600.0
    from_the_start: bool = False


def _any(*kinds: FindingKind) -> dict[FindingKind, frozenset[str] | None]:
    return dict.fromkeys(kinds, None)


_BY_STEP: Final = tuple({"step_s": step_s} for step_s in _STEPS_S)
_STALLED: Final = frozenset({"TrainingStalled"})
_XIDS: Final = (13, 31, 48, 63, 64, 74, 79, 94, 95, 119)

FAULTS: Final = (
    FaultClass(
        "stall: data", {"kind": "stuck-data", "lasts": 1500}, _BY_STEP, {_STALL: frozenset({"data"})},
        _STALLED | {"GpuIdle"}, 3, also=_STOPPED, has_rank=False,
    ),
    FaultClass(
        "stall: GIL held", {"kind": "gil-held", "lasts": 1500}, _BY_STEP,
        {_STALL: frozenset({"gil-held"}), _HANG: frozenset({"gil-held"})}, _STALLED, 3, also=_STOPPED,
    ),
    FaultClass(
        "stall: process dead", {"kind": "process-dead"}, _BY_STEP,
        {_STALL: frozenset({"process-dead"}), _HANG: frozenset({"process-dead"}),
         _CRASH: frozenset({"killed"})}, _STALLED, 3, also=_STOPPED,
    ),
    FaultClass(
        "hang: collective", {"kind": "hang"}, _BY_STEP, {_STALL: frozenset({"collective"}), _HANG: None},
        _STALLED, 4, also=_STOPPED,
    ),
    FaultClass(
        "hang: metrics only", {"kind": "hang"}, _BY_STEP, {_STALL: None, _HANG: None},
        _STALLED, 2, also=_STOPPED, told_by="metrics",
    ),
    FaultClass(
        "hang: telemetry alone", {"kind": "hang"}, _BY_STEP, {_HANG: None}, _STALLED, 3, also=_STOPPED,
        told_by="nobody",
    ),
    FaultClass(
        "crash: exception", {"kind": "exception"}, _BY_STEP, {_CRASH: frozenset({"exception"})},
        frozenset({"PodFailed"}), 3, also=_STOPPED,
    ),
    FaultClass(
        "crash: out of memory", {"kind": "oom-killed"}, _BY_STEP,
        {_CRASH: frozenset({"oom-killed", "out-of-memory"})}, frozenset({"PodFailed"}), 3, also=_STOPPED,
        has_rank=False,  # all ranks of the pod die with it
    ),
    FaultClass(
        "crash: node gone", {"kind": "node-not-ready", "lasts": 1500}, _BY_STEP,
        {kind: frozenset({"node-gone"}) for kind in (_CRASH, _STALL, _HANG)}, frozenset({"PodFailed"}), 2,
        also=_STOPPED | {_SUSPECT, _FAULT}, has_rank=False,
    ),
    FaultClass(
        "GPU lost", {"kind": "gpu-lost", "lasts": 1500}, _BY_STEP, {_FAULT: frozenset({"lost"})},
        frozenset(), 3, also=_STOPPED,
    ),
    *(
        FaultClass(
            f"Xid {code}", {"kind": "xid", "code": code, "lasts": 1500}, ({"step_s": 1.3},),
            {_FAULT: frozenset({f"xid-{code}"})}, frozenset({"XidSeen"}), 2,
            also=_STOPPED | {_FAULT},
        )
        for code in _XIDS
    ),
    FaultClass(
        "straggler", {"kind": "straggler", "lasts": 1500},
        ({"factor": 1.2}, {"factor": 1.3}, {"factor": 1.5}, {"factor": 2.0}),
        _any(FindingKind.STRAGGLER), frozenset(), 5, is_fast=False, watch_s=420.0, goal="5 min",
    ),
    FaultClass(
        "throttling", {"kind": "thermal", "lasts": 1500},
        ({"factor": 1.2}, {"factor": 1.35}, {"factor": 1.6}),
        _any(FindingKind.THROTTLING), frozenset({"GpuHot"}), 4, also=frozenset({FindingKind.STRAGGLER}),
        is_fast=False, watch_s=420.0, goal="5 min",
    ),
    FaultClass(
        "CPU fallback", {"kind": "cpu-fallback", "lasts": 1500},
        ({"factor": 3.0}, {"factor": 6.0}, {"factor": 12.0}), _any(FindingKind.CPU_FALLBACK),
        frozenset({"GpuIdle"}), 3, also=frozenset({_STALL}), has_rank=False, is_fast=False, watch_s=300.0,
        goal="3 min",
    ),
    FaultClass(
        "divergence: NaN", {"kind": "nan"}, _BY_STEP, _any(FindingKind.DIVERGENCE), frozenset({"LossNaN"}), 2,
        has_rank=False, is_fast=False, watch_s=240.0, goal="1 min",
    ),
    FaultClass(
        "divergence: rising", {"kind": "diverging"}, ({"factor": 1.5}, {"factor": 2.0}, {"factor": 4.0}),
        _any(FindingKind.DIVERGENCE), frozenset(), 3,
        also=frozenset({FindingKind.PLATEAU}),  # a loss that rises does not fall, either
        has_rank=False, is_fast=False, watch_s=420.0, goal="100 steps",
    ),
    FaultClass(
        "plateau", {"kind": "plateau"}, ({"step_s": 0.4}, {"step_s": 0.7}), _any(FindingKind.PLATEAU),
        frozenset(), 4, has_rank=False, is_fast=False, watch_s=1080.0, goal="15 min",
    ),
    *(
        FaultClass(
            f"suspect telemetry: {name}", {"kind": kind, "lasts": 1500}, ({},),
            {_SUSPECT: frozenset({cause})}, frozenset(), 5, has_rank=False, is_fast=False, watch_s=300.0,
            goal="3 min",
        )
        for name, kind, cause in (
            ("PROF at 0", "prof-stuck", "prof-stuck"),
            ("frozen", "readings-frozen", "frozen"),
            ("blank", "readings-blank", "sentinel"),
            ("labels lost", "labels-lost", "lost-labels"),
            ("gap", "exporter-silent", "gap"),
        )
    ),
)  # fmt: skip

CALM: Final = (
    CalmClass("long checkpoint", 24, draws={"checkpoint": (45, 240)}, training={"checkpoint_every": 60}),
    CalmClass("validation", 24, calm={"kind": "validation"}, lasts_s=(30, 240)),
    CalmClass("compilation", 16, calm={"kind": "compilation"}, lasts_s=(20, 180)),
    CalmClass("flat part of the loss", 20, calm={"kind": "flat-loss"}, lasts_s=(60, 240)),
    CalmClass("loss spike", 12, calm={"kind": "loss-spike", "factor": 2.5}),
    CalmClass("autoscaling", 16, calm={"kind": "scaling", "job": "chat"}, lasts_s=(60, 180)),
    CalmClass("node drain", 16, calm={"kind": "drain", "node": 0}, lasts_s=(120, 400)),
    CalmClass("job ends", 24, duration_s=(240, 420)),
    CalmClass("scrape gap", 20, fault={"kind": "exporter-silent", "node": 0}, lasts_s=(6, 25)),
    CalmClass("stable spread of ranks", 24, draws={"spread": (0.02, STEPS.spread)}),
    CalmClass("data hiccup", 20, calm={"kind": "hiccup"}, lasts_s=(1, 5)),
    CalmClass("old Xid", 10, calm={"kind": "old-xid"}, from_the_start=True),
    CalmClass("preemption", 8, fault={"kind": "preemption"}, lasts_s=(60, 200)),
    CalmClass("nothing at all", 12),
)


@dataclass(frozen=True, slots=True)
class Episode:
    """`fault` is None where nothing goes wrong."""

    name: str
    severity: str
    seed: int
    scenario: Scenario
    seconds: float  # that are watched
    fault: FaultClass | None = None
    told_by: str = "records"

    @property
    def key(self) -> str:
        return f"{self.name} / {self.severity} / {self.seed}"


def all_episodes(seed: int) -> list[Episode]:
    """The same seed gives the same episodes; another one shares none with them."""
    return [*fault_episodes(seed), *calm_episodes(seed)]


def fault_episodes(seed: int, classes: Sequence[FaultClass] = FAULTS) -> Iterator[Episode]:
    for one in classes:
        for at, severity in enumerate(one.severities):
            for turn in range(one.seeds):
                yield fault_episode(one, severity, f"{seed}:{one.name}:{at}:{turn}")


def fault_episode(one: FaultClass, severity: Mapping[str, Any], seed_text: str) -> Episode:
    chance = Random(seed_text)
    severity = dict(severity)
    step_s = severity.get("step_s") or chance.choice(_STEPS_S[:3])
    onset_s = chance.uniform(*_ONSET_S)
    fault = {"at": onset_s, **one.fault, **severity}
    step_s = fault.pop("step_s", step_s)
    if fault["kind"] in ("node-not-ready", *(_OF_EXPORTERS)):
        fault["node"] = 0
    else:
        fault["job"] = "train"
        fault["rank"] = chance.randrange(64)
    scenario = _scenario(chance, step_s, one.job, faults=[fault])
    how_bad = {name: value for name, value in severity.items() if name != "step_s"}
    said = ", ".join(f"{name} {value:g}" for name, value in how_bad.items()) or f"step {step_s:g} s"
    return Episode(
        one.name, said, chance.getrandbits(31), scenario, onset_s + one.watch_s, one, told_by=one.told_by
    )


_OF_EXPORTERS: Final = (
    "prof-stuck", "readings-frozen", "readings-blank", "labels-lost", "exporter-silent",
)  # fmt: skip


def calm_episodes(seed: int, classes: Sequence[CalmClass] = CALM) -> Iterator[Episode]:
    for one in classes:
        for turn in range(one.seeds):
            chance = Random(f"{seed}:{one.name}:{turn}")
            at = {"at": chance.uniform(*_ONSET_S) if not one.from_the_start else 0.0}
            if one.lasts_s is not None:
                at["lasts"] = chance.uniform(*one.lasts_s)
            drawn = {name: chance.uniform(*bounds) for name, bounds in one.draws.items()}
            step_s = chance.choice(_STEPS_S[:3])
            scenario = _scenario(
                chance, step_s, {**one.training, **drawn},
                faults=[{**at, **one.fault, **_whose(one.fault)}] if one.fault is not None else [],
                calm=[{**at, **one.calm, **_whose(one.calm)}] if one.calm is not None else [],
                duration_s=chance.uniform(*one.duration_s) if one.duration_s is not None else None,
            )  # fmt: skip
            said = ", ".join(f"{name} {value:.3g}" for name, value in (at | drawn).items() if name != "at")
            yield Episode(
                one.name, said or f"step {step_s:g} s", chance.getrandbits(31), scenario, one.seconds
            )


def _whose(what: Mapping[str, Any]) -> dict[str, Any]:
    has_place = what["kind"] in ("drain", "old-xid", "scaling", "exporter-silent")
    return {} if has_place else {"job": "train"}


def _scenario(
    chance: Random,
    step_s: float,
    training: Mapping[str, Any],
    *,
    faults: Sequence[Mapping[str, Any]] = (),
    calm: Sequence[Mapping[str, Any]] = (),
    duration_s: float | None = None,
) -> Scenario:
    """A job that it happens to, another one, and a service, on 24 or 32 GPUs."""
    scale = step_s / _USUAL_STEP_S
    steps = {
        "data_s": 0.04 * scale, "forward_s": 0.35 * scale, "backward_s": 0.70 * scale,
        "grad_sync_s": 0.12 * scale, "optimizer_s": 0.08 * scale,
        "jitter": chance.uniform(0.7, 1.3), "spread": chance.uniform(0.002, 0.015),
        "checkpoint_every": max(40, round(chance.uniform(150, 400) / step_s)),
        "checkpoint": chance.uniform(5, 20),
    }  # fmt: skip
    pods, per_pod = chance.choice(((1, 8), (2, 4), (2, 8)))
    usual = {"pool": "a", "team": "research", "namespace": "ml", "pull": 2, "start": 4}
    train = {
        **usual, "name": "train", "kind": chance.choice(("PyTorchJob", "JobSet", "Job", "TrainJob")),
        "pods": pods, "gpus_per_pod": per_pod, "arrivals": {"at": [0]}, "training": {**steps, **training},
        "duration_spread": 0, **({"duration": duration_s} if duration_s is not None else {}),
        "queue": "all",
    }  # fmt: skip
    other_step = chance.choice(_STEPS_S[:3]) / _USUAL_STEP_S
    other = {
        **usual, "name": "other", "kind": "Job", "gpus_per_pod": 4, "arrivals": {"at": [1]},
        "training": {"forward_s": 0.4 * other_step, "backward_s": 0.8 * other_step, "jitter": 1.0,
                     "checkpoint_every": 300, "checkpoint": 9},
    }  # fmt: skip
    chat = {
        **usual, "name": "chat", "kind": "Deployment", "namespace": "serving", "gpus_per_pod": 1,
        "arrivals": {"at": [2]},
    }  # fmt: skip
    return Scenario.model_validate(
        {
            "name": "episode",
            "pools": [
                {"name": "a", "model": chance.choice(("H200", "H100")), "nodes": chance.choice((3, 4))}
            ],
            "queues": [{"name": "all", "pool": "a", "gpus": 24}],
            "jobs": [train, other, chat],
            "faults": faults,
            "calm": calm,
            "collective_timeout": chance.choice((600, 1800)),
        }
    )


# Below what can be found, so that it is seen where that begins.
SWEEPS: Final = tuple(
    FaultClass(
        name, fault, tuple({key: value} for value in values), dict.fromkeys(kinds, None), frozenset(), 10,
        also=_STOPPED | {FindingKind.STRAGGLER}, is_fast=False, watch_s=watch_s,
    )
    for name, fault, key, values, kinds, watch_s in (
        ("straggler", {"kind": "straggler", "lasts": 1500}, "factor",
         (1.02, 1.04, 1.06, 1.08, 1.1, 1.15, 1.2), (FindingKind.STRAGGLER,), 420.0),
        ("throttling", {"kind": "thermal", "lasts": 1500}, "factor",
         (1.02, 1.04, 1.07, 1.1, 1.15, 1.2), (FindingKind.THROTTLING,), 420.0),
        ("stall that passes", {"kind": "stuck-data", "step_s": 1.3}, "lasts",
         (4.0, 7.0, 10.0, 13.0, 16.0, 20.0, 30.0), (_STALL,), 60.0),
        ("hang of a job with long steps", {"kind": "hang"}, "step_s", (5.0, 10.0, 20.0, 40.0),
         (_STALL, _HANG), 240.0),
        ("divergence", {"kind": "diverging"}, "factor", (1.02, 1.05, 1.1, 1.2, 1.3, 1.5),
         (FindingKind.DIVERGENCE,), 420.0),
        ("CPU fallback", {"kind": "cpu-fallback", "lasts": 1500}, "factor", (1.1, 1.3, 1.6, 2.0, 2.5),
         (FindingKind.CPU_FALLBACK,), 300.0),
    )
)  # fmt: skip
