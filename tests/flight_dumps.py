"""Dumps as a flight recorder over NCCL writes them, a line for each operation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from trilens.diagnose.flight.cause import judge_dumps
from trilens.diagnose.flight.reading import DumpSource, read_dumps, read_stack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.diagnose.flight.flight_verdict import FlightVerdict

START_NS = 1_793_700_000_000_000_000
SECOND_NS = 1_000_000_000


def op(name: str, seq: int, state: str = "completed", group: str = "0", **more: Any) -> dict[str, Any]:
    """`name` as "all_reduce" or "send 0->1"; of p2p operations `seq` is the number among those."""
    is_p2p = more.pop("is_p2p", name.startswith(("send", "recv")))
    return {
        "process_group": (group, more.pop("desc", "default_pg" if group == "0" else group)),
        "collective_seq_id": 0 if is_p2p else seq,
        "p2p_seq_id": seq if is_p2p else 0,
        "profiling_name": f"nccl:{name}",
        "state": state,
        "is_p2p": is_p2p,
        "input_sizes": [[8]],
        "output_sizes": [[8]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "time_created_ns": START_NS + seq * SECOND_NS,
        "timeout_ms": 600_000,
        "frames": [
            {"name": "all_reduce", "filename": "/usr/lib/python3/torch/distributed/c10d.py", "line": 9},
            {"name": "step", "filename": "/train/loop.py", "line": 40 + seq},
        ],
        **more,
    }


def dump(
    entries: Sequence[Mapping[str, Any]], groups: Mapping[str, Sequence[int]], first: int = 0, **more: Any
) -> dict[str, Any]:
    """`first` is the number of the oldest that the ring buffer still has."""
    return {
        "version": "2.10",
        "pg_config": {
            name: {"name": name, "desc": "default_pg" if name == "0" else name, "ranks": str(list(ranks))}
            for name, ranks in groups.items()
        },
        "entries": [{"record_id": first + at, **entry} for at, entry in enumerate(entries)],
        **more,
    }


def sources(dumps: Mapping[int, Mapping[str, Any]]) -> list[DumpSource]:
    return [DumpSource(f"nccl_trace_rank_{rank}", json.dumps(told).encode()) for rank, told in dumps.items()]


def judged(dumps: Mapping[int, Mapping[str, Any]], stacks: Mapping[int, str] | None = None) -> FlightVerdict:
    read = {rank: stack for rank, text in (stacks or {}).items() if (stack := read_stack(text)) is not None}
    return judge_dumps(read_dumps(sources(dumps), read))
