"""Cost as people read it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import typer

from trilens.cli.cost_across import show_across
from trilens.cli.cost_figures import (
    UNKNOWN,
    amount_text,
    change_text,
    counted,
    goodput_text,
    hours_text,
    is_before_whole,
    key_text,
    moment_text,
    nothing_booked,
    share_text,
    span_text,
)
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_length
from trilens.ledger.answers.money_text import unit_price
from trilens.model.ledger_sums import TOLD_WELL

_NONE_TOLD: Final = {
    "step": "no run told of steps",
    "token": "no run and no inference server told of tokens",
    "request": "no inference server told of requests",
    "improvement": "no run with two validations, and booked from its beginning, was paid for",
}


def show_cost(answer: dict[str, Any]) -> None:
    shared = ", free and broken GPUs shared out by cost" if answer["share_fleet"] == "by-cost" else ""
    length = show_length((answer["to_ms"] - answer["from_ms"]) / 1000)
    before = ""
    if (answer["hours_before"] or {}).get("booked"):
        before = (
            f"; compared with {'' if is_before_whole(answer) else 'what is booked of '}the {length} before"
        )
    typer.echo(f"cost {span_text(answer)} by {' and '.join(answer['by'])}{shared}{before}\n")
    if not answer["lines"]:
        typer.echo(nothing_booked(answer))
        return
    if len(answer["by"]) == 2:
        show_across(answer)
    else:
        _show_lines(answer)
    typer.echo()
    for total in answer["totals"]:
        typer.echo(_total(total, is_whole=is_before_whole(answer)))
    if answer["left_out"]:
        typer.echo(f"and {counted(answer['left_out'], 'smaller line')}; --limit shows more")


def show_units(answer: dict[str, Any]) -> None:
    unit = answer["unit"]
    typer.echo(f"cost per {unit}, {span_text(answer)}: {answer['definition']}\n")
    if not answer["lines"]:
        typer.echo(
            f"{_NONE_TOLD[answer['per']]} in these hours"
            if answer["hours"]["booked"]
            else nothing_booked(answer)
        )
        return
    print_table(
        ["run or server", "name", "units", "cost", "gpu-hours", f"per {unit}", "of"],
        [
            [
                key_text(*next(iter(line["keys"].items()))),
                line["name"] or UNKNOWN,
                f"{line['units']:,.6g}" if line["units"] is not None else UNKNOWN,
                amount_text(line["amount"], line["currency"]),
                hours_text(line["gpu_ms"]),
                _each(line),
                line["detail"],
            ]
            for line in answer["lines"]
        ],
        may_go=("name", "gpu-hours"),
    )


def _each(line: dict[str, Any]) -> str:
    """About, where its units are known of a part of the time only."""
    if not line["per_unit"]:
        return UNKNOWN
    price = unit_price(Decimal(line["per_unit"]), line["currency"])
    return f"~{price}" if _is_partly_told(line) else price


def _is_partly_told(line: dict[str, Any]) -> bool:
    return line["told"] is not None and Decimal(str(line["told"])) < TOLD_WELL


def show_doubts(answer: dict[str, Any]) -> None:
    """On stderr, where the warnings of other commands are."""
    hours, before = answer["hours"], answer.get("hours_before")
    if missing := hours["asked"] - hours["booked"]:
        typer.echo(
            f"note: nothing is booked for {missing:,} of {counted(hours['asked'], 'hour')}: nothing is known "
            "of them, or they are not computed yet",
            err=True,
        )
    if hours["open"]:
        typer.echo(f"note: the last hour is open, computed until {moment_text(hours['upto_ms'])}", err=True)
    if before is not None and 0 < before["booked"] < before["asked"]:
        typer.echo(
            f"note: of the period before, {before['booked']:,} of {counted(before['asked'], 'hour')} "
            "are booked: the change is against these, and no share of them",
            err=True,
        )
    alike: dict[str, list[dict[str, Any]]] = {}
    for warning in answer["warnings"]:  # the largest first
        alike.setdefault(warning["code"], []).append(warning)
    for code, (first, *others) in alike.items():
        more = f"; {len(others):,} more like it, --json has all" if others else ""
        typer.echo(
            f"warning: {code}: {first['text']} ({hours_text(first['gpu_ms'])} GPU-hours in "
            f"{counted(first['hours'], 'hour')}){more}",
            err=True,
        )
        if first["remedy"]:
            typer.echo(f"  do: {first['remedy']}", err=True)


def _show_lines(answer: dict[str, Any]) -> None:
    by, is_whole = answer["by"], is_before_whole(answer)
    print_table(
        [*by, "cost", "change", "gpu-hours", "unpriced", "goodput", "throttled"],
        [
            [*(key_text(name, line["keys"][name]) for name in by), *_figures(line, is_whole)]
            for line in answer["lines"]
        ],
        may_go=("throttled", "goodput"),
    )


def _figures(line: dict[str, Any], is_whole: bool) -> list[str]:
    now = line["now"]
    if now is None:
        return ["gone", _change(line, is_whole), "", "", "", ""]
    return [
        amount_text(now["amount"], line["currency"]),
        _change(line, is_whole),
        hours_text(now["gpu_ms"]),
        hours_text(now["unpriced_gpu_ms"]) if now["unpriced_gpu_ms"] else "",
        share_text(now["goodput"]),
        share_text(now["throttled"]),
    ]


def _change(line: dict[str, Any], is_whole: bool) -> str:
    now, before = line["now"], line["before"]
    if line["change"] is None:
        return ""
    return change_text(
        Decimal(now["amount"] or 0) if now is not None else Decimal(0),
        Decimal(before["amount"] or 0) if before is not None else None,
        line["currency"],
        is_whole=is_whole,
    )


def _total(line: dict[str, Any], *, is_whole: bool) -> str:
    now = line["now"]
    if now is None:
        return f"total: nothing, {_change(line, is_whole)}"
    parts = [f"{hours_text(now['gpu_ms'])} GPU-hours"]
    if line["currency"]:
        change = [_change(line, is_whole)] if line["before"] is not None else []
        parts = [amount_text(now["amount"], line["currency"]), *change, *parts]
    if now["goodput"] is not None:
        parts.append(goodput_text(now))
    if now["throttled"]:
        parts.append(f"{share_text(now['throttled'])} of useful time throttled")
    text = f"total: {', '.join(parts)}"
    if now["unpriced_gpu_ms"]:
        text += f"\nwithout a price: {hours_text(now['unpriced_gpu_ms'])} GPU-hours, in no amount above"
    return text
