"""`trilens rules`: check and test rule files, list the rules of a server, take the shipped ones elsewhere."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trilens.cli.options import AsCsv, AsList, Server

if TYPE_CHECKING:
    from trilens.alert.rule_tests.report import Report

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
                for error in (report.error, *report.more):
                    typer.echo(f"trilens: {error}", err=True)
    raise typer.Exit(0 if all(report.ok for report in reports) else USAGE)


@app.command("list")
def list_rules(
    name: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Only rules of these names.")
    ] = None,
    failing: Annotated[
        bool, typer.Option("--failing", help="Only rules whose last evaluation failed.")
    ] = False,
    blind: Annotated[
        bool,
        typer.Option("--blind", help="Only alerting rules that can find nothing, as metrics are missing."),
    ] = False,
    server: Server = None,
    as_json: AsList = False,
    as_csv: AsCsv = False,
) -> None:
    """List the rules of a server, and how they fare."""
    from trilens.cli.client import Client
    from trilens.cli.listing import is_printed
    from trilens.cli.rule_table import show_rules

    with Client(server) as client:
        groups = client.get("/api/v1/rules")["data"]["groups"]
    found = [
        {"file": group["file"], "group": group["name"], "interval": group["interval"], **rule}
        for group in groups
        for rule in group["rules"]
        if (not name or rule["name"] in name)
        and (not failing or rule["health"] == "err")
        and (not blind or "blind" in rule)
    ]
    if is_printed(found, as_json=as_json, as_csv=as_csv):
        return
    if found:
        show_rules(found)
    else:
        typer.echo(_none(name or [], "fails" if failing else "is blind" if blind else ""), err=True)


def _none(names: list[str], what: str) -> str:
    if what:
        return f"no rule {'of these ' if names else ''}{what}"
    return f"no rule is named {' or '.join(names)}" if names else "no rules"


@app.command("test")
def run_tests(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Unit tests, as promtool reads them.")],
    as_json: AsList = False,
) -> None:
    """Run unit tests of rules, as `promtool test rules` does."""
    import logging
    from dataclasses import asdict

    from trilens.alert.rule_tests.run import run_test_file

    logging.getLogger("trilens.alert").addHandler(logging.NullHandler())  # the report has it
    ok = True
    found = []
    for file in files:
        if not as_json:
            typer.echo(f"Unit Testing:  {file}")
        report = run_test_file(file)
        ok = ok and report.ok
        found.append({**asdict(report), "ok": report.ok})
        if not as_json:
            show_test_report(report)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    raise typer.Exit(0 if ok else 1)


def show_test_report(report: "Report") -> None:
    for warning in report.warnings:
        typer.echo(f"  WARNING: {warning}", err=True)
    if report.ok:
        typer.echo("  SUCCESS")
    else:
        typer.echo("  FAILED:", err=True)
        for failure in report.failures:
            typer.echo(failure.text, err=True)
            typer.echo("")
    typer.echo("")


@app.command()
def slo(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Objectives for services.")],
    only_check: Annotated[bool, typer.Option("--check", help="Only say whether the file is fine.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="RULES", help="Write the rules there.")
    ] = None,
) -> None:
    """Make rules with burn rates of a file of objectives."""
    from trilens.alert.slo.file import read_slo_file
    from trilens.alert.slo.rules import slo_rules, slo_warnings
    from trilens.model.errors import ConfigError

    objectives = read_slo_file(file)
    for warning in slo_warnings(objectives):
        typer.echo(f"{file}: warning: {warning}", err=True)
    if only_check:
        typer.echo(f"{file}: fine, {len(objectives)} objective{'' if len(objectives) == 1 else 's'}")
        return
    text = slo_rules(objectives, file.name)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as e:
        raise ConfigError(f"cannot write {output}: {e.strerror or e}") from e
    typer.echo(str(output))


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where to write them; made if need be.")],
    wanted: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="prometheus, prometheusrule or vmalert."),
    ] = "prometheus",
    set_threshold: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another threshold; may be given several times."),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(metavar="NAMESPACE", help="Of PrometheusRule objects; without, kubectl's.")
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label", metavar="NAME=VALUE", help="A label of PrometheusRule objects, for a ruleSelector."
        ),
    ] = None,
    as_json: AsList = False,
) -> None:
    """Write the shipped rule files, for a Prometheus of your own."""
    from trilens.cli.rule_export import Format, exported, read_place, read_thresholds
    from trilens.model.errors import ConfigError

    if wanted not in tuple(Format):
        raise ConfigError(f"there is no format {wanted!r}", hint=f"one of {', '.join(Format)}")
    if wanted != Format.PROMETHEUS_RULE and (namespace is not None or label):
        raise ConfigError("--namespace and --label are for --format prometheusrule")
    values, placed = read_thresholds(set_threshold or ()), read_place(namespace, label or ())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for name, text in exported(Format(wanted), values, placed):
            (folder / name).write_text(text, encoding="utf-8")
            written.append(str(folder / name))
            if not as_json:
                typer.echo(written[-1])
    except OSError as e:
        raise ConfigError(f"cannot write {e.filename or folder}: {e.strerror or e}") from e
    if as_json:
        typer.echo(json.dumps([{"file": file} for file in written], ensure_ascii=False))
