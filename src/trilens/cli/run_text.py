"""Runs as people read them."""

from __future__ import annotations

import json
from typing import Any

import typer

from trilens.cli.doubt_text import doubt_text
from trilens.cli.folding import WHOLE, one_or_count, ranges, rows_of, say_left_out
from trilens.cli.plain_table import print_table
from trilens.cli.run_naming import run_name
from trilens.cli.spending_text import show_spending
from trilens.cli.times import show_brief, show_length, show_moment

_UNKNOWN = "-"
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
                _figure(one["loss"]),
                _ago(one["heard_ms"], now_s),
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
    rate = "unknown" if run["samples_per_second"] is None else _rate(run["samples_per_second"])
    typer.echo(f"  loss {_figure(run['loss'])}, samples a second {rate}, {_ranks_text(run['ranks'])}")
    workloads = ", ".join(f"{one['namespace']}/{one['name']}" for one in run["workloads"]) or "unknown"
    typer.echo(f"  experiment {run['experiment'] or 'unknown'}, workload {workloads}")
    show_spending(found["spent"])
    for tracker in run["trackers"]:
        typer.echo(
            f"  {tracker['system']} {tracker['run']}"
            + (f" at {tracker['where']}" if tracker["where"] else "")
        )
    _pairs("config", found["config"], every=every)
    _pairs("tags", found["tags"], every=every)
    _stretches(found["stretches"], run["run"])
    _ranks(found["ranks"], now_s, every=every)
    _checkpoints(found["checkpoints"], every=every)
    _validations(found["validations"], every=every)
    _notes(found["notes"], every=every)
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


def artifacts_table(found: list[dict[str, Any]]) -> None:
    saved = any("saved" in one for one in found)
    print_table(
        ["artifact", "time", "rank", "attempt", "kind", "name", "size", *(["saved as"] if saved else [])],
        [
            [
                one["artifact"],
                show_moment(one["t_ms"] / 1000),
                str(one["rank"]),
                str(one["attempt"]),
                one["kind"],
                one["name"],
                size_text(one["size_bytes"]),
                *([one["saved"]] if saved else []),
            ]
            for one in found
        ],
    )


