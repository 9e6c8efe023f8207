"""`trilens detect`: what detectors find in data that Trilens did not collect."""

from typing import Annotated

import typer

from trilens.cli.options import AsCsv, AsList

app = typer.Typer(help="Find trouble in tables from anywhere.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Find trouble in tables from anywhere."""


def _column(what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(metavar="COLUMN", help=f"The column of {what}.")
    return option


@app.command()
def stragglers(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A table with a header, plain, gzip or zstd; - is stdin.")
    ],
    worker: Annotated[str | None, _column("the worker, rank or host")] = None,
    step: Annotated[str | None, _column("the step's number")] = None,
    time: Annotated[str | None, _column("the time: numbers, or ISO 8601. Not with --step")] = None,
    duration: Annotated[str | None, _column("how long the step took, in any unit")] = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List workers that became slower than before and than their peers.

    A row for each step of each worker. Columns are found by their usual names unless options name them.
    A stable spread between workers is none. It ends with 0 whether there are stragglers or not.
    """
    from trilens.cli.listing import is_printed
    from trilens.cli.plain_table import print_table
    from trilens.cli.step_table import read_steps
    from trilens.detect.straggler_table import slow_spells

    steps = read_steps(file, {"worker": worker, "step": step, "time": time, "duration": duration})
    found = [
        {
            "worker": steps.names[spell.worker],
            "from": steps.shown[spell.first],
            "to": steps.shown[spell.last],
            "slowdown": round(spell.slowdown, 3),
        }
        for spell in slow_spells(steps.workers, steps.when, steps.took)
    ]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if found:
        titles = ["worker", f"from {steps.axis}", "to", "slowdown"]
        print_table(titles, [[str(cell) for cell in one.values()] for one in found])
    else:
        told = f"{len(steps.names)} workers, {len(steps.took):,} rows"
        typer.echo(
            f"no stragglers: no worker became slower than it was and than its peers ({told})", err=True
        )
