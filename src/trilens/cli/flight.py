"""`trilens flight`: who is to blame for a hang, by the dumps of PyTorch's flight recorder."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trilens.diagnose.flight.flight_verdict import FlightVerdict


def flight(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIR|FILE", help="Dumps of the ranks, as PyTorch wrote them."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the dumps in a bundle of trilens bundle.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Find the ranks that a collective waits for, in dumps of PyTorch's flight recorder.

    Stacks that lie beside the dumps are read with them. Nothing that is in a pickle is run.
    """
    from trilens.model.errors import ConfigError

    if bool(paths) == (bundle is not None):
        raise ConfigError("name a folder of dumps, or --bundle FILE", hint="trilens flight /tmp/dumps")
    verdict = _of_bundle(bundle) if bundle is not None else _of_files(paths or [])
    if as_json:
        typer.echo(json.dumps(as_object(verdict), ensure_ascii=False))
    else:
        from trilens.cli.flight_text import show_verdict

        show_verdict(verdict)


def _of_files(paths: list[str]) -> "FlightVerdict":
    from trilens.cli.dump_files import DumpFiles
    from trilens.diagnose.flight.cause import judge_dumps
    from trilens.diagnose.flight.reading import read_dumps

    files = DumpFiles(paths)
    dumps = read_dumps(files.sources(), files.stacks)
    dumps.missing.extend(files.missing)
    return judge_dumps(dumps)


def _of_bundle(file: Path) -> "FlightVerdict":
    from trilens.diagnose.bundle import read_bundle
    from trilens.diagnose.evidence.flight import dumps_of
    from trilens.diagnose.flight.cause import judge_dumps

    case = read_bundle(file)
    dumps = dumps_of(case)
    dumps.missing.extend(case.missing)
    return judge_dumps(dumps)


def as_object(verdict: "FlightVerdict") -> dict[str, Any]:
    """As JSON has it: what the text shows, under names that do not change."""
    return {
        "culprits": list(verdict.culprits),
        "collective": verdict.collective or None,
        "sequence": verdict.sequence,
        "group": verdict.group or None,
        "group_ranks": list(verdict.group_ranks),
        "reason": verdict.reason.value,
        "confidence": verdict.confidence,
        "can_tell": verdict.can_tell,
        "text": verdict.text,
        "fix": list(verdict.fix),
        "waiting": list(verdict.waiting),
        "since_ms": verdict.since_ms,
        "timeout_ms": verdict.timeout_ms,
        "chain": list(verdict.chain),
        "doing": [one._asdict() for one in verdict.doing],
        "others": list(verdict.others),
        "missing": [one._asdict() for one in verdict.missing],
        "ranks": verdict.ranks,
        "world": verdict.world,
    }
