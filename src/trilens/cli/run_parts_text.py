"""What a run is made of, below how it stands: attempts, ranks, checkpoints, and what its program noted."""

from __future__ import annotations

import json
from typing import Any

import typer

from trilens.cli.doubt_text import doubt_text
from trilens.cli.folding import WHOLE, one_or_count, ranges, rows_of, say_left_out
from trilens.cli.plain_table import print_table
from trilens.cli.run_cells import (
    UNKNOWN,
    ago_text,
    size_text,
    steps_text,
    values_text,
)
from trilens.cli.times import show_brief, show_moment


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


def show_pairs(title: str, found: dict[str, Any], *, every: bool) -> None:
    if not found:
        return
    typer.echo(f"\n{title}")
    pairs = sorted(found.items())
    shown = pairs if every else pairs[:WHOLE]
    for name, value in shown:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        typer.echo(f"  {name}: {text}")
    say_left_out(len(pairs) - len(shown), "more")


def show_stretches(found: list[dict[str, Any]], run: str) -> None:
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


def show_ranks(found: list[dict[str, Any]], now_s: float, *, every: bool) -> None:
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
                ago_text(max(one["heard_ms"] for one in group), now_s),
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


def show_checkpoints(found: list[dict[str, Any]], *, every: bool) -> None:
    if not found:
        return
    shown = _latest(found, "checkpoints", every=every)
    print_table(
        ["step", "attempt", "time", "took", "size", "ranks", "written", "path"],
        [
            [
                str(one["step"]),
                ranges(one["attempts"]),
                show_moment(one["start_ms"] // 1000),
                UNKNOWN if one["seconds"] is None else show_brief(one["seconds"]),
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


def show_validations(found: list[dict[str, Any]], *, every: bool) -> None:
    if not found:
        return
    shown = _latest(found, "validations", every=every)
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


def show_notes(found: list[dict[str, Any]], *, every: bool) -> None:
    if not found:
        return
    shown = _latest(found, "notes", every=every)
    print_table(
        ["time", "rank", "step", "kind", "note"],
        [
            [
                show_moment(one["t_ms"] // 1000),
                str(one["rank"]),
                UNKNOWN if one["step"] is None else str(one["step"]),
                one["kind"],
                one["text"],
            ]
            for one in shown
        ],
        folds=("note",),
    )


def _latest(found: list[dict[str, Any]], title: str, *, every: bool) -> list[dict[str, Any]]:
    shown = found if every else found[-WHOLE:]
    typer.echo(f"\n{title}")
    say_left_out(len(found) - len(shown), "before these")
    return shown
