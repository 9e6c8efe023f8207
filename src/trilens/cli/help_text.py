"""Help as people read it: nothing of it is cut off at the end of a line."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup


class Commands(TyperGroup):
    """Lists each command with the whole first paragraph of what it does, over two lines where it is long."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as e:
            e.message = e.message.removeprefix("Value error, ")  # of the library that looked at it
            raise

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.short_help:
                first, *_ = (command.help or "").split("\n\n")
                command.short_help = " ".join(first.split()).removesuffix(".")
        super().format_commands(ctx, formatter)
