"""`trilens import`: history from before Trilens, from tables of jobs and of usage."""

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from trilens.cli.options import Server

if TYPE_CHECKING:
    from trilens.cli.import_jobs import Owned
    from trilens.cli.import_sending import Sent
    from trilens.cli.import_table import BadRows

app = typer.Typer(help="History from before Trilens.", no_args_is_help=True)


class Format(StrEnum):
    sacct = "sacct"
    csv = "csv"


File: TypeAlias = Annotated[
    str, typer.Argument(metavar="FILE", help="The table, plain, gzip or zstd; - is stdin.")
]
Source: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What the table is called from now on [default: the file's name]."),
]
Cluster: TypeAlias = Annotated[str, typer.Option(metavar="NAME", help="The cluster that it is of.")]
Timezone: TypeAlias = Annotated[
    str | None, typer.Option(metavar="ZONE", help="Of times that tell none: Europe/Berlin [default: UTC].")
]
GpuModel: TypeAlias = Annotated[
    str,
    typer.Option(metavar="MODEL", help="The GPUs, where the table does not tell: by this they are priced."),
]
Team: TypeAlias = Annotated[
    str | None, typer.Option(metavar="TEAM", help="Whose it is, where the table does not tell.")
]
SkipBad: TypeAlias = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out rows that cannot be read, and say how many.")
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Read and check, and send nothing.")]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print what was read as JSON.")]


@app.callback()
def group() -> None:
    """History from before Trilens."""


@app.command()
def jobs(
    file: File,
    maps: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN,...",
            help="Which column is what: job, submit, start, end, gpus, model, user, team, queue, name, "
            "state.",
        ),
    ] = None,
    table_format: Annotated[
        Format | None,
        typer.Option("--format", metavar="FORMAT", help="sacct or csv [default: by the columns]."),
    ] = None,
    source: Source = None,
    cluster: Cluster = "imported",
    timezone: Timezone = None,
    gpu_model: GpuModel = "",
    team: Team = None,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When the table was written: so long jobs without an end ran [default: its last time].",
        ),
    ] = None,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Import jobs of a scheduler's table, so that their GPU time counts.

    The output of `sacct -P` is known by its columns; any other table needs --map. All of it is checked before
    any is sent. Doing it again is harmless: a job replaces itself.
    """
    from trilens.cli.import_jobs import FIELDS, JobTable, as_dict, job_mapping, looks_like_sacct
    from trilens.cli.import_sending import send
    from trilens.cli.import_table import BadRows, open_table, read_mapping
    from trilens.cli.import_text import job_sentences
    from trilens.cli.import_values import Clock, zone_named
    from trilens.cli.progress import progress
    from trilens.cli.times import read_moment
    from trilens.model.imported_lines import job_line

    now_s = time.time()
    given = read_mapping(maps or (), FIELDS)
    owned = _owned(file, source, cluster, gpu_model, team)
    clock = Clock(zone_named(timezone))
    until_ms = None if until is None else round(read_moment(until, now_s) * 1000)
    with open_table(file, "|" if table_format is Format.sacct else None) as table:
        sacct = table_format is Format.sacct or (table_format is None and looks_like_sacct(table))
        mapping = job_mapping(given, table, sacct=sacct)
        bad = BadRows(table.name)
        read = JobTable(owned, clock, round(now_s * 1000), bad, sacct=sacct)
        with progress(table.name, table.size, "rows") as advance:
            read.read(table, mapping, advance)
    _settle_bad(bad, skip_bad)
    lines = (job_line(job) for job in read.jobs(until_ms))
    if dry_run:
        sent = None
        for _ in lines:
            pass
    else:
        with progress(f"{bad.file}, sending", None, "jobs") as advance:
            sent = send(server, "jobs", {"source": owned.source, "cluster": cluster}, lines, advance)
    _finish(
        as_dict(read.report) | _sent(owned, sent),
        job_sentences(read.report, clock, owned, sent),
        as_json,
        sent,
    )


@app.command()
def usage(
    file: File,
    maps: Annotated[
        list[str],
        typer.Option(
            "--map", metavar="FIELD=COLUMN,...", help="Which column is what: time, in_use, there (if told)."
        ),
    ],
    source: Source = None,
    cluster: Cluster = "imported",
    timezone: Timezone = None,
    gpu_model: GpuModel = "",
    team: Team = None,
    skip_bad: SkipBad = False,
    dry_run: DryRun = False,
    server: Server = None,
    as_json: AsJson = False,
) -> None:
    """Import how many GPUs were in use, of how many.

    Each row counts until the next. A gap of more than ten usual distances is a time of which nothing is
    known, and counts as neither used nor free.
    """
    from trilens.cli.import_sending import send
    from trilens.cli.import_table import BadRows, open_table, read_mapping
    from trilens.cli.import_text import usage_sentences
    from trilens.cli.import_usage import FIELDS, as_dict, read_usage_table, usage_mapping
    from trilens.cli.import_values import Clock, zone_named
    from trilens.cli.progress import progress
    from trilens.model.imported_lines import usage_line

    given = read_mapping(maps, FIELDS)
    owned = _owned(file, source, cluster, gpu_model, team)
    clock = Clock(zone_named(timezone))
    with open_table(file) as table:
        mapping = usage_mapping(given, table)
        bad = BadRows(table.name)
        with progress(table.name, table.size, "rows") as advance:
            points, report = read_usage_table(
                table, mapping, owned, clock, round(time.time() * 1000), bad, advance
            )
    _settle_bad(bad, skip_bad)
    sent = None
    if not dry_run:
        params = {"source": owned.source, "cluster": cluster, "model": gpu_model}
        if team is not None:
            params["team"] = team
        with progress(f"{bad.file}, sending", None, "rows") as advance:
            sent = send(server, "usage", params, map(usage_line, points), advance)
    _finish(as_dict(report) | _sent(owned, sent), usage_sentences(report, clock, owned, sent), as_json, sent)


def _owned(file: str, source: str | None, cluster: str, model: str, team: str | None) -> "Owned":
    from trilens.cli.import_jobs import Owned
    from trilens.cli.opened_file import STDIN
    from trilens.model.errors import ConfigError
    from trilens.model.imported_lines import check_source

    if source is None:
        if file == STDIN:
            raise ConfigError("a table from stdin has no name", where="--source", hint="give it one")
        source = Path(file).name.partition(".")[0]
    return Owned(check_source(source), cluster, model, team)


def _settle_bad(bad: "BadRows", skip: bool) -> None:
    if not skip:
        bad.refuse()
    for sentence in bad.sentences():
        typer.echo(f"left out: {sentence}", err=True)


def _sent(owned: "Owned", sent: "Sent | None") -> dict[str, object]:
    told: dict[str, object] = {"source": owned.source, "cluster": owned.cluster, "sent": sent is not None}
    if sent is not None:
        told |= {"changed_hours": sent.changed_hours, "expired": sent.expired, "warnings": sent.warnings}
    return told


def _finish(told: dict[str, object], sentences: list[str], as_json: bool, sent: "Sent | None") -> None:
    if as_json:
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        for sentence in sentences:
            typer.echo(sentence, err=sentence.startswith("warning: "))
    if sent is not None and sent.expired and not sent.rows:
        raise typer.Exit(1)
