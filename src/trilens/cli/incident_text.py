"""Incidents as people read them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import typer

from trilens.cli.paragraph import say
from trilens.cli.times import show_moment

_FEW: Final = 5  # symptoms of one in a list


def show_incidents(incidents: list[dict[str, Any]]) -> None:
    """A paragraph each, with what is still wrong: a table has no room for what to do."""
    for number, incident in enumerate(incidents):
        if number:
            typer.echo()
        _show_head(incident)
        symptoms = incident["symptoms"]
        shown = _telling(incident)[:_FEW]
        for symptom in shown:
            say(symptom["text"], f"{symptom['name']}:")
        told_above = any(one["text"] == incident["title"] for one in symptoms)
        if more := incident["more_symptoms"] + len(symptoms) - len(shown) - told_above:
            say(f"and {more} more: trilens incidents {incident['id']}")


def show_incident(incident: dict[str, Any]) -> None:
    """All that is known of one."""
    _show_head(incident, in_full=True)
    for symptom in incident["symptoms"]:
        ended = "" if symptom["ended_ms"] is None or symptom["kind"] == "event" else "  (over)"
        say(symptom["text"] + ended, f"{symptom['name']}:")
    if incident["more_symptoms"]:
        say(f"and {incident['more_symptoms']} more")
    typer.echo()
    for moment in incident["timeline"]:
        typer.echo(f"{show_moment(moment['t_ms'] // 1000)}  {moment['kind']:12}  {moment['text']}")


def _show_head(incident: dict[str, Any], *, in_full: bool = False) -> None:
    typer.echo(f"{incident['severity']:8}  {incident['id']}  {_when(incident)}")
    say(incident["title"])
    if incident["action"]:
        say(incident["action"], "do:")
    if incident["workloads"]:
        say(", ".join(incident["workloads"]), "hits:")
    if in_full and incident["merged_into"] is None:
        say(f"trilens why {incident['id']}", "why:")
    if incident["lost"] is not None:
        say(f"{Decimal(incident['lost']):.2f} {incident['currency']}", "lost:")
    if incident["told"]:
        say(", ".join(incident["told"]), "told:")
    for held_back in incident["held_back"]:
        if held_back["why"] != "no-receiver" or in_full:
            say(_why_untold(held_back), "mute:")
    if incident["merged_into"] is not None:
        say(f"goes on as {incident['merged_into']}")


def _telling(incident: dict[str, Any]) -> list[dict[str, Any]]:
    """Symptoms that last and say more than the title; an alert made of a finding says what that says."""
    found = {one["labels"]["code"] for one in incident["symptoms"] if one["kind"] == "finding"}
    return [
        one
        for one in incident["symptoms"]
        if one["ended_ms"] is None
        and one["text"] != incident["title"]
        and not (one["kind"] == "alert" and one["labels"].get("code") in found)
    ]


def _why_untold(held_back: dict[str, Any]) -> str:
    text, name = held_back["text"], held_back["name"]
    match held_back["why"]:
        case "silence":
            return f"silence {name} until {show_moment(held_back['until_ms'] // 1000)} ({text})"
        case "quiet":
            return f"quiet time of {name}: {text}"
        case "inhibited":
            return f"inhibited {text}"
        case _:
            return str(text)


def _when(incident: dict[str, Any]) -> str:
    told = f"since {show_moment(incident['onset_ms'] // 1000)}"
    if incident["resolved_ms"] is not None:
        told += f" until {show_moment(incident['resolved_ms'] // 1000)}"
    elif incident["acknowledged_ms"] is not None:
        told += f", {incident['acknowledged_by'] or 'somebody'} has it"
    return told
