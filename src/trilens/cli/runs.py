"""`trilens runs`: what training programs tell of themselves."""

import json
import time
from pathlib import Path
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

import typer

from trilens.cli import run_export
from trilens.cli.completion import experiment_names, run_names
from trilens.cli.options import AsCsv, AsList, Server

app = typer.Typer(invoke_without_command=True)
app.command()(run_export.export)

Run: TypeAlias = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="An id or its beginning, a name, or EXPERIMENT/NAME.", autocompletion=run_names
    ),
]


@app.callback()
def runs(
    context: typer.Context,
    experiment: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only of this experiment.", autocompletion=experiment_names),
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only those that are running, stalled, finished, failed or lost."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those heard of since, such as -1d.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The newest so many.")] = 50,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List runs, the newest first: state, progress, time left, loss and speed.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    if context.invoked_subcommand is not None:
        return
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.run_text import runs_table
    from trilens.cli.times import read_moment

    now_s = time.time()
    filters = {"experiment": experiment, "state": state}
    params = {name: value for name, value in filters.items() if value is not None}
    if since is not None:
        params["from"] = f"{read_moment(since, now_s):.3f}"
    found: list[dict[str, Any]] = []
    with Client(server) as client:
        more: str | None = "0"
        while more is not None and len(found) < limit:
            page = client.get("/api/runs", {**params, "limit": str(limit - len(found)), "next": more})["data"]
            found += page["runs"]
            more = page["next"]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if found:
        runs_table(found, now_s)
        if more is not None:
            typer.echo("and older ones; --limit shows more", err=True)
    else:
        typer.echo("no runs", err=True)


@app.command()
def show(
    run: Run,
    every: Annotated[
        bool, typer.Option("--all", help="Lists as a whole, and every attempt's ranks.")
    ] = False,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """Show one run: attempts, ranks, checkpoints, notes, what was lost."""
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client
    from trilens.cli.run_naming import run_meant
    from trilens.cli.run_text import show_run

    with Client(server) as client:
        answer = client.get(f"/api/runs/{quote(run_meant(client, run))}")
    show_notes(answer)
    found = answer["data"]
    if as_json:
        typer.echo(json.dumps([found], ensure_ascii=False))
    else:
        show_run(found, time.time(), every=every)


@app.command()
def artifacts(
    run: Run,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Write each into this folder.")
    ] = None,
    text: Annotated[
        str | None,
        typer.Option("--show", metavar="ARTIFACT", help="Print this one, such as the stacks of 3.0.1."),
    ] = None,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List the stack dumps and other files that a run's processes sent, save or print them."""
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.run_naming import run_meant
    from trilens.cli.run_parts_text import artifacts_table

    with Client(server) as client:
        path = f"/api/runs/{quote(run_meant(client, run))}"
        if text is not None:
            typer.echo(_printable(client.content(f"{path}/artifacts/{quote(text, safe='')}")))
            return
        found = client.get(path)["data"]["artifacts"]
        if save is not None:
            for one in found:
                one["saved"] = str(_save(save, one, client.content(f"{path}/artifacts/{one['artifact']}")))
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if found:
        artifacts_table(found)
    else:
        typer.echo("no artifacts", err=True)


def _printable(content: bytes) -> str:
    """A program's bytes must not steer the terminal."""
    text = content.decode(errors="replace")
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t").rstrip("\n")


def _save(folder: Path, artifact: dict[str, Any], content: bytes) -> Path:
    """Names come from the program: none of them leads out of the folder."""
    from trilens.model.errors import ConfigError

    plain = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in artifact["name"])
    file = folder / f"rank{artifact['rank']}-{artifact['artifact']}-{plain}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as e:
        raise ConfigError(f"cannot write {file}: {e.strerror or e}", where="--save") from e
    return file
