"""`trilens doctor`: what is wrong with a running server, what that means, and what to do."""

import json
from typing import TYPE_CHECKING

import typer

from trilens.cli.options import AsList, Server

if TYPE_CHECKING:
    from trilens.cli.doctor_checks import Finding


def doctor(server: Server = None, as_json: AsList = False) -> None:
    """Examine a server: what is wrong, and what to do.

    Each finding says what it means. The exit code is 1 if something is wrong.
    """
    from trilens.cli.client import Client
    from trilens.cli.doctor_checks import examine

    with Client(server) as client:
        found = examine(client)
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in found], ensure_ascii=False))
    else:
        _show(found)
    raise typer.Exit(1 if any(finding.is_problem for finding in found) else 0)


def _show(found: "list[Finding]") -> None:
    for finding in sorted(found, key=lambda finding: not finding.is_problem):
        kind = "problem" if finding.is_problem else "note"
        typer.echo(f"{kind}: {finding.what}")
        typer.echo(f"  means: {finding.means}")
        if finding.remedy:
            typer.echo(f"  do: {finding.remedy}")
    problems = sum(finding.is_problem for finding in found)
    if problems:
        typer.echo(f"{problems} problem{'' if problems == 1 else 's'}")
    else:
        typer.echo("nothing is wrong")
