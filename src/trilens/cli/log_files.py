"""Log files as they lie about: one for each rank or one for all, in folders, compressed, cut off."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.cli.compressed import unpacked
from trilens.cli.opened_file import STDIN, opened
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


class LogFiles:
    """Each is read while it is looked at, and none is kept. `missing` has what could not be read, then."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.missing: list[Missing] = []
        self._named = [(path, name) for path in paths for name in _files(path)]
        if not self._named:
            raise ConfigError(f"no files in {', '.join(paths)}", hint="name log files, or a folder of them")

    def sources(self) -> Iterator[LogSource]:
        for path, file in self._named:
            # In a folder there may be other things than logs; what was named itself must be one.
            if file == path:
                yield LogSource(_shown(path, file), self._lines(file))
                continue
            try:
                lines = self._lines(file)
                first = next(lines, None)
            except (ConfigError, IntakeError) as e:
                self.missing.append(Missing(f"{_shown(path, file)}: {e.message}", "hand it in as text"))
                continue
            if first is not None:
                yield LogSource(_shown(path, file), _again(first, lines))

    def _lines(self, file: str) -> Iterator[str]:
        with _opened(file) as stream:
            rest = ""
            while True:
                try:
                    chunk = stream.read(_CHUNK)
                except IntakeError as e:  # a gz that is still being written, or was cut
                    self.missing.append(Missing(f"the end of {file}: {e.message}", "hand in the whole file"))
                    chunk = b""
                if not chunk:
                    break
                lines = (rest + chunk.decode("utf-8", "replace")).split("\n")
                rest = lines.pop()
                yield from lines
                if len(rest) > _LONGEST:
                    rest = rest[:_LONGEST]
            if rest:
                yield rest


@contextmanager
def _opened(file: str) -> Iterator[Readable]:
    with opened(file) as raw:
        _refuse_binary(file, raw.stream)
        yield unpacked(raw.stream)


def _refuse_binary(file: str, stream: io.BufferedReader) -> None:
    start = stream.peek(_PEEKED)[:_PEEKED]
    packed = start.startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd"))
    if b"\0" in start and not packed:
        raise IntakeError(f"{file} is not text", hint="trilens flight reads dumps, --bundle reads bundles")


def _files(path: str) -> list[str]:
    if path == STDIN:
        return [path]
    here = Path(path)
    if here.is_dir():
        return [str(one) for one in sorted(here.rglob("*")) if one.is_file() and not one.name.startswith(".")]
    if not here.exists():
        raise ConfigError(f"no such file or folder: {path}")
    return [path]


def _shown(path: str, file: str) -> str:
    """Within the folder that was named; its name may tell the rank."""
    return "stdin" if file == STDIN else file if file == path else str(Path(file).relative_to(path))


def _again(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest
