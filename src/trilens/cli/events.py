"""`trilens events`: faults of GPUs and warnings about pods, with whom they hit."""

import time
from typing import Annotated

import typer

from trilens.cli.completion import workload_names
from trilens.cli.options import AsCsv, AsList, AtMost, Server, Since


def events(
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="WORKLOAD",
            help="Only what hit this one; named as for trilens show.",
            autocompletion=workload_names,
        ),
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this node.")] = None,
    since: Since = "-24h",
    at: Annotated[str, typer.Option("--at", metavar="TIME", help="The last moment to ask about.")] = "now",
    limit: AtMost = 100,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List Xids and other GPU faults, and warnings about GPU pods.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.event_text import events_table
    from trilens.cli.listing import is_printed
    from trilens.cli.times import span_parameters

    params = span_parameters(since, at, time.time()) | {"limit": str(limit)}
    params |= {name: value for name, value in (("workload", workload), ("node", node)) if value is not None}
    with Client(server) as client:
        answer = client.get("/api/events", params)
    show_notes(answer)
    if is_printed(answer["data"], as_json=as_json, as_csv=as_csv):
        return
    if answer["data"]:
        events_table(answer["data"])
    else:
        typer.echo("no events", err=True)
