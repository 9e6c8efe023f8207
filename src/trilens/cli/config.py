"""`trilens config check`: read settings files as the server would, and say what is wrong with them."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Settings files.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Settings files."""


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="One trilens.yaml or several.")],
    elsewhere: Annotated[
        bool,
        typer.Option(
            "--elsewhere",
            help="They are for another machine or a pod: say which of the files that they name are not here, "
            "check all else, and leave this shell's TRILENS_ variables out.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON.")] = False,
) -> None:
    """Check settings files, scrape jobs included."""
    import json
    from dataclasses import asdict

    from trilens.cli.config_check import check_file
    from trilens.cli.failure import USAGE

    reports = [check_file(file, is_elsewhere=elsewhere) for file in files]
    fine = all(report.ok for report in reports)
    if as_json:
        typer.echo(json.dumps({"ok": fine, "files": [asdict(report) for report in reports]}))
    else:
        for report in reports:
            for warning in report.warnings:
                typer.echo(f"{report.file}: warning: {warning}", err=True)
            if report.ok:
                typer.echo(f"{report.file}: fine, {report.jobs} scrape job{'' if report.jobs == 1 else 's'}")
            else:
                typer.echo(f"trilens: {report.error}", err=True)
    raise typer.Exit(0 if fine else USAGE)
