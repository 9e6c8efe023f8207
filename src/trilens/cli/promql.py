"""`trilens promql test`: run Prometheus's evaluation scripts against the engine."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trilens.promql.conformance import Outcome

app = typer.Typer(help="The query language.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The query language."""


@app.command()
def test(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Evaluation scripts (.test).")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the counts, failures and exclusions as JSON.")
    ] = False,
) -> None:
    """Run evaluation scripts (load, eval) and compare every answer."""
    from trilens.promql.conformance import run_files

    report = run_files(files)
    for failure in report.failures:
        typer.echo(_told(failure), err=True)
    if as_json:
        typer.echo(json.dumps(report.as_dict(), ensure_ascii=False))
    else:
        typer.echo(f"{report.passed:,} passed, {report.failed:,} failed, {report.excluded:,} excluded")
    raise typer.Exit(1 if report.failed else 0)


def _told(failure: "Outcome") -> str:
    lines = [f"{failure.file}:{failure.line}: {failure.query}", f"  {failure.reason}"]
    for title, text in (("expected", failure.want), ("got", failure.got)):
        first, *rest = text.split("\n")
        if text:
            lines += [f"    {title:<8}  {first}", *(f"{'':14}{line}" for line in rest)]
    return "\n".join(lines)
