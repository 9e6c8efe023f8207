"""An error as one line on stderr, and the exit code that goes with it."""

from __future__ import annotations

import typer

from trilens.model.errors import TrilensError

USAGE = 2
# All else is in the server's extra.
_EXTRAS = dict.fromkeys(("h2", "hpack", "hyperframe", "pynvml"), "agent") | dict.fromkeys(
    ("mcp", "mcp_types"), "mcp"
)
_EXTRAS["textual"] = "top"


def report(error: TrilensError | ImportError) -> int:
    if isinstance(error, TrilensError):
        typer.echo(f"trilens: {error}", err=True)
        return error.exit_code
    if (error.name or "").partition(".")[0] == "trilens":
        raise error  # a defect of ours, not a missing package
    missing = error.name or str(error)
    extra = _EXTRAS.get(missing.partition(".")[0], "server")
    typer.echo(
        f"trilens: this command needs the package {missing!r} (pip install 'trilens[{extra}]')",
        err=True,
    )
    return USAGE
