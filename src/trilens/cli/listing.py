"""A list for a program to read: as JSON, or as CSV."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import typer

from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def check_one_form(*, as_json: bool, as_csv: bool) -> None:
    if as_json and as_csv:
        raise ConfigError("--json and --csv are two forms of one answer", hint="give one of them")


def is_printed(
    found: Any, *, as_json: bool, as_csv: bool, lines: Sequence[Mapping[str, Any]] | None = None
) -> bool:
    """Whether that was all: with neither, and with CSV of nothing, which has no columns, there is text to
    show. `lines` are those of the CSV where they are not the objects themselves."""
    check_one_form(as_json=as_json, as_csv=as_csv)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return True
    objects: Sequence[Mapping[str, Any]] = found if lines is None else lines
    if not as_csv or not objects:
        return False
    from trilens.cli.csv_lines import write_csv

    write_csv(objects, sys.stdout)
    return True
