"""`trilens audit`: who did what, and who was not let do it."""

import time
from typing import Annotated, Any

import typer

from trilens.cli.options import AsCsv, AsList, AtMost, Server, Since


def audit(
    since: Since = "-24h",
    until: Annotated[str, typer.Option(metavar="TIME", help="The last moment to ask about.")] = "now",
    who: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only what this one did: a person, or a token by its name or its id."
        ),
    ] = None,
    limit: AtMost = 100,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List changes, what admins read, logins and refusals, the latest first.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table
    from trilens.cli.times import span_parameters

    params = span_parameters(since, until, time.time()) | {"limit": str(limit)}
    with Client(server) as client:
        found = client.get("/api/audit", params | ({"who": who} if who is not None else {}))["data"]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if not found:
        typer.echo("nothing", err=True)
        return
    print_table(
        ["time", "kind", "who", "how", "from", "what", "about", "status", "times", "detail"],
        [_cells(one) for one in found],
        may_go=("how", "about", "from"),
        folds=("detail",),
    )


def _cells(entry: dict[str, Any]) -> list[str]:
    from trilens.cli.times import show_moment

    return [
        show_moment(entry["t_ms"] // 1000),
        entry["kind"],
        entry["who"] or "-",
        entry["how"] or "",
        entry["client"] or entry["peer"],
        f"{entry['method']} {entry['route'] or ''}".strip(),
        entry["object"] or "",
        str(entry["status"]),
        str(entry["count"]),
        entry["detail"] or "",
    ]
