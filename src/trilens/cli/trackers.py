"""`trilens trackers`: the experiment trackers that the server follows, and how that goes."""

import time

import typer

from trilens.cli.options import AsCsv, AsList, Server


def trackers(server: Server = None, as_json: AsList = False, as_csv: AsCsv = False) -> None:
    """List the experiment trackers that the server follows, and what is wrong with them.

    The exit code is 1 when one of them is not read.
    """
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table
    from trilens.cli.times import show_length

    with Client(server) as client:
        found = client.get("/api/trackers")["data"]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        pass
    elif found:
        now_ms = time.time() * 1000
        print_table(
            ["tracker", "where", "read", "changed runs", "new points", "trouble"],
            [
                [
                    one["system"],
                    one["where"],
                    f"{show_length((now_ms - one['passed_ms']) / 1000)} ago"
                    if one["passed_ms"]
                    else "not yet",
                    str(one["runs"]),
                    str(one["points"]),
                    one["trouble"] or one["refused"] or "-",
                ]
                for one in found
            ],
        )
    else:
        typer.echo("no tracker is followed; docs/trackers.md says how", err=True)
    if any(one["trouble"] for one in found):
        raise typer.Exit(1)
