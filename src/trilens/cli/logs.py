"""`trilens logs`: the end of what a workload's pods wrote, from the agents of their nodes."""

import json
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from trilens.cli.completion import workload_names
from trilens.cli.options import AllNamespaces, AsList, Namespace, Server

if TYPE_CHECKING:
    from trilens.cli.client import Client


def logs(
    name: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|POD",
            help="A workload as for trilens show, or NAMESPACE/POD.",
            autocompletion=workload_names,
        ),
    ],
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    previous: Annotated[bool, typer.Option("--previous", "-p", help="Of the run before this one.")] = False,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """Show the last lines that the pods of a workload wrote.

    Agents take secrets out of them.
    """
    from trilens.cli.client import Client
    from trilens.cli.event_text import show_output
    from trilens.cli.kubectl import namespace_wanted
    from trilens.model.errors import ServerError

    found: list[dict[str, Any]] = []
    refused: list[ServerError] = []
    with Client(server) as client:
        for params in _pods(client, name, namespace_wanted(namespace, all_namespaces)):
            try:
                found += client.get("/api/output", params)["data"]
            except ServerError as e:  # one node without an agent does not hide what the others have
                refused.append(e)
    if not found and refused:
        raise refused[0]
    for error in refused:
        typer.echo(f"warning: {error}", err=True)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    for pod in found:
        show_output(pod, previous=previous)


def _pods(client: "Client", name: str, namespace: str | None) -> list[dict[str, str]]:
    """What to ask for: the pods of a workload that are there, else those of its last attempt; or one pod."""
    from trilens.cli.naming import path_of
    from trilens.model.errors import NotFound

    try:
        path = path_of(client, name, namespace, {})
    except NotFound as e:
        within, _, pod = name.rpartition("/")
        if not (within or namespace):
            raise NotFound(
                f"no workload {name!r} is there now",
                hint="trilens workloads lists them; a pod is NAMESPACE/POD",
            ) from e
        return [{"namespace": within or namespace or "", "pod": pod}]
    whole = client.get(f"/api/workloads/{quote(path)}")["data"]
    cluster, in_namespace = whole["workload"]["cluster"], whole["workload"]["namespace"]
    there = [member for member in whole["members"] if member["to_ms"] is None]
    last = [member for member in whole["members"] if member["attempt"] == whole["workload"]["attempt"]]
    names = dict.fromkeys(member["pod"] for member in there or last)
    if not names:
        raise NotFound(
            f"{name} has no pods: nothing has been written", hint="trilens show says what it waits for"
        )
    return [{"cluster": cluster, "namespace": in_namespace, "pod": pod} for pod in names]
