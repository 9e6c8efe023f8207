"""`trilens workloads`: the jobs of the watched clusters, now or at any moment."""

import time
from typing import Annotated

import typer

from trilens.cli.options import AllNamespaces, AsCsv, AsList, At, Namespace, Server


def workloads(
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    cluster: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this cluster.")] = None,
    phase: Annotated[
        str | None, typer.Option(metavar="PHASE", help="Only those in this phase, such as queued.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Also those that went away after this moment, such as -1h."),
    ] = None,
    at: At = None,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List the workloads, now or at any moment.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.kubectl import namespace_wanted
    from trilens.cli.listing import is_printed
    from trilens.cli.times import at_parameter, read_moment
    from trilens.cli.workload_text import workloads_table

    namespace = namespace_wanted(namespace, all_namespaces)
    filters = {"namespace": namespace, "cluster": cluster, "phase": phase}
    now_s = time.time()
    params = {name: value for name, value in filters.items() if value is not None} | at_parameter(at, now_s)
    if since is not None:
        params["from"] = f"{read_moment(since, float(params.get('at', now_s))):.3f}"
    with Client(server) as client:
        answer = client.get("/api/workloads", params)
    show_notes(answer)
    if is_printed(answer["data"], as_json=as_json, as_csv=as_csv):
        return
    if answer["data"]:
        workloads_table(answer["data"], float(params.get("at", now_s)))
    else:
        where = f" in namespace {namespace}" if namespace is not None else ""
        hint = "; trilens workloads lists all" if params else "; trilens doctor says what is not seen"
        typer.echo(f"no workloads{where}{hint}", err=True)
