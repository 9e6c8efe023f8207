"""`trilens gpus`: the GPUs, who holds them, and which are missing."""

import json
import time
from typing import Annotated

import typer

from trilens.cli.options import AsList, At, Namespace, Server


def gpus(
    namespace: Namespace = None,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this cluster.")] = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this node.")] = None,
    workload: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only those that this workload holds.")
    ] = None,
    lost: Annotated[
        bool, typer.Option("--lost", help="Only those that should be there and do not report.")
    ] = False,
    at: At = None,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """List the GPUs, and who holds each, now or at any moment.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.gpu_text import gpus_table
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
    if as_json:
        typer.echo(json.dumps(answer["data"], ensure_ascii=False))
    elif answer["data"]:
        gpus_table(answer["data"])
    else:
        typer.echo("no GPU is lost" if lost else "no GPUs", err=True)
