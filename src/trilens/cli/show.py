"""`trilens show`: all that is known of one workload."""

import json
import time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from urllib.parse import quote

import typer

from trilens.cli.completion import workload_names
from trilens.cli.options import AllNamespaces, AsList, At, Namespace, Server

if TYPE_CHECKING:
    from trilens.cli.client import Client

_EVENTS, _RUNS = "10", "10"  # the latest so many are shown


def show(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD",
            help="A name, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME.",
            autocompletion=workload_names,
        ),
    ],
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    every: Annotated[
        bool, typer.Option("--all", help="Each member, GPU and phase, also of earlier attempts.")
    ] = False,
    at: At = None,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """Show one workload: members, ranks, GPUs, what its programs say, phases, events.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.client import Client
    from trilens.cli.event_text import show_events
    from trilens.cli.kubectl import namespace_wanted
    from trilens.cli.naming import path_of
    from trilens.cli.run_text import show_runs
    from trilens.cli.times import at_parameter
    from trilens.cli.workload_text import show_workload

    now_s = time.time()
    params = at_parameter(at, now_s)
    with Client(server) as client:
        path = path_of(client, workload, namespace_wanted(namespace, all_namespaces), params)
        told = told_of(client, path, params)
    for note in told.warnings:
        typer.echo(f"warning: {note}", err=True)
    if as_json:
        known = {"programs": told.programs, "runs": told.runs, "events": told.events}
        typer.echo(json.dumps([{**told.workload, **known}], ensure_ascii=False))
    else:
        show_workload(told.workload, told.programs, float(params.get("at", now_s)), every=every)
        show_runs(told.runs, now_s)
        show_events(told.events)


class Told(NamedTuple):
    """One workload, and what else is known of it."""

    workload: dict[str, Any]
    programs: list[dict[str, Any]]
    runs: list[dict[str, Any]]
    events: list[dict[str, Any]]
    warnings: list[str]


def told_of(client: "Client", path: str, params: dict[str, str]) -> Told:
    """Of the workload at CLUSTER/NAMESPACE/KIND/NAME."""
    from trilens.cli.program import programs_of
    from trilens.model.errors import ServerError

    answer = client.get(f"/api/workloads/{quote(path)}", params)
    warnings = [*answer.get("warnings", []), *answer.get("infos", [])]
    until = {"to": params["at"]} if "at" in params else {}
    events = client.get("/api/events", {"workload": path, "from": "0", "limit": _EVENTS, **until})["data"]
    try:
        programs = programs_of(client, answer["data"]["workload"], params)
    except ServerError as e:  # another server may hold the samples; the records are here all the same
        warnings.append(f"what its programs say is not known: {e}")
        programs = []
    runs = client.get("/api/runs", {"workload": path, "limit": _RUNS})["data"]["runs"]
    return Told(answer["data"], programs, runs, events, warnings)
