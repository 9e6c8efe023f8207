"""`trilens cost`: what was spent and on what, what of it for nothing, and how fast it goes on."""

import json
import sys
import time
from contextlib import nullcontext
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from trilens.cli.options import AsCsv, Server
from trilens.model.ledger_sums import Sharing, Unit

if TYPE_CHECKING:
    from collections.abc import Sequence

app = typer.Typer(invoke_without_command=True)

From: TypeAlias = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="The first hour [default: 24 hours before --to].")
]
To: TypeAlias = Annotated[str | None, typer.Option("--to", metavar="TIME", help="The end [default: now].")]
Where: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(metavar="DIMENSION=VALUE", help="Only of this; may be repeated. `team=` is without a team."),
]
Team: TypeAlias = Annotated[str | None, typer.Option(metavar="NAME", help="Only of this team.")]
AsObject: TypeAlias = Annotated[bool, typer.Option("--json", help="Print an object.")]


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"
    FOCUS = "focus"


@app.callback()
def cost(
    context: typer.Context,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIMENSION",
            help="team, namespace, experiment, workload, run, node, gpu-model, bucket, cost-centre, queue, "
            "cluster, gpu, purchase, region, cause, basis, hour or day; twice for a table across "
            "[default: team and bucket].",
        ),
    ] = None,
    since: From = None,
    to: To = None,
    where: Where = None,
    share_fleet: Annotated[
        Sharing | None,
        typer.Option(help="Who pays for GPUs that nobody held [default: ledger.share_fleet]."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="With the period before, as long.")
    ] = True,
    per: Annotated[
        Unit | None,
        typer.Option(
            help="What one of these cost, by run or inference server; token: a million, of a server those "
            "that came out."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, help="The largest so many lines.")] = 1000,
    form: Annotated[Format, typer.Option("--format", help="How it is printed.")] = Format.TABLE,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Of --format focus: FILE.csv or FILE.parquet [default: stdout, CSV]."
        ),
    ] = None,
    server: Server = None,
    as_json: AsObject = False,
    as_csv: AsCsv = False,
) -> None:
    """Show what was spent, by any two dimensions, compared with the period before.

    Times are now, today, yesterday, month (each its beginning, in UTC), -5h, Unix seconds, or ISO 8601 in
    UTC; whole hours count.
    """
    if context.invoked_subcommand is not None:
        return
    from trilens.cli.client import Client
    from trilens.cli.cost_text import show_cost, show_units
    from trilens.model.errors import ConfigError

    form = _form(as_json=as_json, as_csv=as_csv, otherwise=form)
    if output is not None and form is not Format.FOCUS:
        raise ConfigError("only --format focus writes a file", where="--output")
    params = cost_params(since, to, where, None)
    if form is Format.FOCUS:
        if by or per is not None:
            raise ConfigError("FOCUS has every row of the ledger", hint="leave out --by and --per")
        _write_focus(server, params, output)
        return
    if per is not None:
        if by:
            raise ConfigError("costs per unit are by run or inference server", hint="leave out --by")
        with Client(server) as client:
            answer = client.get("/api/cost/units", {**params, "per": per.value})["data"]
        _print(answer, form, "trilens.cost-per-unit/1", show_units)
        return
    params |= {"by": by or [], "limit": str(limit)}
    if not compare:
        params["compare"] = "false"
    if share_fleet is not None:
        params["share"] = share_fleet.value
    with Client(server) as client:
        answer = client.get("/api/cost", params)["data"]
    _print(answer, form, "trilens.cost/1", show_cost)


@app.command()
def why(
    since: From = None,
    to: To = None,
    team: Team = None,
    where: Where = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, max=500, help="The largest so many causes [default: up to ten that matter]."
        ),
    ] = None,
    server: Server = None,
    as_json: AsObject = False,
    as_csv: AsCsv = False,
) -> None:
    """Say what money was spent on nothing: the largest causes, and what to do about each.

    Times are as for trilens cost.
    """
    from trilens.cli.client import Client
    from trilens.cli.cost_why_text import show_why

    with Client(server) as client:
        params = cost_params(since, to, where, team) | ({"limit": str(limit)} if limit is not None else {})
        answer = client.get("/api/cost/why", params)["data"]
    form = _form(as_json=as_json, as_csv=as_csv)
    _print(answer, form, "trilens.cost-why/1", show_why, lines=answer["causes"])


