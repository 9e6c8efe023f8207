"""`trilens promql test`: run Prometheus's evaluation scripts against the engine."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The query language.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The query language."""


@app.command()
def test(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Evaluation scripts (.test).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")] = False,
) -> None:
    """Run evaluation scripts (load, eval) and compare every answer."""
    from trilens.model.errors import ConfigError
    from trilens.promql.conformance import run_files

    for file in files:
        if not file.is_file():
            raise ConfigError(f"no such script: {file}")
    report = run_files(files)
    for failure in report.failures:
        typer.echo(f"{failure.file}:{failure.line}: {failure.query}\n  {failure.reason}", err=True)
        if failure.got or failure.want:
            typer.echo(f"  got   {failure.got}\n  want  {failure.want}", err=True)
    if as_json:
        counts = {"passed": report.passed, "failed": report.failed, "excluded": report.excluded}
        typer.echo(json.dumps(counts))
    else:
        typer.echo(f"{report.passed:,} passed, {report.failed:,} failed, {report.excluded:,} excluded")
    raise typer.Exit(1 if report.failed else 0)
