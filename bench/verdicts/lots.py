"""Which simulated faults are asked about, when, and what is right to say of each: by what the simulator does.

Strict: a cause that is true but follows from the fault is not right, unless the reason beside it says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from bench.detect.episodes import FAULTS, FaultClass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Lot(NamedTuple):
    """What is asked of one class of faults."""

    fault: FaultClass
    causes: Mapping[str, str]  # that are right, with why
    after_s: Sequence[float]  # the fault began
    severities: int = 2  # of those that the class has; each is an episode
    group: str = ""  # of the table; the class' own where it is not said


class Quiet(NamedTuple):
    """What is asked of one class in which nothing goes wrong, and nothing that is wrong may be told."""

    name: str
    at_s: Sequence[float] = (30.0,)  # after it began to look like trouble
    job: str = "train-1"
    causes: Mapping[str, str] = {}  # that are right besides


_OF: Final = {one.name: one for one in FAULTS}
_SOON: Final = (30.0, 120.0)
_FELL: Final = (15.0, 60.0)  # before the job begins anew, and after it
_WAITS: Final = {"gpus-unhealthy": "the pods made since wait for just that GPU"}
_BY_XID: Final[Mapping[int, Mapping[str, str]]] = {
    13: {"illegal-gpu-work": "the program's own access out of bounds"},
    31: {"illegal-gpu-work": "the program's own illegal address"},
    48: {"dead-gpu": "a double-bit error takes the GPU out until it is reset", **_WAITS},
    63: {
        "gpu-wears-out": "a worn row was noted for replacement: the GPU works on",
        "nothing-wrong": "NVIDIA's catalogue asks for nothing, and the job goes on",
    },
    64: {"dead-gpu": "a row could not be replaced: the GPU has to be reset"},
    74: {"broken-link": "an error of NVLink"},
    79: {"dead-gpu": "off its bus", **_WAITS},
    94: {"memory-error-contained": "the program has lost data, the GPU goes on"},
    95: {"dead-gpu": "none on that GPU can be trusted until it is reset", **_WAITS},
    119: {"dead-gpu": "its system processor does not answer: it has to be reset"},
}
_SLOW_DATA: Final = FaultClass(
    "slow data", {"kind": "slow-data", "lasts": 1500}, ({"factor": 12.0}, {"factor": 30.0}), {}, frozenset(),
    1, has_rank=False, is_fast=False, watch_s=420.0,
)  # fmt: skip
_PREEMPTION: Final = FaultClass(
    "preemption", {"kind": "preemption", "lasts": 1500}, ({"step_s": 0.4}, {"step_s": 2.6}), {}, frozenset(),
    1, has_rank=False,
)  # fmt: skip
_STOPPED: Final = (
    Lot(_OF["stall: data"], {"data-stopped": "the storage does not answer any more"}, _SOON),
    Lot(_OF["stall: GIL held"], {"interpreter-locked": "C code keeps the interpreter"}, _SOON),
    Lot(_OF["stall: process dead"], {"rank-killed": "its process is gone without a word"}, _SOON),
    Lot(
        _OF["hang: collective"],
        {
            "rank-not-there": "it does not come to the collective",
            "logs-rank-behind": "the same, once its stacks have come",
        },
        _SOON,
    ),
    Lot(_OF["hang: metrics only"], {"rank-not-there": "the same, seen in scraped metrics"}, _SOON),
    Lot(_OF["hang: telemetry alone"], {"rank-not-there": "the same, seen by GPUs alone"}, (60.0, 140.0), 4),
    Lot(_OF["crash: exception"], {"rank-raised": "it raised"}, _FELL),
    Lot(_OF["crash: out of memory"], {"container-out-of-memory": "OOMKilled, its host's memory"}, _FELL),
    Lot(_OF["crash: node gone"], {"node-lost": "nothing of the node answers"}, _SOON),
    Lot(_PREEMPTION, {"job-preempted": "Kueue took its quota"}, _FELL),
    Lot(_OF["GPU lost"], {"dead-gpu": "it is gone from its node", **_WAITS}, _SOON),
    *(
        Lot(_OF[f"Xid {code}"], causes, _SOON, 1, "Xid, ten classes")
        for code, causes in _BY_XID.items()
    ),
)  # fmt: skip
_GOES_ON: Final = (
    Lot(_OF["straggler"], {"slow-rank": "it is slower, and its GPU does not say why"}, (180.0,), 4),
    Lot(_OF["throttling"], {"gpu-too-hot": "held down by its temperature"}, (60.0, 180.0), 3),
    Lot(_OF["CPU fallback"], {"fell-back-to-cpu": "steps go on, and GPUs do nothing"}, (180.0,), 3),
    Lot(_SLOW_DATA, {"data-loader-slow": "loading takes longer, and GPUs wait"}, (240.0,)),
    Lot(_OF["divergence: NaN"], {"loss-not-a-number": "the loss is NaN"}, (60.0,)),
    Lot(
        _OF["divergence: rising"],
        {
            "loss-diverges": "the loss rises",
            "gradients-explode": "the simulator's gradient rises with its square",
        },
        (300.0,),
    ),
    Lot(_OF["plateau"], {"loss-flat": "the loss stays where it is"}, (900.0,), 1),
)
_TELEMETRY: Final = tuple(
    Lot(_OF[f"suspect telemetry: {name}"], {cause: reason}, (after_s,), 1, "suspect telemetry")
    for name, cause, reason, after_s in (
        ("PROF at 0", "profiling-counters-stuck", "its profiling fields read 0", 180.0),
        ("frozen", "readings-frozen", "the same again and again", 240.0),
        ("blank", "readings-not-known", "DCGM's word for it", 180.0),
        ("labels lost", "pod-labels-lost", "no pod is named any more", 180.0),
        ("gap", "scrape-fails", "the exporter does not answer", 180.0),
    )
)
LOTS: Final = (*_STOPPED, *_GOES_ON, *_TELEMETRY)

FINE: Final = {
    "nothing-wrong": "nothing is",
    "pace-is-steady": "it is not slower",
    "loss-falls": "it learns",
    "telemetry-fine": "what is seen can be believed",
    "gpu-in-use": "it uses its GPUs",
    "not-pending": "its pods run",
    "still-starting": "it has just begun",
}
_DRAINED: Final = {"pod-evicted": "somebody empties the node, and nothing else is wrong"}
QUIET: Final = (
    Quiet("long checkpoint"),
    Quiet("validation"),
    Quiet("compilation"),
    Quiet("flat part of the loss", (60.0,)),
    Quiet("loss spike"),
    Quiet("autoscaling", (15.0, 60.0), "chat-1"),
    Quiet("node drain", (15.0, 60.0), causes=_DRAINED),
    Quiet("job ends", (150.0,)),
    Quiet("stable spread of ranks", (120.0,)),
    Quiet("data hiccup", (5.0, 30.0)),
    Quiet("old Xid", (300.0,)),
    Quiet("nothing at all", (120.0,)),
)
