"""Phases of a step that are no work of its rank, by the names that the SDK gives them."""

from typing import Final

DATA_PHASES: Final = ("data",)
SYNC_PHASES: Final = ("grad_sync", "barrier")
CHECKPOINT_PHASES: Final = ("checkpoint",)
