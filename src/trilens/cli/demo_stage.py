"""The faults that `trilens demo --fault` shows, and a simulated cluster in which each has a job and nodes of
its own, so that what is said of one is not said of another."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trilens.model.errors import ConfigError
from trilens.simulate.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMESPACE: Final = "demo"
AGE_S: Final = 240  # of the cluster when it begins to answer: its jobs have a rhythm by then
ALL: Final = "all"
QUICK: Final = "quick"
_QUICK_S: Final = 120
_KNOWN_S: Final = 20  # until detectors have looked at it a few times
_USUAL_S: Final = 30  # until it is known what is usual
_SETTLED_S: Final = 50  # until silence is taken for what it is (detect/looking.py)
_RANKS: Final = 4
_STEP: Final = {
    "data_s": 0.03, "forward_s": 0.2, "backward_s": 0.4, "grad_sync_s": 0.07, "optimizer_s": 0.05,
    "jitter": 1, "checkpoint_every": 150, "checkpoint": 4, "flight_recorder": True,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShownFault:
    """What goes wrong, and which alert says so."""

    name: str
    what: str
    alert: str
    names: Sequence[str]  # labels by which the alert says whom it is about
    strikes: Mapping[str, Any]  # as a fault of a scenario, without its time and its job
    lasts_s: int = 45  # or until its alert has arrived; 0 where it happens at one moment
    resolves_s: int = 60  # about, after it is over
    after_s: int = _USUAL_S  # that the cluster must have been watched
    ends_by_restart: bool = False  # it would stay: somebody restarts the job when it has lasted so long
    nodes: int = 1
    training: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_quick(self) -> bool:
        return self.lasts_s + self.resolves_s <= _QUICK_S

    @property
    def longest_s(self) -> float:
        """That it lasts where its alert is late: a busy machine."""
        return 2 * self.lasts_s + 30

    @property
    def job(self) -> str:
        """Also the name of its pool of nodes."""
        return self.name

    def fault(self, stage: Scenario) -> dict[str, Any]:
        """As the simulator takes it. It is ended by who shows it, so it lasts for longer than that takes."""
        fault = {**self.strikes, "lasts": 2 * self.longest_s}
        if "node" not in self.strikes:
            return {**fault, "job": self.job}
        pools = [pool.name for pool in stage.pools]
        before = sum(pool.nodes for pool in stage.pools[: pools.index(self.job)])
        return {**fault, "node": before + self.strikes["node"]}


_WHO: Final = ("workload", "rank")
_GPU: Final = ("node", "UUID")
_SUSPECT: Final = "FindingSuspectTelemetry"

SHOWN: Final = (
    ShownFault(
        "stuck-data", "storage does not answer, all ranks wait for data",
        "FindingStall", ("workload",), {"kind": "stuck-data"},
    ),
    ShownFault(
        "gil-held", "C code holds the interpreter of a rank",
        "FindingStall", _WHO, {"kind": "gil-held", "rank": 2}, after_s=_SETTLED_S,
    ),
    ShownFault(
        "process-dead", "a rank's process is gone, and its pod runs on",
        "FindingStall", _WHO, {"kind": "process-dead", "rank": 1}, after_s=_SETTLED_S, ends_by_restart=True,
    ),
    ShownFault(
        "hang", "a rank does not come to the collective, the others spin",
        "FindingHang", _WHO, {"kind": "hang", "rank": 3}, lasts_s=60, ends_by_restart=True,
    ),
    ShownFault(
        "exception", "a rank raises",
        "FindingCrash", _WHO, {"kind": "exception", "rank": 2}, lasts_s=0, resolves_s=75,
    ),
    ShownFault(
        "oom-killed", "a container takes more memory than it may",
        "FindingCrash", ("workload",), {"kind": "oom-killed"}, lasts_s=0, resolves_s=75, after_s=_SETTLED_S,
    ),
    ShownFault(
        "node-not-ready", "one of a job's two nodes dies",
        "FindingCrash", ("node",), {"kind": "node-not-ready", "node": 1}, lasts_s=60,
        after_s=_SETTLED_S, nodes=2,
    ),
    ShownFault(
        "gpu-lost", "a GPU vanishes, and nothing is logged",
        "FindingGpuFault", _GPU, {"kind": "gpu-lost", "rank": 1},
    ),
    ShownFault(
        "xid-79", "a GPU falls off the bus, and the kernel says so",
        "FindingGpuFault", _GPU, {"kind": "xid", "code": 79, "rank": 0}, resolves_s=660,
    ),
    ShownFault(
        "xid-31", "a program reads where it must not: its fault, not the GPU's",
        "FindingGpuFault", _GPU, {"kind": "xid", "code": 31, "rank": 0}, lasts_s=0, resolves_s=660,
    ),
    ShownFault(
        "thermal", "a GPU gets hot, and its clock falls",
        "FindingThrottling", _GPU, {"kind": "thermal", "rank": 2, "factor": 1.6},
    ),
    ShownFault(
        "straggler", "a rank is slower, and its GPU does not say why",
        "FindingStraggler", _WHO, {"kind": "straggler", "rank": 1, "factor": 1.6},
    ),
    ShownFault(
        "cpu-fallback", "steps go on without the GPUs",
        "FindingCpuFallback", ("workload",), {"kind": "cpu-fallback", "factor": 5}, lasts_s=55,
    ),
    ShownFault(
        "nan", "the loss is no number any more",
        "FindingDivergence", ("workload",), {"kind": "nan"}, ends_by_restart=True,
    ),
    ShownFault(
        "diverging", "the loss grows and grows",
        "FindingDivergence", ("workload",), {"kind": "diverging", "factor": 3}, ends_by_restart=True,
    ),
    ShownFault(
        "plateau", "the loss no longer falls",
        "FindingPlateau", ("workload",), {"kind": "plateau"}, lasts_s=420, ends_by_restart=True,
    ),
    ShownFault(
        "prof-stuck", "profiling fields of a node read 0",
        _SUSPECT, ("node",), {"kind": "prof-stuck", "node": 0}, lasts_s=60, after_s=_KNOWN_S,
    ),
    ShownFault(
        "labels-lost", "readings of a node name no pod any more",
        _SUSPECT, ("node",), {"kind": "labels-lost", "node": 0}, lasts_s=60, after_s=_SETTLED_S,
    ),
    ShownFault(
        "readings-blank", "DCGM does not know power and temperature of a node's GPUs",
        _SUSPECT, ("node",), {"kind": "readings-blank", "node": 0}, after_s=_KNOWN_S,
    ),
    ShownFault(
        "exporter-silent", "dcgm-exporter of a node does not answer",
        _SUSPECT, ("node",), {"kind": "exporter-silent", "node": 0}, lasts_s=60, after_s=_KNOWN_S,
    ),
    ShownFault(
        "readings-frozen", "the exporter of a node says the same again and again",
        _SUSPECT, ("node",), {"kind": "readings-frozen", "node": 0}, lasts_s=150, after_s=_KNOWN_S,
    ),
    ShownFault(
        "checkpoint-failing", "no checkpoint is written",
        "TrainingCheckpointFailed", ("workload",), {"kind": "checkpoint-failing"}, lasts_s=120,
        resolves_s=960, training={"checkpoint_every": 60},
    ),
    ShownFault(
        "slow-data", "loading takes most of each step",
        "TrainingDataBound", ("workload",), {"kind": "slow-data", "factor": 30}, lasts_s=720, resolves_s=240,
    ),
)  # fmt: skip


def chosen(written: str) -> list[ShownFault]:
    """`all`, `quick`, or names with commas between them. Raises ConfigError."""
    by_name = {one.name: one for one in SHOWN}
    found: dict[str, ShownFault] = {}
    for name in (part.strip() for part in written.split(",")):
        if name == ALL:
            found.update(by_name)
        elif name == QUICK:
            found.update({one.name: one for one in SHOWN if one.is_quick})
        elif name in by_name:
            found[name] = by_name[name]
        else:
            near = difflib.get_close_matches(name, [*by_name, ALL, QUICK], n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(
                f"--fault: there is no fault {name!r}", hint=f"{hint}`trilens demo --list-faults` has all"
            )
    return [one for one in SHOWN if one.name in found]


def stage(faults: Sequence[ShownFault]) -> Scenario:
    return Scenario.model_validate(
        {
            "name": "faults",
            "description": "A job for each fault that is shown, on nodes of its own.",
            "pools": [
                {"name": one.job, "model": "H100", "nodes": one.nodes, "gpus_per_node": _RANKS // one.nodes}
                for one in faults
            ],
            "queues": [{"name": one.job, "pool": one.job, "gpus": _RANKS} for one in faults],
            "jobs": [_job(one) for one in faults],
        }
    )


def _job(one: ShownFault) -> dict[str, Any]:
    return {
        "name": one.job, "kind": "PyTorchJob", "namespace": NAMESPACE, "team": "research",
        "pool": one.job, "queue": one.job, "pods": one.nodes, "gpus_per_pod": _RANKS // one.nodes,
        "arrivals": {"at": [0]}, "pull": 2, "start": 3, "training": {**_STEP, **one.training},
    }  # fmt: skip
