"""Experiments and their runs as people read them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import typer

from trilens.cli.cost_figures import UNKNOWN, amount_text, hours_text, moment_text, share_text
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_length
from trilens.ledger.answers.money_text import money

_METRICS_SHOWN: Final = 4
_FRONT: Final = "*"


def show_all(found: list[dict[str, Any]], now_s: float) -> None:
    print_table(
        ["experiment", "runs", "running", "from", "gpu-hours", "cost", "last started"],
        [
            [
                one["experiment"] or UNKNOWN,
                str(len(one["runs"])),
                str(sum(run["state"] == "running" for run in one["runs"])),
                ", ".join(sorted({system for run in one["runs"] for system in _systems(run)})),
                _gpu_hours(one["runs"]),
                _cost(one["runs"]),
                _ago(one["runs"][0]["started_ms"], now_s),
            ]
            for one in found
        ],
        may_go=("from",),
    )


def show_runs(runs: list[dict[str, Any]], now_s: float) -> None:
    metric = next((run["metric"] for run in runs if run["metric"] is not None), None)
    shown = ["metrics"] if metric is None else [f"last {metric['name']}", "best"]
    print_table(
        [
            "run",
            "",
            "name",
            "from",
            "state",
            "step",
            *shown,
            "gpu-hours",
            "cost",
            "busy",
            "goodput",
            "started",
        ],
        [
            [
                run["run"] or run["trackers"][0]["run"],
                _FRONT if run["on_front"] else "",
                run["name"] or UNKNOWN,
                ", ".join(_systems(run)),
                run["state"] or UNKNOWN,
                str(run["step"]) if run["step"] is not None else UNKNOWN,
                *([_metrics(run["metrics"])] if metric is None else _course(run["metric"])),
                _gpu_hours([run]),
                _cost([run]),
                share_text(run["utilization"]),
                share_text(run["cost"]["goodput"]) if run["cost"] is not None else UNKNOWN,
                _ago(run["started_ms"], now_s),
            ]
            for run in runs
        ],
        may_go=("from", "started", "goodput", "name", "busy"),
        folds=("metrics",),
    )
    if metric is not None and any(run["on_front"] for run in runs):
        better = "more" if metric["maximize"] else "less"
        typer.echo(
            f"\n{_FRONT} no other run is as good and as cheap: {_against(runs)} against best "
            f"{metric['name']} ({_of(metric['of'])}, {better} is better)"
        )
    for run in runs:
        if run["stopped"] is not None:
            typer.echo(_stopped(run))


def _against(runs: list[dict[str, Any]]) -> str:
    """GPU time where the cost of any run with a value is not known, or in another currency."""
    costs = [run["cost"] for run in runs if run["metric"] is not None and run["metric"]["best"] is not None]
    priced = all(cost is not None and cost["amount"] and not cost["unpriced_gpu_ms"] for cost in costs)
    return "cost" if priced and len({cost["currency"] for cost in costs}) == 1 else "GPU-hours"


def _stopped(run: dict[str, Any]) -> str:
    end, cost = run["stopped"], run["stopped"]["cost"]
    said = (
        f"\n{run['run']} had stopped improving at step {end['step']:,} ({moment_text(end['t_ms'])} UTC, "
        f"{run['metric']['name']} {end['value']:.4g}): no value after it was better by more than "
        f"{100 * end['least_gain']:g} %"
    )
    if cost is None:
        return f"{said}; what was spent after that is not known"
    hours = f"{hours_text(cost['gpu_ms'])} GPU-hours"
    if cost["amount"] is None:
        return f"{said}; {hours} were spent after that"
    whole = run["cost"]["amount"] if run["cost"] is not None else None
    share = (
        f" ({share_text(float(Decimal(cost['amount']) / Decimal(whole)))} of it all)"
        if whole and Decimal(whole)
        else ""
    )
    return f"{said}; {amount_text(cost['amount'], cost['currency'])} and {hours} were spent after that{share}"


def _course(metric: dict[str, Any] | None) -> list[str]:
    if metric is None:
        return [UNKNOWN, UNKNOWN]
    at = f" at {metric['best_step']:,}" if metric["best_step"] is not None else ""
    best = f"{metric['best']:.4g}{at}" if metric["best"] is not None else UNKNOWN
    return [f"{metric['final']:.4g}", best]


def _of(source: str) -> str:
    return {"validation": "of its validations", "step": "of its steps", "tracker": "as its tracker has it"}[
        source
    ]


def _systems(run: dict[str, Any]) -> list[str]:
    ours = ["sdk"] if run["run"] is not None else []
    return ours + sorted({tracker["system"] for tracker in run["trackers"]})


def _gpu_hours(runs: list[dict[str, Any]]) -> str:
    """At least so many, where those of some runs are not known."""
    known = [run["gpu_hours"] for run in runs if run["gpu_hours"] is not None]
    if not known:
        return UNKNOWN
    return f"{'' if len(known) == len(runs) else '>= '}{sum(known):.2f}"


def _cost(runs: list[dict[str, Any]]) -> str:
    """The same for money, of each currency."""
    sums: dict[str, Decimal] = {}
    is_whole = True
    for run in runs:
        cost = run["cost"]
        if cost is None or cost["amount"] is None or cost["unpriced_gpu_ms"]:
            is_whole = False
        if cost is not None and cost["amount"] is not None:
            currency = cost["currency"]
            sums[currency] = sums.get(currency, Decimal(0)) + Decimal(cost["amount"])
    text = " + ".join(money(amount, currency) for currency, amount in sorted(sums.items()))
    return f"{'' if is_whole else '>= '}{text}" if text else UNKNOWN


def _metrics(metrics: dict[str, float | str]) -> str:
    shown = [
        f"{name} {value:.4g}" if isinstance(value, float | int) else f"{name} {value}"
        for name, value in [*metrics.items()][:_METRICS_SHOWN]
    ]
    more = len(metrics) - len(shown)
    return ", ".join(shown) + (f", and {more} more" if more else "") or UNKNOWN


def _ago(t_ms: int | None, now_s: float) -> str:
    return UNKNOWN if t_ms is None else f"{show_length(max(0.0, now_s - t_ms / 1000))} ago"
