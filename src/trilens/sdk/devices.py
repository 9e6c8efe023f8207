"""Looks once a second whether the program has begun to use a GPU, and at the GPU's memory from then on."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trilens.sdk.pytorch.cuda import CudaMemory
    from trilens.sdk.recorder import Recorder


class Devices:
    """Imports nothing that the program did not: without torch, or with torch on the CPU, nothing is there."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._memory: CudaMemory | None = None

    def look(self) -> None:
        is_initialized = getattr(sys.modules.get("torch.cuda"), "is_initialized", None)
        if is_initialized is None or not is_initialized():  # not there, or being imported, or not used
            return
        if self._memory is None:
            from trilens.sdk.pytorch.cuda import CudaMemory

            self._memory = CudaMemory(self._recorder)
        self._memory.look()
