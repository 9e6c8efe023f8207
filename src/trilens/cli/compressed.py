"""Text that may be compressed: gzip and zstd are known by their first bytes, whatever the file's name."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilens.model.errors import IntakeError

if TYPE_CHECKING:
    import io

_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_OTHERS: Final = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}


class Readable(Protocol):
    def read(self, size: int, /) -> bytes: ...


def is_packed(start: bytes) -> bool:
    return start.startswith((_GZIP, _ZSTD))


def unpacked(raw: io.BufferedReader) -> Readable:
    """The text in a stream, unpacked as it is read; the stream itself where it is text already."""
    start = raw.peek(6)
    for magic, name in _OTHERS.items():
        if start.startswith(magic):
            raise IntakeError(f"this is {name}, which is not unpacked here", hint="gzip and zstd are")
    if start.startswith(_GZIP):
        return _Unpacked(gzip.GzipFile(fileobj=raw))
    if start.startswith(_ZSTD):
        try:
            import pyarrow  # of the server's packages, and slow to load
        except ImportError as e:
            hint = "unpack it, or pip install 'trilens[server]'"
            raise IntakeError("this is zstd, for which pyarrow is needed", hint=hint) from e
        return _Unpacked(pyarrow.CompressedInputStream(raw, "zstd"))
    return raw


class _Unpacked:
    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._damage: IntakeError | None = None

    def read(self, size: int, /) -> bytes:
        """What is before the damage is given first: a file that is cut off has most of what it had."""
        taken = bytearray()
        while self._damage is None and len(taken) < size:
            try:
                part = self._stream.read1(size - len(taken))
            except (EOFError, OSError, zlib.error) as e:
                self._damage = IntakeError(f"the compressed data is damaged or cut off: {e}")
                self._damage.__cause__ = e
                break
            if not part:
                break
            taken += part
        if self._damage is not None and not taken:
            raise self._damage
        return bytes(taken)
