"""Incidents as people read them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import typer

from trilens.cli.times import show_moment

_MOST: Final = 20  # symptoms of one in a list


def show_incidents(incidents: list[dict[str, Any]]) -> None:
    """A paragraph each: a table has no room for what to do."""
    for number, incident in enumerate(incidents):
        if number:
            typer.echo()
        _show_head(incident)


def show_incident(incident: dict[str, Any]) -> None:
    _show_head(incident)
    typer.echo()
    for moment in incident["timeline"]:
        typer.echo(f"{show_moment(moment['t_ms'] / 1000):24}  {moment['kind']:12}  {moment['text']}")


def _show_head(incident: dict[str, Any]) -> None:
    typer.echo(f"{incident['severity']:8}  {incident['id']}  {_when(incident)}")
    typer.echo(f"          {incident['title']}")
    if incident["action"]:
        typer.echo(f"    do:   {incident['action']}")
    if incident["workloads"]:
        typer.echo(f"    hits: {', '.join(incident['workloads'])}")
    if incident["lost"] is not None:
        typer.echo(f"    lost: {Decimal(incident['lost']):.2f} {incident['currency']}")
    shown = incident["symptoms"][:_MOST]
    for symptom in shown:
        ended = "" if symptom["ended_ms"] is None or symptom["kind"] == "event" else "  (over)"
        typer.echo(f"    {symptom['name']}: {symptom['text']}{ended}")
    more = incident["more_symptoms"] + len(incident["symptoms"]) - len(shown)
    if more:
        typer.echo(f"    and {more} more")
    if incident["merged_into"] is not None:
        typer.echo(f"    goes on as {incident['merged_into']}")


def _when(incident: dict[str, Any]) -> str:
    told = f"since {show_moment(incident['onset_ms'] / 1000)}"
    if incident["resolved_ms"] is not None:
        told += f" until {show_moment(incident['resolved_ms'] / 1000)}"
    elif incident["acknowledged_ms"] is not None:
        told += f", {incident['acknowledged_by'] or 'somebody'} has it"
    return told
