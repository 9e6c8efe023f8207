"""Workloads as people read them."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.doubt_text import doubt_text
from trilens.cli.folding import WHOLE, fold, one_or_count, ranges, say_left_out
from trilens.cli.gpu_text import show_gpus
from trilens.cli.order import natural
from trilens.cli.plain_table import print_table
from trilens.cli.program import show_programs
from trilens.cli.spending_text import show_spending
from trilens.cli.times import show_length, show_moment

_UNKNOWN = "-"


def workloads_table(found: list[dict[str, Any]], at_s: float) -> None:
    several = len({one["cluster"] for one in found}) > 1
    rows = [
        [
            *([one["cluster"]] if several else []),
            one["namespace"],
            one["name"],
            one["kind"],
            one["team"] or _UNKNOWN,
            *_standing(one, at_s),
            _members(one["members"]),
            str(one["attempt"]),
            f"{len(one['doubts'])}?" if one["doubts"] else "",
        ]
        for one in found
    ]
    rows.sort(key=lambda row: [natural(cell) for cell in row])
    titles = ["namespace", "workload", "kind", "team", "phase", "for", "ready", "attempt", "doubts"]
    print_table(["cluster", *titles] if several else titles, rows, may_go=("attempt", "team", "kind"))


def show_workload(found: dict[str, Any], programs: list[dict[str, Any]], at_s: float, *, every: bool) -> None:
    """Unless `every`, only the last attempt's members and GPUs, and those that are alike in one row."""
    one = found["workload"]
    kind = f"{one['kind']}.{one['group']}" if one["group"] else one["kind"]
    typer.echo(f"{kind} {one['namespace']}/{one['name']} in {one['cluster']}")
    typer.echo(f"  {_state(one)}")
    typer.echo(f"  members ready {_members(one['members'])}, attempt {one['attempt']}")
    facts = [(name, one[name.replace(" ", "_")]) for name in ("team", "cost centre", "experiment", "queue")]
    typer.echo("  " + ", ".join(f"{name} {value or 'unknown'}" for name, value in facts))
    show_spending(found["spent"])
    _section("doubts", [doubt_text(doubt) for doubt in one["doubts"]])
    typer.echo("\nmembers")
    members, earlier = fold(found["members"], _member_alike, every=every)
    if members:
        print_table(
            ["attempt", "node rank", "role", "pod", "node", "state", "since", "until"],
            [_members_row(group) for group in members],
            may_go=("role", "since", "attempt"),
        )
    else:
        typer.echo("  none: it has no pods")
    say_left_out(earlier, "of earlier attempts")
    show_gpus(found["gpus"], every=every)
    show_programs(programs, at_s, every=every)
    typer.echo("\nphases")
    phases = found["phases"] if every else found["phases"][-WHOLE:]
    say_left_out(len(found["phases"]) - len(phases), "before these")
    print_table(
        ["attempt", "phase", "since", "for", "reason"],
        [
            [
                str(span["attempt"]),
                span["phase"],
                show_moment(span["from_ms"] / 1000),
                show_length(span["seconds"]),
                span["reason"],
            ]
            for span in phases
        ],
        folds=("reason",),
    )
    spent = sorted(found["seconds_in_phase"].items(), key=lambda pair: -pair[1])
    typer.echo("in all: " + ", ".join(f"{phase} {show_length(seconds)}" for phase, seconds in spent))
    if found["steps"]:
        typer.echo("\nsteps")
        print_table(["step", "state", "since", "for", "pod"], [_step(step) for step in found["steps"]])


def _state(one: dict[str, Any]) -> str:
    if one["gone"]:
        last = f", last {one['gone']['phase']}" if one["gone"]["phase"] else ""
        reason = f" ({one['gone']['reason']})" if one["gone"]["reason"] else ""
        return f"gone since {show_moment(one['gone']['at_ms'] / 1000)}{last}{reason}"
    phase = one["phase"]
    if not phase:
        return "in no phase that is known"
    reason = f" ({phase['reason']})" if phase["reason"] else ""
    return f"{phase['phase']}{reason} for {show_length(phase['seconds'])}"


def _member_alike(member: dict[str, Any]) -> object:
    return member["role"], _member_state(member)


def _member_state(member: dict[str, Any]) -> str:
    if member["to_ms"] is not None:
        return "left"
    return {True: "ready", False: "not ready", None: _UNKNOWN}[member["ready"]]


def _members_row(alike: list[dict[str, Any]]) -> list[str]:
    one = alike[0]
    ends = [member["to_ms"] for member in alike if member["to_ms"] is not None]
    return [
        str(one["attempt"]),
        ranges(member["node_rank"] for member in alike),
        one["role"] or _UNKNOWN,
        one_or_count((member["pod"] for member in alike), "pods"),
        one_or_count((member["node"] for member in alike), "nodes"),
        _member_state(one),
        show_moment(min(member["from_ms"] for member in alike) / 1000),
        show_moment(max(ends) / 1000) if ends else "",
    ]


def _step(step: dict[str, Any]) -> list[str]:
    begun = step["started_ms"] is not None
    return [
        step["name"],
        step["state"],
        show_moment(step["started_ms"] / 1000) if begun else _UNKNOWN,
        show_length(step["seconds"]) if begun else _UNKNOWN,
        step["pod"] or _UNKNOWN,
    ]


def _standing(one: dict[str, Any], at_s: float) -> tuple[str, str]:
    """The phase, or that it is gone, and for how long."""
    phase, gone = one["phase"], one["gone"]
    if gone:
        last = f", last {gone['phase']}" if gone["phase"] else ""
        return f"gone{last}", show_length(max(0.0, at_s - gone["at_ms"] / 1000))
    return (phase["phase"], show_length(phase["seconds"])) if phase else (_UNKNOWN, _UNKNOWN)


def _members(count: dict[str, Any]) -> str:
    ready = "?" if count["ready"] is None else count["ready"]
    return f"{ready}/{count['total']}"


def _section(title: str, lines: list[str]) -> None:
    if lines:
        typer.echo(f"\n{title}")
        for line in lines:
            typer.echo(f"  {line}")
