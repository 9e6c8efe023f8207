"""`trilens top`: what runs, how it is and what it costs, on a live screen."""

import sys
from typing import Annotated

import typer

from trilens.cli.options import Server


def top(
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame as plain text, and end: for a script or a pipe.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Of --once, also what has ended.")] = False,
    server: Server = None,
) -> None:
    """Watch what runs, how it is and what it costs, on a live screen.

    Enter opens a workload with its ranks and GPUs; ? lists the keys.
    """
    from trilens.cli.top.marks import marks
    from trilens.cli.top.reading import Reader
    from trilens.model.errors import ConfigError

    reader = Reader(server)
    if once:
        from trilens.cli.top.once import print_frame

        print_frame(reader.ask(ended=everything), marks(), ended=everything)
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("a live screen needs a terminal", hint="trilens top --once prints one frame")
    from trilens.cli.top.app import TopApp

    TopApp(reader, marks()).run()
