"""How many hours of the ledger a command has been through, on stderr."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

_LINE_EVERY_S: Final = 10.0


class Advance(Protocol):
    def __call__(self, hours: int) -> None:
        """So many more."""


@contextmanager
def hours_progress(done: str, hours: int) -> Iterator[Advance]:
    """`done` says in a word what is done with them. A bar on a terminal, a line now and then elsewhere."""
    if not sys.stderr.isatty():
        yield _Lines(done, hours)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(f"hours {done}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(done, total=hours)
        yield lambda hours: shown.advance(task, hours)


class _Lines:
    def __init__(self, done: str, hours: int) -> None:
        self._done = done
        self._hours = hours
        self._so_far = 0
        self._said = time.monotonic()

    def __call__(self, hours: int) -> None:
        self._so_far += hours
        if time.monotonic() - self._said >= _LINE_EVERY_S:
            self._said = time.monotonic()
            typer.echo(f"{self._so_far:,} of {self._hours:,} hours {self._done}", err=True)
