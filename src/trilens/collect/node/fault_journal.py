"""The faults that were read, a line each: on disk one by one, so that a storm of them stays cheap."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from typing import BinaryIO

Entry = dict[str, Any]


class FaultJournal:
    """Not thread-safe. Raises OSError; after one, what is in the file is not known until it is rewritten."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lines = 0
        self._stream: BinaryIO | None = None

    def read(self) -> list[Entry]:
        """Up to the first line that a kill cut off: that one was never passed in the log."""
        try:
            content = self.file.read_bytes()
        except FileNotFoundError:
            return []
        entries: list[Entry] = []
        for line in content.splitlines(keepends=True):
            try:
                entry = json.loads(line)
            except ValueError:
                break
            if not line.endswith(b"\n") or not isinstance(entry, dict):
                break
            entries.append(entry)
        return entries

    def append(self, entry: Entry) -> None:
        """On disk on return."""
        if self._stream is None:
            self._stream = self.file.open("ab")
        try:
            _write(self._stream, [entry])
        except OSError:
            self.close()
            raise
        self.lines += 1

    def rewrite(self, entries: Iterable[Entry]) -> None:
        """With these alone."""
        self.close()
        kept = list(entries)
        draft = self.file.with_name(f"{self.file.name}.new")
        with draft.open("wb") as stream:
            _write(stream, kept)
        draft.replace(self.file)
        self.lines = len(kept)

    def close(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()


def _write(stream: BinaryIO, entries: Iterable[Entry]) -> None:
    stream.writelines(json.dumps(entry).encode() + b"\n" for entry in entries)
    stream.flush()
    os.fsync(stream.fileno())
