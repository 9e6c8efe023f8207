"""`trilens show`: all that is known of one workload."""

import json
import time
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from trilens.cli.options import AsList, At, Server

if TYPE_CHECKING:
    from trilens.cli.client import Client


def show(
    workload: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD", help="A name, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME."
        ),
    ],
    at: At = None,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """Show one workload: its members, its phases, and what is doubtful about it.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.times import at_parameter
    from trilens.cli.workload_text import show_workload

    params = at_parameter(at, time.time())
    with Client(server) as client:
        path = _path(client, workload, params)
        answer = client.get(f"/api/workloads/{quote(path)}", params)
    show_notes(answer)
    if as_json:
        typer.echo(json.dumps([answer["data"]], ensure_ascii=False))
    else:
        show_workload(answer["data"])


def _path(client: "Client", written: str, params: dict[str, str]) -> str:
    """CLUSTER/NAMESPACE/KIND/NAME of the one workload that is meant."""
    from trilens.model.errors import NotFound, RequestError

    parts = written.split("/")
    if not all(parts) or len(parts) not in (1, 2, 4):
        raise RequestError(
            f"{written!r} names no workload",
            hint="write NAME, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME",
        )
    if len(parts) == 4:
        return written
    everything = client.get("/api/workloads", params)["data"]
    found = [one for one in everything if _is_meant(one, parts)]
    if not found:
        raise NotFound(
            f"no workload {written!r} at that time",
            hint="trilens workloads lists them; one that is gone is shown by "
            "CLUSTER/NAMESPACE/KIND/NAME, or with --at",
        )
    if len(found) > 1:
        raise RequestError(
            f"{written!r} may be any of {', '.join(sorted(_full_name(one) for one in found))}",
            hint="write one of these",
        )
    return _full_name(found[0])


def _is_meant(one: dict[str, Any], parts: list[str]) -> bool:
    if one["name"] != parts[-1]:
        return False
    kinds = (one["kind"].lower(), f"{one['kind']}.{one['group']}".lower())
    return len(parts) == 1 or parts[0] == one["namespace"] or parts[0].lower() in kinds


def _full_name(one: dict[str, Any]) -> str:
    kind = f"{one['kind']}.{one['group']}" if one["group"] else one["kind"]
    return f"{one['cluster']}/{one['namespace']}/{kind}/{one['name']}"
