"""What PyTorch's flight recorder has written down of this rank's collectives."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trilens.sdk.distributed.bounded import within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LIMIT_S: Final = 10.0
_FRAMES_LIMIT_S: Final = 60.0  # naming the first frames takes PyTorch seconds: it reads its own symbols
_PIPES: Final = ("TORCH_FR_DUMP_PIPE_FILE", "TORCH_NCCL_DEBUG_INFO_PIPE_FILE")
_FILES: Final = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def dump_collectives(
    environ: Mapping[str, str], rank: int, most_bytes: int, *, with_frames: bool = True
) -> bytes | None:
    """The fullest dump that fits, as PyTorch pickles it; None where there is none, or it does not answer.

    Takes up to a minute, during which the program can run on.
    """

    def fitting(limit_s: float, read: Callable[[], bytes | None]) -> bytes | None:
        try:
            content = within(limit_s, read, what="flight recorder")
        except Exception:  # noqa: BLE001 - private to PyTorch, and different from version to version
            return None
        return content if content and len(content) <= most_bytes else None

    pipe = next((environ[name] for name in _PIPES if environ.get(name)), None)
    file = next((environ[name] for name in _FILES if environ.get(name)), None)
    if pipe and file:
        asked = fitting(_LIMIT_S, lambda: _through_pipe(Path(f"{pipe}{rank}.pipe"), Path(f"{file}{rank}")))
        if asked is not None:
            return asked
    c10d: Any = sys.modules.get("torch._C._distributed_c10d")
    # NCCL's own knows more, where this torch has it; the other one serves every backend.
    dump = getattr(c10d, "_dump_nccl_trace", None) or getattr(c10d, "_dump_fr_trace", None)
    if dump is None:
        return None
    brief = fitting(_LIMIT_S, lambda: bytes(dump(includeStackTraces=False)))
    if brief is None:
        return fitting(_LIMIT_S, lambda: bytes(dump(includeStackTraces=False, onlyActive=True)))
    return (fitting(_FRAMES_LIMIT_S, lambda: bytes(dump())) if with_frames else None) or brief


def _through_pipe(pipe: Path, file: Path) -> bytes | None:
    """Asks the thread that PyTorch has for this: it writes while the program's threads hang in NCCL."""
    asked_s = time.time()
    try:
        opened = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        os.write(opened, b"1\n")
    finally:
        os.close(opened)
    deadline_s = time.monotonic() + _LIMIT_S / 2
    size = -1
    while time.monotonic() < deadline_s:
        time.sleep(0.2)
        try:
            told = file.stat()
        except OSError:
            continue
        if told.st_mtime >= asked_s - 1 and told.st_size == size:  # no longer growing
            return file.read_bytes()
        size = told.st_size
    return None
