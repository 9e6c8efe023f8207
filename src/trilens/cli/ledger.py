"""`trilens ledger`: what is booked, whether it adds up, and computing it again."""

import json
import time
from typing import Annotated, Any

import typer

from trilens.cli.options import AsCsv, AsList, Server

app = typer.Typer(help="The ledger behind `trilens cost`.", no_args_is_help=True)

From = Annotated[str, typer.Option("--from", metavar="TIME", help="The first hour.")]
To = Annotated[str, typer.Option("--to", metavar="TIME", help="The end, not included.")]

_DAY_S = 86_400
_FIRST_POLL_S, _LAST_POLL_S = 0.05, 1.0


@app.callback()
def group() -> None:
    """The ledger behind `trilens cost`: every GPU-second in one bucket."""


@app.command()
def verify(
    since: From = "-7d",
    to: To = "now",
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object.")] = False,
) -> None:
    """Check that for every node and hour the rows add up to the bill, exactly.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC. Exit code 1 when something does not add up.
    """
    from trilens.cli.client import Client
    from trilens.cli.ledger_text import added, show_verified
    from trilens.cli.progress import hours_progress

    from_s, to_s = _span(since, to)
    parts: list[dict[str, Any]] = []
    with Client(server) as client, hours_progress("checked", round((to_s - from_s) / 3600)) as advance:
        while from_s < to_s:
            upto_s = min(from_s + _DAY_S, to_s)
            parts.append(client.get("/api/ledger/verify", _params(from_s, upto_s))["data"])
            advance(round((upto_s - from_s) / 3600))
            from_s = upto_s
    found = added(parts)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        show_verified(found)
    raise typer.Exit(1 if found["mismatches"] else 0)


@app.command()
def hours(
    since: From = "-1d",
    to: To = "now",
    corrected: Annotated[
        bool, typer.Option("--corrected", help="Only hours that came out otherwise later.")
    ] = False,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List booked hours with their corrections: when each was computed, why, and how much moved."""
    from trilens.cli.client import Client
    from trilens.cli.ledger_text import hours_table
    from trilens.cli.listing import is_printed

    with Client(server) as client:
        found = client.get("/api/ledger/hours", _params(*_span(since, to)))["data"]
    if corrected:
        several = {one["hour_ms"] for one in found if one["revision"] > 0}
        found = [one for one in found if one["hour_ms"] in several]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if found:
        hours_table(found)
    else:
        typer.echo("no hours", err=True)


@app.command()
def recompute(
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="The first hour.")],
    to: Annotated[str, typer.Option("--to", metavar="TIME", help="The end, not included.")],
    wait: Annotated[bool, typer.Option(help="Until they are computed.")] = True,
    server: Server = None,
) -> None:
    """Compute hours again from what is known now. What comes out otherwise is a new revision."""
    from trilens.cli.client import Client
    from trilens.cli.progress import hours_progress

    params = _params(*_span(since, to))
    with Client(server) as client:
        before = client.get("/api/ledger")["data"]
        asked = client.post("/api/ledger/recompute", params=params)["data"]["hours"]
        left, state, pause_s = asked if wait else 0, before, _FIRST_POLL_S
        with hours_progress("computed", asked) as advance:
            while left:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_POLL_S)
                state = client.get("/api/ledger", params)["data"]
                if state["failures"] > before["failures"]:
                    break
                waiting = sum(state["waiting"].values())
                advance(max(0, left - waiting))
                left = min(left, waiting)
    if state["failures"] > before["failures"]:
        for trouble in state["troubles"]:
            typer.echo(f"trilens: {trouble}", err=True)
        typer.echo(f"{left:,} of {asked:,} hours wait; they are tried again", err=True)
        raise typer.Exit(1)
    changed = state["revisions"] - before["revisions"]
    typer.echo(f"{asked:,} hours asked for" if not wait else f"{asked:,} hours computed, {changed:,} changed")


def _span(since: str, to: str) -> tuple[float, float]:
    """Whole hours, as the server takes them."""
    from trilens.cli.times import read_moment
    from trilens.model.errors import ConfigError

    now_s = time.time()
    from_s, to_s = read_moment(since, now_s), read_moment(to, now_s)
    if from_s >= to_s:
        raise ConfigError("the first hour lies after the end", where="--from")
    return from_s - from_s % 3600, to_s + -to_s % 3600


def _params(from_s: float, to_s: float) -> dict[str, str]:
    return {"from": f"{from_s:.0f}", "to": f"{to_s:.0f}"}
