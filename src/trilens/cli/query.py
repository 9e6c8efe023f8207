"""`trilens query`: ask a running server, or a data directory at rest."""

import json
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from trilens.cli.options import At, Server


def query(
    expression: Annotated[str, typer.Argument(metavar="EXPR", help="A PromQL expression.")],
    at: At = None,
    start: Annotated[
        str | None, typer.Option(metavar="TIME", help="Ask about a range that begins here, such as -1h.")
    ] = None,
    end: Annotated[
        str | None, typer.Option(metavar="TIME", help="The end of the range [default: now].")
    ] = None,
    step: Annotated[
        str | None,
        typer.Option(metavar="STEP", help="Distance of two points, such as 15s [default: about 250 points]."),
    ] = None,
    server: Server = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Read this data directory instead of a server.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print a line for each sample, as CSV.")] = False,
) -> None:
    """Evaluate a PromQL expression at a moment, or over a range.

    Times are now, -5m, Unix seconds, or ISO 8601 in UTC.
    """
    from trilens.cli.answer import sample_lines, show, show_notes
    from trilens.cli.client import ask_server
    from trilens.cli.listing import is_printed
    from trilens.cli.order import gives_an_order
    from trilens.model.errors import ConfigError

    if data is not None and server is not None:
        raise ConfigError("--data names a directory, --server a server", hint="give one of them")
    params = query_params(expression, at, start, end, step)
    answer = ask_directory(data, params) if data is not None else ask_server(server, params)
    notes = {"warnings": answer.get("warnings", []), "infos": answer.get("infos", [])}
    ordered = "start" not in params and gives_an_order(expression)
    lines = sample_lines(answer["data"], ordered=ordered) if as_csv else []
    if not as_json:
        show_notes(answer)
    if is_printed({**answer["data"], **notes}, as_json=as_json, as_csv=as_csv, lines=lines):
        return
    show(answer["data"], pretty=sys.stdout.isatty(), ordered=ordered)


def query_params(
    expression: str,
    at: str | None,
    start: str | None,
    end: str | None,
    step: str | None,
    points: int = 250,
) -> dict[str, str]:
    """The request's parameters: with `start` those of a range query, of about so many points."""
    from trilens.cli.times import read_moment, read_step
    from trilens.model.errors import ConfigError

    now = time.time()
    if start is None:
        if end is not None or step is not None:
            raise ConfigError("--end and --step belong to a range", hint="add --start")
        return {"query": expression, "time": f"{read_moment(at or 'now', now):.3f}"}
    if at is not None:
        raise ConfigError("--at asks about one moment, --start about a range", hint="give one of them")
    start_s, end_s = read_moment(start, now), read_moment(end or "now", now)
    step_s = read_step(step, start_s, end_s, points)
    return {"query": expression, "start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:g}"}


def ask_directory(directory: Path, params: dict[str, str]) -> dict[str, Any]:
    """The same answer that a server on this directory would give."""
    from trilens.serve.at_rest import answer_at_rest

    answer: dict[str, Any] = json.loads(answer_at_rest(directory, params))
    return answer
