"""`trilens nccl`: the root cause in the logs of many ranks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trilens.diagnose.logs.log_verdict import LogVerdict


def nccl(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE...|DIR", help="Logs of the ranks, in any number of files; - is stdin."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the logs in a bundle of trilens bundle.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Find the root cause in the logs of a distributed job, and the rank that it began with.

    Reads NCCL_DEBUG output, tracebacks, PyTorch's watchdog, launchers' lines, kernel lines and stack dumps.
    """
    from trilens.model.errors import ConfigError

    if bool(paths) == (bundle is not None):
        raise ConfigError("name log files or a folder, or --bundle FILE", hint="trilens nccl rank*.log")
    verdict = _of_bundle(bundle) if bundle is not None else _of_files(paths or [])
    if as_json:
        typer.echo(json.dumps(as_object(verdict), ensure_ascii=False))
    else:
        from trilens.cli.nccl_text import show_verdict

        show_verdict(verdict)


def _of_files(paths: list[str]) -> "LogVerdict":
    from trilens.cli.log_files import LogFiles
    from trilens.diagnose.logs.cause import judge_logs

    files = LogFiles(paths)
    verdict = judge_logs(files.sources())
    return replace(verdict, missing=(*verdict.missing, *files.missing))


def _of_bundle(file: Path) -> "LogVerdict":
    from trilens.diagnose.bundle import read_bundle
    from trilens.diagnose.evidence.logs import sources_of
    from trilens.diagnose.logs.cause import judge_logs

    case = read_bundle(file)
    verdict = judge_logs(sources_of(case))
    return replace(verdict, missing=(*verdict.missing, *case.missing))


def as_object(verdict: "LogVerdict") -> dict[str, Any]:
    """As JSON has it: what the text shows, under names that do not change."""
    return {
        "class": verdict.cause,
        "layer": verdict.layer.value,
        "rank": verdict.who.rank,
        "host": verdict.who.host or None,
        "line": verdict.line or None,
        "file": verdict.file or None,
        "line_number": verdict.number or None,
        "t_ms": verdict.t_ms,
        "text": verdict.text,
        "fix": list(verdict.fix),
        "confidence": verdict.confidence,
        "can_tell": verdict.can_tell,
        "why": verdict.why or None,
        "missing": [one._asdict() for one in verdict.missing],
        "others": [_line(one) for one in verdict.others],
        "follows": [one._asdict() for one in verdict.follows],
        "order": [_line(one) for one in verdict.order],
        "clock_offsets_ms": dict(verdict.skew_ms),
        "ranks": verdict.ranks,
        "lines": verdict.lines,
    }


def _line(told: Any) -> dict[str, Any]:
    return {
        "class": told.cause,
        "kind": told.kind.value,
        "rank": told.who.rank,
        "host": told.who.host or None,
        "t_ms": told.t_ms,
        "file": told.file or None,
        "line_number": told.number or None,
        "line": told.text,
        "lines": told.lines,
    }
