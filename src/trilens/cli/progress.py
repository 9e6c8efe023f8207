"""How far a long command is, on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import Progress, ProgressColumn

_LINE_EVERY_S: Final = 10.0  # for a log: often enough to see that it moves
_PATIENCE_S: Final = 2.0  # what takes less needs no sign of life


class Advance(Protocol):
    def __call__(self, done: int, count: int) -> None:
        """`done` bytes of the input are read, with so many samples or rows."""


@contextmanager
def progress(name: str, size: int | None, counted: str = "samples") -> Iterator[Advance]:
    """`size` in bytes; None where nobody knows."""
    if not sys.stderr.isatty():
        lines = _Lines()

        def say(done: int, count: int) -> None:
            share = f", {done / size:.0%} of the file" if size else ""
            lines.say(f"{name}: {count:,} {counted} so far{share}")

        yield say
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TextColumn("{task.fields[count]:,} " + counted),
        TimeRemainingColumn(),
    )
    with _bar(*columns) as shown:
        task = shown.add_task(name, total=size, count=0)
        yield lambda done, count: shown.update(task, completed=done, count=count)


@contextmanager
def hours_progress(done: str, hours: int) -> Iterator[Callable[[int], None]]:
    """Through hours of the ledger: each call says that it is so many more. `done` says in a word what is done
    with them."""
    if not sys.stderr.isatty():
        lines, so_far = _Lines(), 0

        def say(more: int) -> None:
            nonlocal so_far
            so_far += more
            lines.say(f"{so_far:,} of {hours:,} hours {done}")

        yield say
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn(f"hours {done}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with _bar(*columns) as shown:
        task = shown.add_task(done, total=hours)
        yield lambda more: shown.advance(task, more)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """A sign of life for one long answer of which nobody knows how far it is: on a terminal only, and only
    where it takes its time."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn

    shown = _bar(TextColumn(what), BarColumn(), TimeElapsedColumn())
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


def _bar(*columns: ProgressColumn) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)


class _Lines:
    """Those that come too soon after another are not said."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def say(self, line: str) -> None:
        if time.monotonic() - self._said >= _LINE_EVERY_S:
            self._said = time.monotonic()
            typer.echo(line, err=True)
