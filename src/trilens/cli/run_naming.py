"""Which run is meant by what people write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from trilens.model.errors import NotFound, RequestError

if TYPE_CHECKING:
    from trilens.cli.client import Client

_NAMED = 10  # candidates in an error


def run_meant(client: Client, written: str) -> str:
    """The id of the one run. Of several with one name it is the latest, and the others are named on stderr:
    a program that is started again gives its run the same name."""
    found = client.get("/api/runs", {"named": written, "limit": str(_NAMED + 1)})["data"]["runs"]
    if not found:
        raise NotFound(f"no run {written!r} is known", hint="trilens runs lists them")
    latest, others = found[0], found[1:]
    if others and written not in (latest["name"], run_name(latest)):
        raise RequestError(f"{written!r} may be any of {_listed(found)}", hint="write one of these ids")
    if others:
        typer.echo(f"the latest called {written!r}, {latest['run']}; others are {_listed(others)}", err=True)
    return str(latest["run"])


def _listed(runs: list[dict[str, Any]]) -> str:
    shown = ", ".join(_candidate(one) for one in runs[:_NAMED])
    return f"{shown} and more" if len(runs) > _NAMED else shown


def _candidate(one: dict[str, Any]) -> str:
    return f"{one['run']} ({', '.join(filter(None, (one['name'] and run_name(one), one['state'])))})"


def run_name(one: dict[str, Any]) -> str:
    """As people call it."""
    if not one["name"]:
        return str(one["run"])
    return f"{one['experiment']}/{one['name']}" if one["experiment"] else str(one["name"])
