"""Log files as they lie about: one for each rank or one for all, in folders, compressed, cut off."""

from __future__ import annotations

import codecs
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from trilens.cli.compressed import is_packed, unpacked
from trilens.cli.named_files import named_files, printable
from trilens.cli.opened_file import opened
from trilens.diagnose.logs.line import last_written
from trilens.diagnose.logs.reading import LogSource
from trilens.model.errors import ConfigError, IntakeError
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator, Sequence

    from trilens.cli.compressed import Readable

_CHUNK: Final = 1 << 20
_LONGEST: Final = 1 << 20  # characters of a line: what is longer is no text
_PEEKED: Final = 4_096
# A rotation or a full disk leaves many zeros in a log; what is no text has a few here and there.
_HOLE: Final = re.compile(rb"\0{32,}")
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # as PowerShell writes what a command says


class LogFiles:
    """Each is read while it is looked at, and none is kept. `missing` has what could not be read, then."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.missing: list[Missing] = []
        self._files = named_files(paths, self.missing)
        if not self._files and not self.missing:
            named = ", ".join(printable(path) for path in paths)
            raise ConfigError(f"no files in {named}", hint="name log files, or a folder of them")

    def sources(self) -> Iterator[LogSource]:
        for file in self._files:
            lines = self._lines(file.path, file.shown)
            if file.is_named:  # it must be a log; in a folder there may be other things
                yield LogSource(file.shown, lines)
                continue
            try:
                first = next(lines, None)
            except (ConfigError, IntakeError) as e:
                self.missing.append(Missing(f"{file.shown}: {e.message}", "hand it in as text"))
                continue
            if first is not None:
                yield LogSource(file.shown, _again(first, lines))

    def _lines(self, path: str, shown: str) -> Iterator[str]:
        with _opened(path, shown) as (stream, encoding):
            text = codecs.getincrementaldecoder(encoding)("replace")
            rest = ""
            while chunk := self._chunk(stream, shown):
                lines = (rest + text.decode(chunk).replace("\0", "")).split("\n")
                rest = lines.pop()
                yield from lines
                if len(rest) > _LONGEST:
                    rest = last_written(rest)[:_LONGEST]
            rest += text.decode(b"", final=True)
            if rest:
                yield rest

    def _chunk(self, stream: Readable, shown: str) -> bytes:
        try:
            return stream.read(_CHUNK)
        except (IntakeError, OSError) as e:  # a gz that is still being written, or was cut; a disk that fails
            why = e.message if isinstance(e, IntakeError) else e.strerror
            self.missing.append(Missing(f"the end of {shown}: {why}", "hand in the whole file"))
            return b""


@contextmanager
def _opened(path: str, shown: str) -> Iterator[tuple[Readable, str]]:
    with opened(path) as raw:
        start = _start(raw.stream, shown)
        if start.startswith(_UTF_16):
            yield raw.stream, "utf-16"
            return
        if b"\0" in _HOLE.sub(b"", start) and not is_packed(start):
            raise IntakeError(
                f"{shown} is not text", hint="trilens flight reads dumps, --bundle reads bundles"
            )
        yield unpacked(raw.stream), "utf-8"


def _start(stream: io.BufferedReader, shown: str) -> bytes:
    try:
        return stream.peek(_PEEKED)[:_PEEKED]
    except OSError as e:
        raise IntakeError(f"cannot read {shown}: {e.strerror}") from e


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
