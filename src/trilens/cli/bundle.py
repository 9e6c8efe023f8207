"""`trilens bundle`: all that is known of a case, as one file that a colleague without access can look at."""

import json
import time
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trilens.cli.completion import subjects
from trilens.cli.options import AllNamespaces, Namespace, Server

if TYPE_CHECKING:
    from trilens.diagnose.case_file import CaseFile


def bundle(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|POD|NODE|INCIDENT", help="As trilens why takes it.", autocompletion=subjects
        ),
    ],
    namespace: Namespace = None,
    all_namespaces: AllNamespaces = False,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="What is in it begins here: 1h, or a moment.")
    ] = "1h",
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="[default: trilens-NAME-TIME.zip]")
    ] = None,
    mask_names: Annotated[
        bool,
        typer.Option("--mask-names", help="Replace names of namespaces, pods, nodes, teams and users."),
    ] = False,
    execute: Annotated[
        bool,
        typer.Option("--exec", help="Also run nvidia-smi inside its containers, where that is allowed."),
    ] = False,
    server: Server = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Write one file with metrics, objects, events, logs and records, for trilens why --bundle.

    Secrets and the values of environment variables are never in it.
    """
    from trilens.cli.client import Client
    from trilens.cli.progress import waiting
    from trilens.cli.why import case_params
    from trilens.diagnose.bundle import read_bundle
    from trilens.model.errors import ConfigError

    params = case_params(subject, namespace, all_namespaces, since, execute=execute)
    if mask_names:
        params["mask_names"] = "true"
    with Client(server) as client, waiting(f"collecting what is known of {subject}"):
        content = client.fetch("/api/case", params, method="POST" if execute else "GET").content
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    file = out or Path(f"trilens-{_plain(subject, mask_names)}-{stamp}.zip")
    try:
        file.write_bytes(content)
    except OSError as e:
        raise ConfigError(f"cannot write {file}: {e.strerror}") from e
    case = read_bundle(file)
    parts = _parts(case)
    if as_json:
        missing = [one._asdict() for one in case.missing]
        typer.echo(json.dumps({"file": str(file), "bytes": len(content), "parts": parts, "missing": missing}))
        return
    _show(file, len(content), parts, case)


def _plain(subject: str, is_masked: bool) -> str:
    return "case" if is_masked else subject.rpartition("/")[2]


def _parts(case: "CaseFile") -> dict[str, int]:
    """How many of each are in it."""
    counted = {one.name: getattr(case, one.name) for one in fields(case)}
    counted["series"] = [one for series in case.series.values() for one in series]
    return {
        name: len(value)
        for name, value in counted.items()
        if name not in ("subject", "missing") and hasattr(value, "__len__") and not isinstance(value, str)
    }


def _show(file: Path, size: int, parts: dict[str, int], case: "CaseFile") -> None:
    from trilens.cli.paragraph import say

    typer.echo(f"{file}  {size / 1024:,.0f} KiB")
    say(", ".join(f"{name} {count:,}" for name, count in parts.items() if count) or "nothing", "has:")
    lines = sum(len(log.lines) for log in case.logs)
    points = sum(len(one.values) for series in case.series.values() for one in series)
    say(f"{lines:,} lines of logs, {points:,} points of metrics", "")
    for one in case.missing:
        say(f"{one.what}. To know it: {one.remedy}", "lack:")
    say(f"trilens why --bundle {file}", "read:")
