"""The framing of the file that W&B keeps of a run: a header, then LevelDB's log in blocks of 32 KiB."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from trilens.model.errors import TrackerError

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER: Final = b":W&B\xe1\xbe\x00"  # a name, a magic number, version 0
_BLOCK: Final = 32 * 1024
_CHUNK: Final = struct.Struct("<IHB")  # checksum, length, kind
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def records(data: bytes, *, at: int) -> Iterator[tuple[bytes, int]]:
    """Each whole record with where the next begins; `data` is the file from byte `at` on.

    A record that is cut off is not there yet.
    """
    parts: list[bytes] = []
    start = 0
    while True:
        left = _BLOCK - (at + start) % _BLOCK
        if left < _CHUNK.size:  # too little for a chunk: the rest of a block is padding
            start += left
            continue
        if start + _CHUNK.size > len(data):
            return
        check, size, kind = _CHUNK.unpack_from(data, start)
        if size > left - _CHUNK.size or not _WHOLE <= kind <= _LAST:
            raise TrackerError(f"no record of a W&B file at byte {at + start}")
        end = start + _CHUNK.size + size
        if end > len(data):
            return
        if zlib.crc32(data[start + 6 : end]) != check:
            raise TrackerError(f"a damaged record at byte {at + start}")
        if (kind in (_WHOLE, _FIRST)) == bool(parts):
            raise TrackerError(f"a record at byte {at + start} begins inside of another")
        parts.append(data[start + _CHUNK.size : end])
        start = end
        if kind in (_WHOLE, _LAST):
            yield b"".join(parts), at + end
            parts = []
