"""`trilens gpus`: the GPUs, who holds them, and which are missing."""

import time
from typing import Annotated

import typer

from trilens.cli.completion import workload_names
from trilens.cli.options import AsCsv, AsList, At, Namespace, Server


def gpus(
    namespace: Namespace = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this cluster.")] = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this node.")] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only those that this workload holds.", autocompletion=workload_names
        ),
    ] = None,
    lost: Annotated[
        bool, typer.Option("--lost", help="Only those that should be there and do not report.")
    ] = False,
    at: At = None,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List the GPUs, and who holds each, now or at any moment.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.csv_lines import apart
    from trilens.cli.gpu_text import gpus_table
    from trilens.cli.listing import is_printed
    from trilens.cli.times import at_parameter

    filters = {
        "namespace": namespace,
        "cluster": cluster,
        "node": node,
        "workload": workload,
        "lost": "true" if lost else None,
    }
    params = {name: value for name, value in filters.items() if value is not None}
    with Client(server) as client:
        answer = client.get("/api/gpus", {**params, **at_parameter(at, time.time())})
    show_notes(answer)
    found = answer["data"]
    if is_printed(found, as_json=as_json, as_csv=as_csv, lines=apart(found, "holders")):
        return
    if found:
        gpus_table(found)
    else:
        none = (
            "no such GPU; trilens gpus lists all"
            if params
            else "no GPUs; trilens doctor says what is not seen"
        )
        typer.echo("no GPU is lost" if lost else none, err=True)
