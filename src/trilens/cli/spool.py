"""`trilens spool`: what programs of this machine have told and no server has taken yet."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from trilens.cli.options import AsCsv, AsList

if TYPE_CHECKING:
    from trilens.sdk.outbox.folder import Found
    from trilens.sdk.outbox.send_left import Sent

Folder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--dir",
        metavar="DIR",
        help="The spool [default: TRILENS_SPOOL, or where programs of this user have it].",
    ),
]

app = typer.Typer(invoke_without_command=True)


@app.callback()
def spool(
    context: typer.Context, folder: Folder = None, as_json: AsList = False, as_csv: AsCsv = False
) -> None:
    """List what programs of this machine told and no server has taken yet."""
    if context.invoked_subcommand is not None:
        return
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table
    from trilens.cli.times import show_length, show_moment
    from trilens.sdk.outbox.folder import find_folders

    root = _root(folder)
    folders = find_folders(root)
    alive = {one.path: one.is_alive for one in folders}
    found = [one for one in folders if one.bytes_there or alive[one.path]]
    objects = [_object(one, alive[one.path]) for one in found]
    if is_printed(objects, as_json=as_json, as_csv=as_csv):
        return
    if not found:
        typer.echo(f"nothing waits in {root}", err=True)
        return
    now_s = time.time()
    print_table(
        ["run", "rank", "process", "began", "last told", "bytes", "server"],
        [
            [
                one.about.run,
                str(one.about.rank),
                f"{one.about.host}[{one.about.pid}]" + ("" if alive[one.path] else " dead"),
                show_moment(one.about.started_ms / 1000),
                f"{show_length(max(0.0, now_s - one.changed_s))} ago",
                str(one.bytes_there),
                one.about.server,
            ]
            for one in found
        ],
        may_go=("began", "server"),
    )
    if not all(alive[one.path] for one in found):
        typer.echo("trilens spool send ships what dead processes left", err=True)


@app.command()
def send(
    folder: Folder = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Send all of it there [default: where each was sending to]."),
    ] = None,
    as_json: AsList = False,
) -> None:
    """Ship what dead processes left. A process that lives ships its own."""
    from trilens.sdk.guard import Guard
    from trilens.sdk.outbox.send_left import send_left
    from trilens.settings.client import load_client_settings

    settings = load_client_settings(server)
    target = settings.server if server is not None else None
    guard = Guard()
    sent = list(send_left(_root(folder), guard, target, settings.token))
    if as_json:
        typer.echo(json.dumps([_outcome(one) for one in sent]))
    else:
        for one in sent:
            who = f"{one.about.run} rank {one.about.rank}"
            if one.error is None:
                typer.echo(f"{who}: sent {one.sent_bytes} bytes to {one.server}")
            else:
                typer.echo(f"trilens: {who}: {one.left_bytes} bytes stay: {one.server} {one.error}", err=True)
        if not sent:
            typer.echo("no dead process left anything", err=True)
    if lost := guard.counts().get("records"):
        batches = "batch" if lost == 1 else "batches"
        typer.echo(f"trilens: {lost} {batches} could not be sent, torn or refused by the server", err=True)
    raise typer.Exit(1 if lost or any(one.error is not None for one in sent) else 0)


def _root(folder: Path | None) -> Path:
    if folder is not None:
        return folder
    from trilens.sdk.guard import Guard
    from trilens.sdk.options import read_options

    return read_options(Guard()).spool_dir


def _object(found: "Found", is_alive: bool) -> dict[str, Any]:
    return {
        **found.about._asdict(),
        "alive": is_alive,
        "bytes": found.bytes_there,
        "last_told_ms": int(found.changed_s * 1000),
    }


def _outcome(sent: "Sent") -> dict[str, Any]:
    return {
        **sent.about._asdict(),
        "sent_to": sent.server,
        "sent_bytes": sent.sent_bytes,
        "left_bytes": sent.left_bytes,
        "error": sent.error,
    }
