"""`trilens silences`: what nobody is told of, for a while."""

import json
import time
from typing import Annotated

import typer

from trilens.cli.options import AsCsv, AsList, Server

app = typer.Typer(no_args_is_help=True)


@app.callback()
def silences() -> None:
    """Have nobody told of some incidents for a while."""


@app.command()
def add(
    matchers: Annotated[
        list[str],
        typer.Argument(
            help='What is silenced: workload=llm-7b, team="vision", node=~"gpu-1.*"; all of them hold.',
            metavar="MATCHER",
        ),
    ],
    comment: Annotated[str, typer.Option(metavar="TEXT", help="Why.")],
    duration: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="How long [default: 1h].")
    ] = None,
    begin: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Since when [default: now].")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Until when, instead of --for.")] = None,
    author: Annotated[str | None, typer.Option(metavar="NAME", help="Who [default: you].")] = None,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """Tell nobody of incidents whose root has these labels.

    Prints the id of the silence.
    """
    from trilens.cli.client import Client
    from trilens.cli.times import read_duration, read_moment, show_moment
    from trilens.cli.user import user_name
    from trilens.model.errors import ConfigError

    if duration is not None and until is not None:
        raise ConfigError("give --for or --until, not both", where="--until")
    now_s = time.time()
    from_s = read_moment(begin, now_s) if begin is not None else now_s
    to_s = (
        read_moment(until, now_s) if until is not None else from_s + read_duration(duration or "1h", "--for")
    )
    wanted = {
        "matchers": matchers,
        "to_ms": round(to_s * 1000),
        "author": author if author is not None else user_name(),
        "comment": comment,
        **({"from_ms": round(from_s * 1000)} if begin is not None else {}),
    }
    with Client(server) as client:
        made = client.post("/api/silences", body=json.dumps(wanted).encode())["data"]
    if as_json:
        typer.echo(json.dumps([made], ensure_ascii=False))
    else:
        typer.echo(f"{made['id']}  until {show_moment(made['to_ms'] // 1000)}")


@app.command(name="list")
def list_(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those of the last days that are over.")
    ] = False,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List the silences in force and to come."""
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table
    from trilens.cli.times import show_moment

    with Client(server) as client:
        found = client.get("/api/silences", {"all": "true"} if everything else None)["data"]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if found:
        print_table(
            ["id", "state", "matchers", "from", "until", "author", "comment"],
            [
                [
                    one["id"],
                    one["state"],
                    " ".join(one["matchers"]),
                    show_moment(one["from_ms"] // 1000),
                    show_moment(one["to_ms"] // 1000),
                    one["author"],
                    one["comment"],
                ]
                for one in found
            ],
            may_go=("from",),
            folds=("comment",),
        )
    else:
        typer.echo("nothing is silenced", err=True)


@app.command()
def expire(
    ids: Annotated[list[str], typer.Argument(help="Silences, by their ids.", metavar="ID")],
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """End silences now."""
    from urllib.parse import quote

    from trilens.cli.client import Client

    with Client(server) as client:
        else_try = "trilens silences list has them"
        ended = [
            client.post(f"/api/silences/{quote(one, safe='')}/expire", else_try=else_try)["data"]
            for one in ids
        ]
    if as_json:
        typer.echo(json.dumps(ended, ensure_ascii=False))
    else:
        for silence in ended:
            typer.echo(f"{silence['id']} is over")
