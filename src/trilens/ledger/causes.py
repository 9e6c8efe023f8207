"""Why a GPU-second is in its bucket: one word each, kept with the rows; `cost why` says them in sentences."""

from __future__ import annotations

from typing import Final

STEPS: Final = "steps"  # productive, data_wait, sync_wait: the ordinary course of training
VALIDATION: Final = "validation"
FINISHING: Final = "finishing"  # after the last step, before the program ended
SAVING: Final = "saving"
RESTORING: Final = "restoring"  # a checkpoint was read
LOADING: Final = "loading"  # the program runs, its first step has not begun
PULLING: Final = "pulling"
RESTARTING: Final = "restarting"  # between two lives of a rank
NO_STEP: Final = "no-step"
HUNG: Final = "hung"  # telemetry alone: a kernel runs all the time at little more than idle power
LOST_WORK: Final = "lost-work"  # a crash threw these steps away
IDLE: Final = "idle"
ENDED: Final = "ended"  # its program is over, its pod still holds the GPU
NEVER_USED: Final = "never-used"
BUSY: Final = "busy"
NO_SIGNAL: Final = "no-signal"
REQUESTS: Final = "requests"
NO_REQUESTS: Final = "no-requests"
FREE: Final = "free"
GPU_LOST: Final = "gpu-lost"
FAULT: Final = "fault"  # an Xid that takes the GPU or its node out
NOT_READY: Final = "not-ready"
CORDONED: Final = "cordoned"
IMPORTED: Final = "imported"