@app.command()
def now(
    by: Annotated[
        list[str] | None,
        typer.Option(metavar="DIMENSION", help="As for trilens cost [default: team and bucket]."),
    ] = None,
    team: Team = None,
    where: Where = None,
    server: Server = None,
    as_json: AsObject = False,
    as_csv: AsCsv = False,
) -> None:
    """Show how fast money is spent, what the month will have cost, and how budgets stand."""
    from trilens.cli.client import Client
    from trilens.cli.cost_now_text import show_now

    with Client(server) as client:
        params = cost_params(None, None, where, team) | {"by": by or []}
        answer = client.get("/api/cost/now", params)["data"]
    rates = (answer["burn"] or {}).get("rates", [])
    form = _form(as_json=as_json, as_csv=as_csv)
    _print(answer, form, "trilens.cost-now/1", show_now, lines=rates)


def cost_params(
    since: str | None, to: str | None, where: list[str] | None, team: str | None
) -> dict[str, "str | Sequence[str]"]:
    from trilens.cli.times import read_day_or_moment

    now_s = time.time()
    params: dict[str, str | Sequence[str]] = {
        name: f"{read_day_or_moment(text, now_s):.3f}"
        for name, text in (("from", since), ("to", to))
        if text is not None
    }
    kept = [*(where or []), *([f"team={team}"] if team is not None else [])]
    return params | ({"where": kept} if kept else {})


def _form(*, as_json: bool, as_csv: bool, otherwise: Format = Format.TABLE) -> Format:
    from trilens.cli.listing import check_one_form

    check_one_form(as_json=as_json, as_csv=as_csv)
    return Format.JSON if as_json else Format.CSV if as_csv else otherwise


def _print(
    answer: dict[str, Any],
    form: Format,
    schema: str,
    show: Any,
    *,
    lines: "list[dict[str, Any]] | None" = None,
) -> None:
    """`lines` are those of the CSV; of cost itself it has columns of its own."""
    from trilens.cli.cost_text import show_doubts

    if form is Format.JSON:
        typer.echo(json.dumps({"schema": schema, **answer}, ensure_ascii=False))
    elif form is Format.CSV and lines is not None:
        from trilens.cli import csv_lines

        csv_lines.write_csv(lines, sys.stdout)
    elif form is Format.CSV:
        from trilens.cli.cost_csv import write_csv

        write_csv(answer, sys.stdout)
    else:
        show(answer)
    if "hours" in answer:
        show_doubts(answer)


def _write_focus(server: str | None, params: dict[str, "str | Sequence[str]"], output: Path | None) -> None:
    from trilens.cli.client import Client
    from trilens.cli.cost_focus import beside_the_file
    from trilens.cli.progress import waiting
    from trilens.model.errors import ConfigError

    kind = output.suffix.removeprefix(".") if output is not None else "csv"
    if kind not in ("csv", "parquet"):
        raise ConfigError(f"{output} ends in neither .csv nor .parquet", where="--output")
    with (
        Client(server) as client,
        waiting(f"writing {output}") if output is not None else nullcontext(),
        client.stream("/api/cost/focus", {**params, "format": kind}) as answer,
    ):
        if output is None:
            for text in answer.iter_text():
                sys.stdout.write(text)
        else:
            try:
                with output.open("wb") as file:
                    for piece in answer.iter_bytes():
                        file.write(piece)
            except OSError as e:
                raise ConfigError(f"cannot write {output}: {e.strerror or e}", where="--output") from e
        for note in beside_the_file(answer.headers):
            typer.echo(f"warning: {note}", err=True)
