"""Dumps of flight recorders as they lie about, with stacks beside them, in folders, compressed, cut off."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.cli.compressed import unpacked
from trilens.cli.opened_file import opened
from trilens.diagnose.flight.reading import DumpSource, read_stack
from trilens.model.errors import ConfigError, IntakeError
from trilens.model.flight_recorder import rank_of_file
from trilens.model.plain_pickle import MAX_BYTES
from trilens.model.verdict import Missing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.diagnose.logs.tracebacks import Stack

_RANK: Final = re.compile(r"rank[_-]?(\d+)")
_PACKED: Final = (".gz", ".zst")
_HINT: Final = (
    "PyTorch writes dumps to TORCH_FR_DUMP_TEMP_FILE, TORCH_NCCL_DEBUG_INFO_TEMP_FILE in older versions"
)


class DumpFiles(NamedTuple):
    dumps: Sequence[DumpSource]
    stacks: dict[int, Stack]
    missing: Sequence[Missing]  # what could not be read at all


def read_dump_files(paths: Sequence[str]) -> DumpFiles:
    """In a folder there may be other things: what is named like no dump and is none is passed over."""
    dumps: list[DumpSource] = []
    stacks: dict[int, Stack] = {}
    missing: list[Missing] = []
    for shown, file, was_named in _files(paths):
        name = _bare(shown)
        try:
            content = _content(file)
        except (ConfigError, IntakeError) as e:
            if was_named:
                raise
            missing.append(Missing(f"{shown}: {e.message}", "copy it again"))
            continue
        stack = None if content[:1] in (b"\x80", b"{") else read_stack(content.decode("utf-8", "replace"))
        told = _RANK.search(name)
        if stack is not None:
            if told is not None:
                stacks[int(told[1])] = stack
        elif was_named or content[:1] in (b"\x80", b"{") or _is_called_a_dump(name):
            dumps.append(DumpSource(name, content, None, None))
    if not dumps:
        raise ConfigError(f"no dumps of a flight recorder in {', '.join(paths)}", hint=_HINT)
    return DumpFiles(dumps, stacks, missing)


def _files(paths: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    for path in paths:
        here = Path(path)
        if here.is_dir():
            for one in sorted(here.rglob("*")):
                if one.is_file() and not one.name.startswith("."):
                    yield str(one.relative_to(here)), str(one), False
        elif here.exists():
            yield path, path, True
        else:
            raise ConfigError(f"no such file or folder: {path}", hint=_HINT)


def _is_called_a_dump(name: str) -> bool:
    """nccl_trace_rank_3: a damaged one, or one that is no plain data, is told, and not passed over."""
    plain = name.rpartition("/")[2]
    return "rank" in plain and "." not in plain and rank_of_file(plain) is not None


def _bare(name: str) -> str:
    for ending in _PACKED:
        name = name.removesuffix(ending)
    return name


def _content(file: str) -> bytes:
    with opened(file) as raw:
        stream = unpacked(raw.stream)
        parts, size = [], 0
        while part := stream.read(1 << 20):
            parts.append(part)
            size += len(part)
            if size > MAX_BYTES:
                raise IntakeError(f"{file} is more than {MAX_BYTES} bytes")
        return b"".join(parts)
