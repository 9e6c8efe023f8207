"""How far a long command is, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_EVERY_S: Final = 10.0  # for a log: often enough to see that it moves
_PATIENCE_S: Final = 2.0  # what takes less needs no sign of life


class Advance(Protocol):
    def __call__(self, done: int, count: int) -> None:
        """`done` bytes of the input are read, with so many samples or rows."""


@contextmanager
def progress(name: str, size: int | None, counted: str = "samples") -> Iterator[Advance]:
    """`size` in bytes; None where nobody knows."""
    if not sys.stderr.isatty():
        yield _Lines(name, size, counted)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[count]:,} " + counted),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(name, total=size, count=0)
        yield lambda done, count: shown.update(task, completed=done, count=count)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A sign of life for one long answer of which nobody knows how far it is: on a terminal only, and only
    where it takes its time."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(what), BarColumn(), TimeElapsedColumn())
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    shown.add_task(what, total=None)
    still = threading.Lock()
    is_over = False

    def begin() -> None:
        with still:
            if not is_over:
                shown.start()

    timer = threading.Timer(_PATIENCE_S, begin)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with still:
            is_over = True
            shown.stop()


class _Lines:
    def __init__(self, name: str, size: int | None, counted: str) -> None:
        self._name = name
        self._size = size
        self._counted = counted
        self._said = time.monotonic()

    def __call__(self, done: int, count: int) -> None:
        if time.monotonic() - self._said < _LINE_EVERY_S:
            return
        self._said = time.monotonic()
        share = f", {done / self._size:.0%} of the file" if self._size else ""
        typer.echo(f"{self._name}: {count:,} {self._counted} so far{share}", err=True)
