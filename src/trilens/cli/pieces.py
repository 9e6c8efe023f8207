"""A file of samples, however large, cut into pieces of whole lines that can each be read alone."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from trilens.model.errors import ExpositionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.cli.compressed import Readable

PIECE_BYTES: Final = 8 << 20  # well below what a server takes at once (server.max_body)
_END: Final = b"# EOF"
_TYPE: Final = b"# TYPE "


class Piece(NamedTuple):
    """`text` begins with line `first_line` of the file: one earlier where a `# TYPE` line is repeated."""

    text: bytes
    first_line: int
    end: int  # bytes of the file that are read once this piece is


def pieces(stream: Readable, size: int = PIECE_BYTES) -> Iterator[Piece]:
    """The family that a piece ends in goes on in the next one, so its type is said again there."""
    rest, kind, line, end = b"", b"", 1, 0
    while chunk := stream.read(size):
        end += len(chunk)
        whole = chunk.rfind(b"\n") + 1
        if not whole and len(rest) + len(chunk) > size:
            raise ExpositionError("the line does not end; is this a text file?", line=line)
        text, rest = (rest + chunk[:whole], chunk[whole:]) if whole else (b"", rest + chunk)
        if text:
            yield Piece(kind + text, line - kind.count(b"\n"), end)
            line += text.count(b"\n")
            kind = _last_type(text) or kind
    if rest:
        yield Piece(kind + rest, line - kind.count(b"\n"), end)


def has_end(text: bytes) -> bool:
    """Whether an OpenMetrics text, or its last piece, is all there."""
    return text == _END or text.removesuffix(b"\n").endswith(b"\n" + _END) or text == _END + b"\n"


def file_has_end(file: BinaryIO) -> bool:
    """Looks at the end of a seekable file, and goes back to its beginning."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - len(_END) - 2))
    tail = file.read()
    file.seek(0)
    return has_end(tail)


def _last_type(text: bytes) -> bytes:
    """The last `# TYPE` line, with its newline."""
    at = 0 if text.startswith(_TYPE) else -1
    at = max(at, text.rfind(b"\n" + _TYPE) + 1 or -1)
    return text[at : text.index(b"\n", at) + 1] if at >= 0 else b""
