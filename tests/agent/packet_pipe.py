"""A pipe that keeps records apart, one a read, as /dev/kmsg does."""

from __future__ import annotations

import os
from pathlib import Path


class PacketPipe:
    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_DIRECT | os.O_CLOEXEC)

    @property
    def path(self) -> Path:
        return Path(f"/proc/self/fd/{self._reader}")

    def write(self, *records: str) -> None:
        for record in records:
            os.write(self._writer, f"{record}\n".encode())

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)
