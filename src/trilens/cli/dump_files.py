"""Dumps of flight recorders as they lie about, with stacks beside them, in folders, compressed, cut off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.cli.compressed import unpacked
from trilens.cli.named_files import named_files, printable
from trilens.cli.opened_file import opened
from trilens.diagnose.flight.reading import DumpSource, read_stack
from trilens.model.errors import ConfigError, IntakeError
from trilens.model.flight_recorder import rank_of_file
from trilens.model.plain_pickle import MAX_BYTES
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.cli.named_files import NamedFile
    from trilens.diagnose.logs.tracebacks import Stack

_STACKS_OF: Final = re.compile(r"rank[_-]?(\d{1,6})(?!\d)")
_PACKED: Final = (".gz", ".zst")
_BEGIN: Final = (b"\x80", b"{")  # a pickle, and JSON
_PART: Final = 1 << 20
_HINT: Final = (
    "PyTorch writes dumps to TORCH_FR_DUMP_TEMP_FILE, TORCH_NCCL_DEBUG_INFO_TEMP_FILE in older versions"
)


class DumpFiles:
    """Dumps are read one by one, as they are looked at: all at once they may be more than fits into memory.
    `missing` has what could not be read at all, then."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.missing: list[Missing] = []
        self.stacks: dict[int, Stack] = {}
        # In a folder there may be other things: what is named like no dump and is none is passed over.
        self._dumps = [file for file in named_files(paths, self.missing, _HINT) if self._is_dump(file)]
        if not self._dumps:
            named = ", ".join(printable(path) for path in paths)
            unread = f"; {'; '.join(one.what for one in self.missing)}" if self.missing else ""
            raise ConfigError(f"no dumps of a flight recorder in {named}{unread}", hint=_HINT)

    def sources(self) -> Iterator[DumpSource]:
        for file in self._dumps:
            content = self._content(file, MAX_BYTES)
            if content is not None:
                yield DumpSource(_bare(file.shown), content)

    def _is_dump(self, file: NamedFile) -> bool:
        """Stacks are kept at once: they are a few lines."""
        start = self._content(file, _PART, whole=False)
        if start is None:
            return False
        if start.startswith(_BEGIN):
            return True
        name = _bare(file.shown)
        stack = read_stack(start.decode("utf-8", "replace"))
        if stack is None:
            return file.is_named or _is_called_a_dump(name)
        if (told := _STACKS_OF.search(name)) is not None:
            self.stacks[int(told[1])] = stack
        return False

    def _content(self, file: NamedFile, most: int, *, whole: bool = True) -> bytes | None:
        try:
            return _read(file, most, whole=whole)
        except (ConfigError, IntakeError) as e:
            if file.is_named:
                raise
            self.missing.append(Missing(f"{file.shown}: {e.message}", "copy it again"))
            return None


def _read(file: NamedFile, most: int, *, whole: bool) -> bytes:
    with opened(file.path) as raw:
        try:
            stream = unpacked(raw.stream)
            parts, size = [], 0
            while part := stream.read(_PART):
                parts.append(part)
                size += len(part)
                if size > most:
                    break
        except OSError as e:
            raise IntakeError(f"cannot read {file.shown}: {e.strerror}") from e
    if whole and size > most:
        raise IntakeError(f"{file.shown} is more than {most} bytes")
    return b"".join(parts)


def _is_called_a_dump(name: str) -> bool:
    """nccl_trace_rank_3: a damaged one, or one that is no plain data, is told, and not passed over."""
    plain = name.rpartition("/")[2]
    return "rank" in plain and "." not in plain and rank_of_file(plain) is not None


def _bare(name: str) -> str:
    for ending in _PACKED:
        name = name.removesuffix(ending)
    return name
