"""Every command with its arguments and options, as the program itself has them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import typer.main

from tools.docs.text import block, code, page, table
from trilens.cli.main import app

if TYPE_CHECKING:
    from collections.abc import Iterator

_ABOUT = """\
What `trilens COMMAND --help` says, of every command. What the commands are for, with examples of what
they print, is in [The command line](../cli.md)."""


def commands_page() -> str:
    return page("Commands", _ABOUT, *(_section(name, one) for name, one in commands()))


def commands() -> Iterator[tuple[str, Any]]:
    """Each that can be called, by its whole name; groups come before what is in them."""
    # typer has a copy of click, or uses the one that is installed: only what both have is asked.
    yield from _below("trilens", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for part, one in getattr(command, "commands", {}).items():
        yield from _below(f"{name} {part}", one)


def _section(name: str, command: Any) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    pieces = command.collect_usage_pieces(context)
    help_text = inspect.cleandoc(command.help or "")
    rows = [
        (code(record[0]), record[1])
        for param in command.get_params(context)
        if (record := param.get_help_record(context)) is not None
    ]
    parts = [f"## {name}", block(" ".join([name, *pieces])), _plain(help_text)]
    return "\n\n".join([*parts, table(("argument or option", "what it does"), rows)])


def _plain(text: str) -> str:
    """What may look like markup in a help text is none."""
    return text.replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
