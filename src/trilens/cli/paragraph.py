"""Sentences under a head, as findings and incidents have them: a pipe gets a line each, a terminal folds."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import Final

import typer

_HANG: Final = " " * 10  # where sentences begin
_LEAST: Final = 40  # on a narrower terminal folding makes it no clearer


def say(text: str, mark: str = "") -> None:
    """One sentence; `mark` stands before it, such as `do:`."""
    lead = f"    {mark:5} " if mark else _HANG
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    if width < _LEAST:
        typer.echo(lead + text)
        return
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=lead,
        subsequent_indent=_HANG,
        break_long_words=False,  # names are copied from here
        break_on_hyphens=False,
    )
    typer.echo("\n".join(lines) or lead)
