"""Workloads as people read them."""

from __future__ import annotations

import sys
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from trilens.cli.order import natural
from trilens.cli.times import show_moment

_PIPE_WIDTH = 10_000  # in a pipe nothing is folded or cut
_UNKNOWN = "-"


def workloads_table(found: list[dict[str, Any]]) -> None:
    several = len({one["cluster"] for one in found}) > 1
    rows = [
        [
            *([one["cluster"]] if several else []),
            one["namespace"],
            one["name"],
            one["kind"],
            one["team"] or _UNKNOWN,
            *_phase_since(one["phase"]),
            _members(one["members"]),
            str(one["attempt"]),
            f"{len(one['doubts'])}?" if one["doubts"] else "",
        ]
        for one in found
    ]
    rows.sort(key=lambda row: [natural(cell) for cell in row])
    titles = ["namespace", "workload", "kind", "team", "phase", "for", "ready", "attempt", "doubts"]
    _print_table(["cluster", *titles] if several else titles, rows)


def show_workload(found: dict[str, Any]) -> None:
    one = found["workload"]
    kind = f"{one['kind']}.{one['group']}" if one["group"] else one["kind"]
    typer.echo(f"{kind} {one['namespace']}/{one['name']} in {one['cluster']}")
    phase, since = _phase_since(one["phase"])
    reason = f" ({one['phase']['reason']})" if one["phase"] and one["phase"]["reason"] else ""
    typer.echo(
        f"  {phase}{reason} for {since}" if one["phase"] else "  in no phase: it is gone, or not known"
    )
    typer.echo(f"  members ready {_members(one['members'])}, attempt {one['attempt']}")
    facts = [(name, one[name.replace(" ", "_")]) for name in ("team", "cost centre", "experiment", "queue")]
    typer.echo("  " + ", ".join(f"{name} {value or 'unknown'}" for name, value in facts))
    _section("doubts", [_doubt(doubt) for doubt in one["doubts"]])
    typer.echo("\nmembers")
    _print_table(
        ["attempt", "rank", "role", "pod", "node", "state", "since", "until"],
        [_member(member) for member in found["members"]],
    )
    typer.echo("\nphases")
    _print_table(
        ["attempt", "phase", "since", "for", "reason"],
        [
            [
                str(span["attempt"]),
                span["phase"],
                show_moment(span["from_ms"] / 1000),
                _length(span["seconds"]),
                span["reason"],
            ]
            for span in found["phases"]
        ],
    )
    spent = sorted(found["seconds_in_phase"].items(), key=lambda pair: -pair[1])
    typer.echo("in all: " + ", ".join(f"{phase} {_length(seconds)}" for phase, seconds in spent))
    _section("steps", [f"{step['name']}: {step['state']}" for step in found["steps"]])


def _member(member: dict[str, Any]) -> list[str]:
    ready = {True: "ready", False: "not ready", None: _UNKNOWN}[member["ready"]]
    return [
        str(member["attempt"]),
        _UNKNOWN if member["node_rank"] is None else str(member["node_rank"]),
        member["role"] or _UNKNOWN,
        member["pod"],
        member["node"] or _UNKNOWN,
        ready if member["to_ms"] is None else "left",
        show_moment(member["from_ms"] / 1000),
        "" if member["to_ms"] is None else show_moment(member["to_ms"] / 1000),
    ]


def _doubt(doubt: dict[str, Any]) -> str:
    remedy = f"; {doubt['remedy']}" if doubt["remedy"] else ""
    return f"{doubt['code']}: {doubt['text']}{remedy}"


def _phase_since(phase: dict[str, Any] | None) -> tuple[str, str]:
    return (phase["phase"], _length(phase["seconds"])) if phase else (_UNKNOWN, _UNKNOWN)


def _members(count: dict[str, Any]) -> str:
    ready = "?" if count["ready"] is None else count["ready"]
    return f"{ready}/{count['total']}"


def _length(seconds: float) -> str:
    """The two largest units: 3d 4h, 5m 6s, 7s."""
    whole = int(seconds)
    parts = [(whole // 86_400, "d"), (whole // 3_600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count) or "0s"


def _section(title: str, lines: list[str]) -> None:
    if lines:
        typer.echo(f"\n{title}")
        for line in lines:
            typer.echo(f"  {line}")


def _print_table(titles: list[str], rows: list[list[str]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), collapse_padding=True)
    for title in titles:
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
    for line in console.render_lines(table, console.options):
        typer.echo("".join(segment.text for segment in line).rstrip())
