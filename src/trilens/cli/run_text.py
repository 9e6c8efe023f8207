"""Runs as people read them."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.folding import ranges
from trilens.cli.plain_table import print_table
from trilens.cli.run_cells import UNKNOWN, ago_text, figure_text, rate_text
from trilens.cli.run_naming import run_name
from trilens.cli.run_parts_text import (
    artifacts_table,
    show_checkpoints,
    show_notes,
    show_pairs,
    show_ranks,
    show_stretches,
    show_validations,
)
from trilens.cli.spending_text import show_spending
from trilens.cli.times import show_length, show_moment

_MAY_GO = ("started", "workload", "experiment", "samples/s", "heard")


def runs_table(found: list[dict[str, Any]], now_s: float) -> None:
    print_table(
        [
            "run",
            "experiment",
            "name",
            "workload",
            "state",
            "steps",
            "progress",
            "left",
            "loss",
            "samples/s",
            "heard",
            "started",
        ],
        [_row(one, now_s) for one in found],
        may_go=_MAY_GO,
    )


def show_runs(found: list[dict[str, Any]], now_s: float) -> None:
    """Those of one workload, below what else is known of it."""
    if not found:
        return
    typer.echo("\nruns")
    print_table(
        ["run", "name", "state", "steps", "progress", "left", "loss", "heard"],
        [
            [
                one["run"],
                run_name(one),
                state_text(one, now_s),
                *_progress(one),
                figure_text(one["loss"]),
                ago_text(one["heard_ms"], now_s),
            ]
            for one in found
        ],
        may_go=("heard", "name"),
    )


def show_run(found: dict[str, Any], now_s: float, *, every: bool) -> None:
    """Unless `every`, only the ranks of the last attempt, and those that are alike in one row."""
    run = found["run"]
    typer.echo(f"run {run['run']}" + (f", {run_name(run)}" if run["name"] else ""))
    typer.echo(f"  {state_text(run, now_s)}" + (f" in {run['phase']}" if run["phase"] else ""))
    # Before the error: where one rank was killed, the others fail for want of it.
    if silent := [one["rank"] for one in found["ranks"] if one["is_last"] and one["ending"] == "lost"]:
        typer.echo(f"  rank {ranges(silent)} fell silent: killed, or the machine is gone")
    if run["error"]:
        typer.echo(f"  rank {run['error_rank']}: {run['error']}")
    done, progress, left = _progress(run)
    at = "unknown" if run["step"] is None else run["step"]
    typer.echo(f"  at step {at}, {done} steps done, progress {progress}, time left {left}")
    rate = "unknown" if run["samples_per_second"] is None else rate_text(run["samples_per_second"])
    typer.echo(f"  loss {figure_text(run['loss'])}, samples a second {rate}, {_ranks_text(run['ranks'])}")
    workloads = ", ".join(f"{one['namespace']}/{one['name']}" for one in run["workloads"]) or "unknown"
    typer.echo(f"  experiment {run['experiment'] or 'unknown'}, workload {workloads}")
    show_spending(found["spent"])
    for tracker in run["trackers"]:
        typer.echo(
            f"  {tracker['system']} {tracker['run']}"
            + (f" at {tracker['where']}" if tracker["where"] else "")
        )
    show_pairs("config", found["config"], every=every)
    show_pairs("tags", found["tags"], every=every)
    show_stretches(found["stretches"], run["run"])
    show_ranks(found["ranks"], now_s, every=every)
    show_checkpoints(found["checkpoints"], every=every)
    show_validations(found["validations"], every=every)
    show_notes(found["notes"], every=every)
    if found["artifacts"]:
        typer.echo("\nartifacts")
        artifacts_table(found["artifacts"])
    if found["lost"]:
        lost = ", ".join(f"{count} {kind}" for kind, count in sorted(found["lost"].items()))
        typer.echo(f"\nlost by the SDK: {lost}")


def state_text(one: dict[str, Any], now_s: float) -> str:
    if one["state"] is None:
        return "unknown"
    text = str(one["state"])
    if one["since_ms"] is not None:
        length = show_length(max(0.0, now_s - one["since_ms"] / 1000))
        text += f" for {length}" if one["state"] == "stalled" else f" {length} ago"
    if one["dead_ranks"]:
        text += f", {len(one['dead_ranks'])} of {one['ranks']} ranks dead"
    return text


def _row(one: dict[str, Any], now_s: float) -> list[str]:
    return [
        one["run"],
        one["experiment"] or UNKNOWN,
        one["name"] or UNKNOWN,
        ", ".join(f"{workload['namespace']}/{workload['name']}" for workload in one["workloads"]) or UNKNOWN,
        state_text(one, now_s),
        *_progress(one),
        figure_text(one["loss"]),
        rate_text(one["samples_per_second"]),
        ago_text(one["heard_ms"], now_s),
        show_moment((one["started_ms"] or one["created_ms"]) // 1000),
    ]


def _progress(one: dict[str, Any]) -> tuple[str, str, str]:
    done = UNKNOWN if one["steps_done"] is None else str(one["steps_done"])
    if one["total_steps"] is not None:
        done += f"/{one['total_steps']}"
    progress = UNKNOWN if one["progress"] is None else f"{one['progress']:.0%}"
    left = one["time_left"]
    if left is None:
        return done, progress, UNKNOWN
    text, low, high = (show_length(left[name]) for name in ("seconds", "low", "high"))
    return done, progress, text if low == high else f"{text} ({low} to {high})"


def _ranks_text(count: int) -> str:
    return f"{count} rank{'' if count == 1 else 's'}"
