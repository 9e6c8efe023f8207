"""Workloads as people read them."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.doubt_text import doubt_text
from trilens.cli.gpu_text import show_gpus
from trilens.cli.order import natural
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_moment

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
    print_table(["cluster", *titles] if several else titles, rows)


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
    _section("doubts", [doubt_text(doubt) for doubt in one["doubts"]])
    typer.echo("\nmembers")
    print_table(
        ["attempt", "rank", "role", "pod", "node", "state", "since", "until"],
        [_member(member) for member in found["members"]],
    )
    show_gpus(found["gpus"])
    typer.echo("\nphases")
    print_table(
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
    if found["steps"]:
        typer.echo("\nsteps")
        print_table(["step", "state", "since", "for", "pod"], [_step(step) for step in found["steps"]])


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


def _step(step: dict[str, Any]) -> list[str]:
    begun = step["started_ms"] is not None
    return [
        step["name"],
        step["state"],
        show_moment(step["started_ms"] / 1000) if begun else _UNKNOWN,
        _length(step["seconds"]) if begun else _UNKNOWN,
        step["pod"] or _UNKNOWN,
    ]


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
