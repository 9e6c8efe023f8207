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


def unpacked(raw: io.BufferedReader) -> Readable:
    """The text in a stream, unpacked as it is read; the stream itself where it is text already."""
    start = raw.peek(6)
    for magic, name in _OTHERS.items():
        if start.startswith(magic):
            raise IntakeError(f"this is {name}, which is not unpacked here", hint="gzip and zstd are")
    if start.startswith(_GZIP):
        return _Unpacked(gzip.GzipFile(fileobj=raw))
    if start.startswith(_ZSTD):
        import pyarrow  # of the server's packages, and slow to load

        return _Unpacked(pyarrow.CompressedInputStream(raw, "zstd"))
    return raw


class _Unpacked:
    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, size: int, /) -> bytes:
        try:
            return bytes(self._stream.read(size))
        except (EOFError, OSError, zlib.error) as e:
            raise IntakeError(f"the compressed data is damaged or cut off: {e}") from e