def size_text(size: int | None) -> str:
    if size is None:
        return _UNKNOWN
    amount, unit = float(size), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def steps_text(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _row(one: dict[str, Any], now_s: float) -> list[str]:
    return [
        one["run"],
        one["experiment"] or _UNKNOWN,
        one["name"] or _UNKNOWN,
        ", ".join(f"{workload['namespace']}/{workload['name']}" for workload in one["workloads"]) or _UNKNOWN,
        state_text(one, now_s),
        *_progress(one),
        _figure(one["loss"]),
        _rate(one["samples_per_second"]),
        _ago(one["heard_ms"], now_s),
        show_moment((one["started_ms"] or one["created_ms"]) // 1000),
    ]


def _progress(one: dict[str, Any]) -> tuple[str, str, str]:
    done = _UNKNOWN if one["steps_done"] is None else str(one["steps_done"])
    if one["total_steps"] is not None:
        done += f"/{one['total_steps']}"
    progress = _UNKNOWN if one["progress"] is None else f"{one['progress']:.0%}"
    left = one["time_left"]
    if left is None:
        return done, progress, _UNKNOWN
    text, low, high = (show_length(left[name]) for name in ("seconds", "low", "high"))
    return done, progress, text if low == high else f"{text} ({low} to {high})"


def _ranks_text(count: int) -> str:
    return f"{count} rank{'' if count == 1 else 's'}"


def _figure(value: float | str | None) -> str:
    if value is None:
        return _UNKNOWN
    return value if isinstance(value, str) else f"{value:.4g}"


def _rate(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None and value >= 1000 else _figure(value)


def _ago(t_ms: int | None, now_s: float) -> str:
    return _UNKNOWN if t_ms is None else f"{show_length(max(0.0, now_s - t_ms / 1000))} ago"


def _pairs(title: str, found: dict[str, Any], *, every: bool) -> None:
    if not found:
        return
    typer.echo(f"\n{title}")
    pairs = sorted(found.items())
    shown = pairs if every else pairs[:WHOLE]
    for name, value in shown:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        typer.echo(f"  {name}: {text}")
    say_left_out(len(pairs) - len(shown), "more")


def _stretches(found: list[dict[str, Any]], run: str) -> None:
    if not found:
        typer.echo("\nattempts\n  none of its steps are known")
        return
    typer.echo("\nattempts")
    print_table(
        ["attempt", "ranks", "steps", "began", "from", "thrown away", "ended", "error"],
        [
            [
                ranges(one["attempts"]),
                ranges(one["ranks"]),
                steps_text(one["first_step"], one["last_step"]),
                show_moment(one["from_ms"] // 1000),
                _began(one["began"], run),
                ", ".join(steps_text(gone["first_step"], gone["last_step"]) for gone in one["thrown_away"]),
                one["ended"] or "",
                one["error"] or "",
            ]
            for one in found
        ],
        may_go=("began",),
        folds=("error", "from"),
    )
    doubts = [doubt_text(doubt) for one in found for doubt in one["doubts"]]
    for doubt in dict.fromkeys(doubts):
        typer.echo(f"  {doubt}")


def _began(began: dict[str, Any], run: str) -> str:
    if began["how"] == "scratch":
        return "nothing"
    if began["how"] == "inferred":
        return f"step {began['step']}, by its number"
    whose = f" of {began['run']}" if began["run"] not in (None, run) else ""
    return f"step {began['step']}{whose}, {began['path'] or 'path unknown'}"


def _ranks(found: list[dict[str, Any]], now_s: float, *, every: bool) -> None:
    if not found:
        return
    typer.echo("\nranks")
    shown = found if every else [one for one in found if one["is_last"]]
    groups = [[one] for one in shown] if every else rows_of(shown, _alike)
    print_table(
        ["attempt", "rank", "node", "pod", "gpu", "state", "step", "heard", "error"],
        [
            [
                str(group[0]["attempt"]),
                ranges(one["rank"] for one in group),
                one_or_count((one["node"] or None for one in group), "nodes"),
                one_or_count((one["pod"] for one in group), "pods"),
                one_or_count((gpu for one in group for gpu in one["gpus"]), "GPUs"),
                group[0]["ending"] or "alive",
                ranges(one["step"] for one in group),
                _ago(max(one["heard_ms"] for one in group), now_s),
                one_or_count((one["error"] for one in group), "errors"),
            ]
            for group in groups
        ],
        may_go=("gpu", "pod", "heard"),
        folds=("error",),
    )
    say_left_out(len(found) - len(shown), "of earlier attempts")


def _alike(one: dict[str, Any]) -> object:
    return one["ending"], one["step"], one["error"]


def _checkpoints(found: list[dict[str, Any]], *, every: bool) -> None:
    if not found:
        return
    shown = found if every else found[-WHOLE:]
    typer.echo("\ncheckpoints")
    say_left_out(len(found) - len(shown), "before these")
    print_table(
        ["step", "attempt", "time", "took", "size", "ranks", "written", "path"],
        [
            [
                str(one["step"]),
                ranges(one["attempts"]),
                show_moment(one["start_ms"] // 1000),
                _UNKNOWN if one["seconds"] is None else show_brief(one["seconds"]),
                size_text(one["size_bytes"]),
                ranges(one["ranks"]),
                "well" if one["ok"] else f"failed: {one['error']}",
                one_or_count(one["paths"], "paths"),
            ]
            for one in shown
        ],
        may_go=("ranks", "took"),
        folds=("written",),
    )


def _validations(found: list[dict[str, Any]], *, every: bool) -> None:
    if not found:
        return
    shown = found if every else found[-WHOLE:]
    typer.echo("\nvalidations")
    say_left_out(len(found) - len(shown), "before these")
    print_table(
        ["step", "rank", "attempt", "time", "values"],
        [
            [
                str(one["step"]),
                str(one["rank"]),
                str(one["attempt"]),
                show_moment(one["t_ms"] // 1000),
                values_text(one["values"]),
            ]
            for one in shown
        ],
        folds=("values",),
    )


def values_text(values: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_figure(value)}" for name, value in values.items())


def _notes(found: list[dict[str, Any]], *, every: bool) -> None:
    if not found:
        return
    shown = found if every else found[-WHOLE:]
    typer.echo("\nnotes")
    say_left_out(len(found) - len(shown), "before these")
    print_table(
        ["time", "rank", "step", "kind", "note"],
        [
            [
                show_moment(one["t_ms"] // 1000),
                str(one["rank"]),
                _UNKNOWN if one["step"] is None else str(one["step"]),
                one["kind"],
                one["text"],
            ]
            for one in shown
        ],
        folds=("note",),
    )
