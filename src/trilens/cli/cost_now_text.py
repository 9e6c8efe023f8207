"""Burn rate, forecast and budgets, as people read them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import typer

from trilens.cli.cost_figures import UNKNOWN, amount_text, hours_text, key_text, moment_text, share_text
from trilens.cli.doubt_text import doubt_text
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_length

_STATES: Final = {
    "within": "within",
    "at-risk": "may be exceeded",
    "will-exceed": "will be exceeded",
    "exceeded": "exceeded",
    "unknown": "unknown: less than a day to go by",
}
_NO_RATE: Final = "unknown: no exchange rate"


def show_now(answer: dict[str, Any]) -> None:
    _show_burn(answer["burn"])
    _show_month(answer["month"])
    if answer["budgets"]:
        typer.echo("\nbudgets of this month")
        print_table(
            ["budget", "of", "spent", "share", "expected", "four of five", "state", "when"],
            [_budget(one) for one in answer["budgets"]],
            may_go=("four of five",),
        )
        for one in answer["budgets"]:
            _show_gaps(one)


def _show_burn(burn: dict[str, Any] | None) -> None:
    if burn is None:
        typer.echo("burn rate: unknown, nothing of the last hours is booked")
        return
    whole = ", ".join(
        f"{amount_text(one['per_hour'], one['currency'])} an hour for {one['gpus']:,.0f} GPUs"
        for one in burn["totals"]
    )
    length = show_length((burn["upto_ms"] - burn["from_ms"]) / 1000)
    typer.echo(f"burn rate: {whole or 'nothing'} ({length} until {moment_text(burn['upto_ms'])} UTC)")
    if burn["rates"]:
        by = list(burn["rates"][0]["keys"])
        print_table(
            [*by, "an hour", "gpus"],
            [
                [
                    *(key_text(name, one["keys"][name]) for name in by),
                    amount_text(one["per_hour"], one["currency"]),
                    f"{one['gpus']:,.1f}",
                ]
                for one in burn["rates"]
            ],
        )
    if unpriced := sum(one["unpriced_gpus"] for one in burn["totals"]):
        typer.echo(f"without a price: {unpriced:,.1f} GPUs, in no amount above")


def _show_month(month: dict[str, Any]) -> None:
    typer.echo()
    if not month["totals"]:
        typer.echo("this month: nothing with a price is booked")
        return
    for one in month["totals"]:
        typer.echo(f"this month: {_forecast(one, month['days'])}")
        if one["unpriced_gpu_ms"]:
            typer.echo(f"without a price: {hours_text(one['unpriced_gpu_ms'])} GPU-hours, in no amount above")
    print_table(
        ["team", "spent", "expected", "four of five"],
        [
            [
                key_text("team", one["keys"]["team"]),
                amount_text(one["spent"], one["currency"]),
                amount_text(one["expected"], one["currency"]),
                _bounds(one),
            ]
            for one in sorted(month["teams"], key=lambda one: -Decimal(one["spent"]))
        ],
    )
    typer.echo(f"expected: {month['method']}")


def _forecast(one: dict[str, Any], days: int) -> str:
    spent = f"{amount_text(one['spent'], one['currency'])} spent"
    if one["expected"] is None:
        return f"{spent}, the end unknown: less than a whole day is booked"
    expected = f"{amount_text(one['expected'], one['currency'])} expected at its end"
    whole = f"by {days} whole day{'s' if days > 1 else ''}"
    return (
        f"{spent}, {expected} ({_bounds(one)}; {whole})" if one["low"] else f"{spent}, {expected} ({whole})"
    )


def _bounds(one: dict[str, Any]) -> str:
    if one["low"] is None:
        return UNKNOWN
    low, high = (amount_text(one[end], one["currency"]) for end in ("low", "high"))
    return f"{low} to {high}"


def _budget(one: dict[str, Any]) -> list[str]:
    return [
        f"{one['kind']} {one['name']}",
        amount_text(one["amount"], one["currency"]),
        amount_text(one["spent"], one["currency"]),
        share_text(one["share"]),
        amount_text(one["expected"], one["currency"]),
        _bounds(one),
        _NO_RATE if one["gap"] and one["state"] == "unknown" else _STATES[one["state"]],
        key_text("day", one["exceeded_ms"], none=""),
    ]


def _show_gaps(one: dict[str, Any]) -> None:
    whose = f"{one['kind']} {one['name']}"
    if one["unpriced_gpu_ms"]:
        typer.echo(f"{whose}: {hours_text(one['unpriced_gpu_ms'])} GPU-hours without a price, not in it")
    if one["gap"]:
        typer.echo(f"warning: {whose}: {doubt_text(one['gap'])}", err=True)
