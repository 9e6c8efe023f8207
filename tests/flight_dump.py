"""The dump of a flight recorder with one collective that nobody began, as PyTorch writes it."""

from __future__ import annotations

from typing import Any

ENTRY: dict[str, Any] = {
    "record_id": 7,
    "pg_id": 0,
    "process_group": ("0", "default_pg"),
    "collective_seq_id": 5,
    "p2p_seq_id": 0,
    "op_id": 5,
    "profiling_name": "nccl:all_reduce",
    "time_created_ns": 1794742845744153479,
    "input_sizes": [[4, 2]],
    "input_dtypes": ["Float"],
    "output_sizes": [[4, 2]],
    "output_dtypes": ["Float"],
    "state": "scheduled",
    "time_discovered_started_ns": None,
    "time_discovered_completed_ns": None,
    "retired": False,
    "timeout_ms": 20000,
    "is_p2p": False,
    "frames": [{"name": "step", "filename": "train.py", "line": 20}],
}
DUMP: dict[str, Any] = {
    "version": "2.10",
    "comm_lib_version": "2.27.5",
    "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
    "pg_status": {
        "0": {
            "last_enqueued_collective": 5,
            "last_started_collective": -1,
            "last_completed_collective": 4,
        }
    },
    "entries": [ENTRY],
}
