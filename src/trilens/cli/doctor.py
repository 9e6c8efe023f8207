"""`trilens doctor`: whether this installation sees what it should, and what to do where it does not."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trilens.cli.options import AsCsv, AsList, Server

if TYPE_CHECKING:
    from trilens.serve.checkup.finding import Examined, Finding

_ONLY_HERE = "only this machine was looked at"
_TIMEOUT_S = 15  # of one question; what takes longer is told, and the others are asked


def doctor(
    server: Server = None,
    bundle: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="What a bundle says of where it came from; no server is asked."),
    ] = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """Examine this machine and a server, layer by layer: what is not seen, and what to do.

    Where no server runs, this machine alone. The exit code is 1 if something is wrong.
    """
    from trilens.cli.listing import is_printed

    if bundle is not None:
        from trilens.cli.checkup.bundle import examine_bundle
        from trilens.model.errors import ConfigError

        if server is not None:
            raise ConfigError("--bundle is read without a server", hint="leave out --server")
        examined = examine_bundle(bundle)
    else:
        examined = _examined(server)
    found = [{"layer": one.layer, **finding._asdict()} for one in examined for finding in one.found]
    if not is_printed(found, as_json=as_json, as_csv=as_csv):
        _show(examined)
    raise typer.Exit(1 if any(one.state == "problem" for one in examined) else 0)


def _examined(server: str | None) -> "list[Examined]":
    from trilens.cli.checkup.layers import examine_machine, examine_server
    from trilens.cli.client import Client
    from trilens.model.errors import ServerError
    from trilens.serve.checkup.finding import Examined, Finding
    from trilens.settings.client import load_client_settings

    settings = load_client_settings(server)
    here = examine_machine()
    try:
        with Client(server, timeout_s=_TIMEOUT_S) as client:
            if (unseen := _unseen(client.get("/auth/me")["data"])) is not None:
                return [here, Examined("server", settings.server, (unseen,))]
            return [here, *examine_server(client)]
    except ServerError as e:
        # Where nobody named one, there may be none, and a look at this machine was all that was wanted.
        silent = Finding("server", settings.is_named, e.message, _ONLY_HERE, e.hint or "")
        return [here, Examined("server", settings.server, (silent,))]


def _unseen(me: dict[str, Any]) -> "Finding | None":
    """Why the server's checks cannot be made: each of them would say the same."""
    from trilens.serve.checkup.finding import Finding

    if me["name"] is None:
        remedy = "trilens login, or set TRILENS_TOKEN or TRILENS_TOKEN_FILE"
        return Finding("server", True, "the server does not know you", _ONLY_HERE, remedy)
    of_all = [one for one in me["grants"] if one["teams"] is None and one["clusters"] is None]
    if any(set(one["rights"]) - {"intake"} for one in of_all):
        return None
    what = f"{me['name']} may not see the whole fleet, which the server's checks are of"
    return Finding("server", False, what, _ONLY_HERE, "whoever runs the server can")


def _show(examined: "list[Examined]") -> None:
    from trilens.cli.paragraph import say
    from trilens.cli.plain_table import print_table

    print_table(
        ["layer", "state", "what is there"],
        [[one.layer, one.state, one.sees] for one in examined],
        folds=("what is there",),
    )
    found = [(one.layer, finding) for one in examined for finding in one.found]
    for layer, finding in sorted(found, key=lambda one: not one[1].is_problem):
        typer.echo(f"\n{'problem' if finding.is_problem else 'note':8}  {layer}: {finding.what}")
        say(finding.means, "so:")
        first, *lines = finding.remedy.split("\n")
        if first:
            say(first, "do:")
        for line in lines:  # of a file: copied as they are
            typer.echo(f"            {line}")
    problems = sum(finding.is_problem for _, finding in found)
    notes = len(found) - problems
    if problems:
        typer.echo(f"\n{problems} problem{'' if problems == 1 else 's'}")
    else:
        typer.echo("\nnothing is wrong" + (f", {notes} worth knowing" if notes else ""))
