"""`trilens experiments`: experiments and their runs, from the SDK and from every tracker alike."""

import json
import time
from typing import Annotated, Any

import typer

from trilens.cli.options import AsList, Server

_METRICS_SHOWN = 4


def experiments(
    name: Annotated[
        str | None, typer.Argument(metavar="EXPERIMENT", help="Only this one, run by run.")
    ] = None,
    server: Server = None,
    as_json: AsList = False,
) -> None:
    """List experiments, or the runs of one: what the SDK, MLflow, W&B and TensorBoard know, side by side."""
    from trilens.cli.answer import show_notes
    from trilens.cli.client import Client

    with Client(server) as client:
        answer = client.get("/api/experiments", {"experiment": name} if name is not None else None)
    found = answer["data"]
    show_notes(answer)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    elif not found:
        typer.echo(f"no experiment {name}" if name is not None else "no experiments", err=True)
    elif name is None:
        _show_all(found)
    else:
        _show_runs(found[0]["runs"])
    if name is not None and not found:
        raise typer.Exit(1)


def _show_all(found: list[dict[str, Any]]) -> None:
    from trilens.cli.plain_table import print_table

    print_table(
        ["experiment", "runs", "running", "from", "gpu-hours", "last started"],
        [
            [
                one["experiment"] or "-",
                str(len(one["runs"])),
                str(sum(run["state"] == "running" for run in one["runs"])),
                ", ".join(sorted({system for run in one["runs"] for system in _systems(run)})),
                _gpu_hours(one["runs"]),
                _ago(one["runs"][0]["started_ms"]),
            ]
            for one in found
        ],
        may_go=("from",),
    )


def _show_runs(runs: list[dict[str, Any]]) -> None:
    from trilens.cli.plain_table import print_table

    print_table(
        ["run", "name", "from", "state", "step", "metrics", "gpu-hours", "started"],
        [
            [
                run["run"] or run["trackers"][0]["run"],
                run["name"] or "-",
                ", ".join(_systems(run)),
                run["state"] or "-",
                str(run["step"]) if run["step"] is not None else "-",
                _metrics(run["metrics"]),
                _gpu_hours([run]),
                _ago(run["started_ms"]),
            ]
            for run in runs
        ],
        may_go=("from", "name"),
        folds=("metrics",),
    )


def _systems(run: dict[str, Any]) -> list[str]:
    ours = ["sdk"] if run["run"] is not None else []
    return ours + sorted({tracker["system"] for tracker in run["trackers"]})


def _gpu_hours(runs: list[dict[str, Any]]) -> str:
    """At least so many, where those of some runs are not known."""
    known = [run["gpu_hours"] for run in runs if run["gpu_hours"] is not None]
    if not known:
        return "-"
    return f"{'' if len(known) == len(runs) else '>= '}{sum(known):.2f}"


def _metrics(metrics: dict[str, float | str]) -> str:
    shown = [
        f"{name} {value:.4g}" if isinstance(value, float | int) else f"{name} {value}"
        for name, value in [*metrics.items()][:_METRICS_SHOWN]
    ]
    more = len(metrics) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "") or "-"


def _ago(t_ms: int | None) -> str:
    from trilens.cli.times import show_length

    return "-" if t_ms is None else f"{show_length(max(0.0, time.time() - t_ms / 1000))} ago"
