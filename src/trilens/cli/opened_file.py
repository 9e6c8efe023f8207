"""A file that a command reads through, or stdin."""

from __future__ import annotations

import io
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STDIN: Final = "-"


class Opened(NamedTuple):
    stream: io.BufferedReader
    size: int | None  # a pipe has none
    tell: Callable[[], int] | None  # how far it was read; nor has it this


@contextmanager
def opened(file: str) -> Iterator[Opened]:
    if file == STDIN:
        stdin: io.BufferedReader = io.BufferedReader(sys.stdin.buffer)  # type: ignore[arg-type] # to peek
        try:
            yield Opened(stdin, None, None)
        finally:
            stdin.detach()  # or the end of this reader would close stdin
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as e:
        raise ConfigError(f"cannot read {file}: {e.strerror}") from e
    with stream:
        size = os.fstat(stream.fileno()).st_size or None
        yield Opened(stream, size, stream.tell if stream.seekable() else None)
