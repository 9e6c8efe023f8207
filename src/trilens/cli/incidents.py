"""`trilens incidents`: what is wrong, one for each cause, with what to do and what it has cost so far."""

import time
from typing import Annotated

import typer

from trilens.cli.completion import incident_ids, workload_names
from trilens.cli.options import AsCsv, AsList, OfSeverity, Server

_ELSE_TRY = "trilens incidents --all lists those of the last day"


def incidents(
    id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="One of them, with its timeline.", autocompletion=incident_ids),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those of the last day that are over.")
    ] = False,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Also those that lasted since then and are over.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Only those from which a workload of this name suffers.",
            autocompletion=workload_names,
        ),
    ] = None,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only with a symptom of this node.")
    ] = None,
    team: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only with a symptom of this team.")
    ] = None,
    severity: OfSeverity = None,
    acknowledge: Annotated[
        bool, typer.Option("--ack", help="Say that you have this one: it is not told again.")
    ] = False,
    by: Annotated[str | None, typer.Option(metavar="NAME", help="Who has it [default: you].")] = None,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List incidents: what is wrong, by cause, the root first.

    The list has what still is wrong; with an ID, all that is known of that one.
    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.incident_text import show_incident, show_incidents
    from trilens.cli.listing import is_printed
    from trilens.cli.times import read_moment
    from trilens.cli.user import user_name
    from trilens.model.errors import ConfigError

    if acknowledge and id is None:
        raise ConfigError(
            "--ack needs the id of an incident", hint="`trilens incidents` lists those that are open"
        )
    asked = {
        "all": "true" if everything else None,
        "from": f"{read_moment(since, time.time()):.3f}" if since is not None else None,
        "workload": workload,
        "node": node,
        "team": team,
        "severity": severity,
    }
    with Client(server) as client:
        if id is None:
            answer = client.get("/api/incidents", {k: v for k, v in asked.items() if v is not None})
        elif acknowledge:
            path, form = f"/api/incidents/{_in_path(id)}/acknowledge", {"by": by or user_name()}
            answer = client.post(path, form=form, else_try=_ELSE_TRY)
        else:
            answer = client.get(f"/api/incidents/{_in_path(id)}", else_try=_ELSE_TRY)
    show_notes(answer)
    data = answer["data"]
    if is_printed(data if id is None else [data], as_json=as_json, as_csv=as_csv):
        return
    if acknowledge:
        typer.echo(f"{answer['data']['acknowledged_by'] or 'somebody'} has it: {answer['data']['title']}")
    elif id is not None:
        show_incident(answer["data"])
    elif answer["data"]:
        show_incidents(answer["data"])
    else:
        typer.echo("no incidents", err=True)


def _in_path(id: str) -> str:
    from urllib.parse import quote

    return quote(id, safe="")
