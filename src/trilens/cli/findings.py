"""`trilens findings`: what detectors find, with what to do now."""

from typing import Annotated

import typer

from trilens.cli.completion import workload_names
from trilens.cli.options import AsCsv, AsList, OfSeverity, Server


def findings(
    everything: Annotated[
        bool, typer.Option("--all", help="Also those of the last day that are over.")
    ] = False,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only of the workload of this name.", autocompletion=workload_names
        ),
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this node.")] = None,
    severity: OfSeverity = None,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List what is wrong now, with whom, and what to do.

    Stalls, hangs, crashes, GPU faults and the rest. What pages are the alerts made of these.
    """
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.finding_text import show_findings
    from trilens.cli.listing import is_printed

    asked = {
        "all": "true" if everything else None,
        "workload": workload,
        "node": node,
        "severity": severity,
    }
    params = {name: value for name, value in asked.items() if value is not None}
    with Client(server) as client:
        answer = client.get("/api/findings", params)
    show_notes(answer)
    if is_printed(answer["data"], as_json=as_json, as_csv=as_csv):
        return
    if answer["data"]:
        show_findings(answer["data"])
    else:
        of_all = workload is None and node is None and severity is None
        typer.echo(
            "nothing is wrong, as far as detectors can tell" if of_all else "no such finding", err=True
        )
