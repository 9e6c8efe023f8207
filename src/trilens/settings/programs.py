"""Variables of client commands and of programs that report to a server: beside one they are no mistake."""

from __future__ import annotations

from typing import Final

VARIABLES_OF_PROGRAMS: Final = frozenset(
    {
        "TRILENS_ATTACH_PID",
        "TRILENS_CLUSTER",
        "TRILENS_DISABLED",
        "TRILENS_EXPERIMENT",
        "TRILENS_INTERVAL_S",
        "TRILENS_METRICS_LISTEN",
        "TRILENS_RUN",
        "TRILENS_RUN_ID",
        "TRILENS_RUN_NAME",
        "TRILENS_SERVER",
        "TRILENS_SPOOL",
        "TRILENS_SPOOL_BYTES",
        "TRILENS_STALL_AFTER_S",
        "TRILENS_TEAM",
        "TRILENS_TOKEN",
        "TRILENS_TOKEN_FILE",
        "TRILENS_TOTAL_STEPS",
    }
)
