"""Events and output as people read them."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.plain_table import print_table
from trilens.cli.times import show_moment

_UNKNOWN = "-"
_MAY_GO = ("process", "rank", "pod", "asks for", "node")  # on a narrow terminal
_FOLDS = ("meaning",)


def events_table(events: list[dict[str, Any]]) -> None:
    """Oldest first, as a log is read."""
    print_table(
        ["time", "node", "gpu", "event", "meaning", "asks for", "process", "rank", "pod", "workload"],
        [_row(event) for event in reversed(events)],
        may_go=_MAY_GO,
        folds=_FOLDS,
    )


def show_events(events: list[dict[str, Any]]) -> None:
    """Those of one workload, below what else is known of it."""
    if not events:
        return
    typer.echo("\nevents")
    print_table(
        ["time", "node", "gpu", "event", "meaning", "asks for", "process", "rank", "pod"],
        [_row(event)[:-1] for event in reversed(events)],
        may_go=_MAY_GO,
        folds=_FOLDS,
    )


def show_output(pod: dict[str, Any], *, previous: bool) -> None:
    for container in pod["containers"]:
        runs = container["runs"][1:] if previous else container["runs"][:1]
        for run in runs:
            where = f"{pod['namespace']}/{pod['pod']} {container['container']}, run {run['run']}"
            typer.echo(f"== {where}, on {pod['node']}")
            for line in run["lines"]:
                typer.echo(line)
        for message in container["termination_messages"]:
            typer.echo(f"== {pod['namespace']}/{pod['pod']} {container['container']} ended with: {message}")


def _row(event: dict[str, Any]) -> list[str]:
    code = "" if event["code"] is None else f" {event['code']}"
    process = event["process"] or _UNKNOWN
    if event["pid"] is not None:
        process = f"{event['process'] or '?'}[{event['pid']}]"
    return [
        show_moment(event["t_ms"] / 1000),
        event["node"] or _UNKNOWN,
        _text(event["gpu"]),
        f"{event['kind']}{code}",
        _meaning(event),
        event["asks"] or _UNKNOWN,
        process,
        _text(event["rank"]),
        _list(victim["pod"] for victim in event["victims"]),
        _list(_workload(victim["workload"]) for victim in event["victims"]),
    ]


def _meaning(event: dict[str, Any]) -> str:
    """The words of the driver say little beside what a code means; those of Kubernetes say what happened."""
    if event["kind"] == "warning":
        return ": ".join(part for part in (event["title"], event["text"]) if part)
    return str(event["title"] or event["text"])


def _workload(found: dict[str, Any] | None) -> str | None:
    return f"{found['namespace']}/{found['name']}" if found else None


def _list(names: Any) -> str:
    return ", ".join(dict.fromkeys(name for name in names if name)) or _UNKNOWN


def _text(value: int | None) -> str:
    return _UNKNOWN if value is None else str(value)
