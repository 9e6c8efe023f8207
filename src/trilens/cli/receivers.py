"""`trilens receivers`: who is told of incidents and alerts, and how that goes."""

import json
import time
from typing import Annotated, Any

import typer

from trilens.cli.options import AsCsv, AsList, Server

app = typer.Typer(invoke_without_command=True)


@app.callback()
def receivers(
    context: typer.Context, server: Server = None, as_json: AsList = False, as_csv: AsCsv = False
) -> None:
    """List who is told of incidents, and how that goes.

    The exit code is 1 when messages do not get through to one of them.
    """
    if context.invoked_subcommand is not None:
        return
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table

    with Client(server) as client:
        found = client.get("/api/receivers")["data"]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        pass
    elif found:
        print_table(
            ["receiver", "kind", "where", "state", "last taken", "waiting", "refused", "trouble"],
            [_row(one, time.time() * 1000) for one in found],
            may_go=("refused", "kind"),
            folds=("trouble",),
        )
    else:
        typer.echo(
            "nobody is told of anything: name receivers in alerting.receivers (docs/delivery.md)", err=True
        )
    if any(one["state"] == "failing" for one in found):
        raise typer.Exit(1)


@app.command()
def test(
    name: Annotated[str, typer.Argument(help="The receiver.", metavar="NAME")],
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """Send a message that says it is a test, and see whether it is taken.

    The exit code is 1 when it is not. An alert at PagerDuty is opened and resolved at once.
    """
    from urllib.parse import quote

    from trilens.cli.client import Client

    with Client(server) as client:
        tried = client.post(f"/api/receivers/{quote(name, safe='')}/test")["data"]
    if as_json:
        typer.echo(json.dumps(tried, ensure_ascii=False))
    else:
        for one in tried:
            typer.echo(f"{name} ({one['where']}): {'taken' if one['ok'] else one['error']}")
    if not all(one["ok"] for one in tried):
        raise typer.Exit(1)


def _row(one: dict[str, Any], now_ms: float) -> list[str]:
    from trilens.cli.times import show_length

    last = f"{show_length(max(now_ms - one['last_ok_ms'], 0) / 1000)} ago" if one["last_ok_ms"] else "never"
    trouble = one["last_error"] if one["state"] == "failing" or one["refused"] else None
    return [
        one["receiver"],
        one["kind"],
        one["where"],
        one["state"],
        last,
        str(one["waiting"]),
        str(one["refused"]),
        trouble or "-",
    ]
