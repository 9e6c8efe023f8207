"""What a machine has beside its GPUs: cores and memory, as the kernel counts them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.model.node import Hardware

if TYPE_CHECKING:
    from pathlib import Path

_CORE: Final = re.compile(r"^cpu[0-9]+ ", re.MULTILINE)
_MEMORY: Final = re.compile(r"^MemTotal:\s+([0-9]+) kB$", re.MULTILINE)


def read_hardware(proc_dir: Path) -> Hardware:
    """Of the whole machine, also from inside a container; None for what cannot be read."""
    cores = len(_CORE.findall(_text(proc_dir / "stat")))
    memory = _MEMORY.search(_text(proc_dir / "meminfo"))
    return Hardware(cores or None, int(memory[1]) * 1024 if memory else None)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
