"""What the flight recorder of a simulated rank holds while its job stands still, as PyTorch dumps it."""

from __future__ import annotations

import pickle
from typing import Any, Final, NamedTuple

_PER_STEP: Final = 57  # collectives: the gradients come in so many buckets
_HANGS_IN: Final = 31  # the bucket of a step that a hang meets
_KEPT: Final = 12  # of the ring buffer, so much as anybody looks at
_TIMEOUT_MS: Final = 600_000  # unless a program asks for another
_ELEMENTS: Final = 26_214_400
_GROUP: Final = ("0", "default_pg")
_VERSION: Final = "2.5"  # of the format, as torch 2.7 writes it
_FRAMES: Final = (
    {
        "name": "all_reduce",
        "filename": "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py",
        "line": 2806,
    },
    {"name": "reduce_gradients", "filename": "/workspace/sync.py", "line": 47},
    {"name": "train_step", "filename": "/workspace/train.py", "line": 214},
)


def hung_in(step: int) -> int:
    """The number of the collective in which the ranks wait that have ended so many steps."""
    return _PER_STEP * step + _HANGS_IN


class Standstill(NamedTuple):
    ranks: int
    step: int  # the last that has ended
    since_ns: int
    step_ns: int


def standing(stands: Standstill, phase: str) -> dict[str, Any]:
    """How far a rank has come that stands in this phase, as the SDK's note has it."""
    waits = phase == "grad_sync"
    before = {"data": _PER_STEP * stands.step, "backward": hung_in(stands.step) - 1}
    entered = hung_in(stands.step) if waits else before[phase]
    return {
        "group": _GROUP[0],
        "description": _GROUP[1],
        "first": 0,
        "size": stands.ranks,
        "entered": entered,
        "pending": entered if waits else None,
        "operation": "all_reduce" if waits else "",
    }


def dumped(stands: Standstill, told: dict[str, Any], nccl: str) -> bytes:
    """The dump of a rank that has come as far as told; a pickle, as PyTorch makes it."""
    entered, pending = told["entered"], told["pending"]
    numbers = range(max(entered - _KEPT, 0) + 1, entered + 1)
    entries = [_entry(stands, number, is_over=number != pending) for number in numbers]
    ended = entered if pending is None else pending - 1
    return pickle.dumps(
        {
            "version": _VERSION,
            "nccl_version": nccl,
            "pg_config": {
                _GROUP[0]: {"name": _GROUP[0], "desc": _GROUP[1], "ranks": str([*range(stands.ranks)])}
            },
            "pg_status": {
                _GROUP[0]: {
                    "last_enqueued_collective": entered,
                    "last_started_collective": entered,
                    "last_completed_collective": ended,
                }
            },
            "entries": entries,
        },
        protocol=2,
    )


def _entry(stands: Standstill, number: int, *, is_over: bool) -> dict[str, Any]:
    """They follow each other at equal distances, the last one as far into its step as it stands there."""
    each_ns = stands.step_ns // _PER_STEP
    created_ns = stands.since_ns + (number - _PER_STEP * stands.step) * each_ns
    return {
        "frames": list(_FRAMES),
        "record_id": number,
        "pg_id": 0,
        "process_group": _GROUP,
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "nccl:all_reduce",
        "time_created_ns": created_ns,
        "time_discovered_started_ns": created_ns + each_ns // 4,
        "time_discovered_completed_ns": created_ns + each_ns // 2 if is_over else None,
        "duration_ms": each_ns / 4e6 if is_over else None,
        "input_sizes": ((_ELEMENTS,),),
        "input_dtypes": ["BFloat16"],
        "output_sizes": ((_ELEMENTS,),),
        "output_dtypes": ["BFloat16"],
        "state": "completed" if is_over else "started",
        "timeout_ms": _TIMEOUT_MS,
        "is_p2p": False,
        "retired": is_over,
    }
