"""`trilens backfill`: samples of the past into a running server, or into a data directory at rest."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trilens.cli.options import Server


class Format(StrEnum):
    openmetrics = "openmetrics"
    prometheus = "prometheus"


def backfill(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Files to read, plain, gzip or zstd; - is stdin.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write into this data directory, which no server has open."),
    ] = None,
    server: Server = None,
    text_format: Annotated[
        Format,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="openmetrics counts seconds and ends with # EOF, prometheus counts milliseconds.",
        ),
    ] = Format.openmetrics,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written as JSON.")] = False,
) -> None:
    """Load samples of the past from text files.

    They may be of any age and in any order. Every sample needs a timestamp. Doing it again is harmless: a
    sample replaces itself.
    """
    import json

    from trilens.cli.backfill_files import FileReport, check_something_written, load_files, open_receiver
    from trilens.model.errors import ConfigError

    if data is not None and server is not None:
        raise ConfigError("--data names a directory, --server a server", hint="give one of them")
    reports: list[FileReport] = []
    with open_receiver(data, server, text_format) as take:
        for report in load_files(files, take, openmetrics=text_format is Format.openmetrics):
            reports.append(report)
            if not as_json:
                typer.echo(report.sentence())
    if as_json:
        total = sum(report.samples for report in reports)
        typer.echo(json.dumps({"samples": total, "files": [report.as_dict() for report in reports]}))
    check_something_written(reports)
