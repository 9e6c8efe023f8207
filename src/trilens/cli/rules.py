"""`trilens rules`: check rule files, list the rules of a server, take the shipped ones elsewhere."""

import json
from pathlib import Path
from typing import Annotated

import typer

from trilens.cli.options import AsList, Server

app = typer.Typer(help="Recording and alerting rules.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Recording and alerting rules."""


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Prometheus rule files.")],
    as_json: AsList = False,
) -> None:
    """Check rule files, expressions included."""
    from dataclasses import asdict

    from trilens.cli.failure import USAGE
    from trilens.cli.rule_check import check_rule_file

    reports = [check_rule_file(file) for file in files]
    if as_json:
        typer.echo(json.dumps([asdict(report) for report in reports]))
    else:
        for report in reports:
            for warning in report.warnings:
                typer.echo(f"{report.file}: warning: {warning}", err=True)
            if report.ok:
                typer.echo(f"{report.file}: fine, {report.rules} rule{'' if report.rules == 1 else 's'}")
            else:
                typer.echo(f"trilens: {report.error}", err=True)
    raise typer.Exit(0 if all(report.ok for report in reports) else USAGE)


@app.command("list")
def list_rules(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only rules of these names.")
    ] = None,
    failing: Annotated[
        bool, typer.Option("--failing", help="Only rules whose last evaluation failed.")
    ] = False,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """List the rules of a server, and how they fare."""
    from trilens.cli.client import Client
    from trilens.cli.plain_table import print_table

    with Client(server) as client:
        groups = client.get("/api/v1/rules")["data"]["groups"]
    found = [
        {"file": group["file"], "group": group["name"], "interval": group["interval"], **rule}
        for group in groups
        for rule in group["rules"]
        if (not name or rule["name"] in name) and (not failing or rule["health"] == "err")
    ]
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    elif found:
        print_table(
            ["group", "type", "rule", "health", "took", "error"],
            [
                [
                    rule["group"],
                    rule["type"],
                    rule["name"],
                    rule["health"],
                    f"{1000 * rule['evaluationTime']:.1f} ms",
                    rule.get("lastError", ""),
                ]
                for rule in found
            ],
            may_go=("type", "group"),
            folds=("error",),
        )
    else:
        typer.echo("no rules", err=True)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write them; made if need be.")],
) -> None:
    """Write the rule files that Trilens ships, for a Prometheus of your own."""
    from trilens.model.errors import ConfigError
    from trilens.rules import rule_files

    try:
        folder.mkdir(parents=True, exist_ok=True)
        for entry in rule_files():
            (folder / entry.name).write_text(entry.read_text(encoding="utf-8"), encoding="utf-8")
            typer.echo(str(folder / entry.name))
    except OSError as e:
        raise ConfigError(f"cannot write {e.filename or folder}: {e.strerror or e}") from e
