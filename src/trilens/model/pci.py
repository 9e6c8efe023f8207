"""Where a device sits on the PCI bus, which is how the kernel names GPUs."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_SPELLINGS: Final = re.compile(
    r"(?:PCI:)?(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})(?:\.[0-7])?",
    re.IGNORECASE,
)


class PciAddress(NamedTuple):
    """The kernel writes 0000:9b:00, the driver's library 00000000:9B:00.0: the same place."""

    domain: int
    bus: int
    device: int

    @classmethod
    def parse(cls, text: str) -> PciAddress | None:
        """None if `text` names no place on the bus."""
        found = _SPELLINGS.fullmatch(text.strip())
        if found is None:
            return None
        return cls(*(int(part, 16) for part in (found["domain"] or "0", found["bus"], found["device"])))

    def __str__(self) -> str:
        """As NVML and dcgm-exporter write it."""
        return f"{self.domain:08X}:{self.bus:02X}:{self.device:02X}.0"
