"""Money spent on nothing, as people read it."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.cost_figures import amount_text, counted, hours_text, nothing_booked, share_text, span_text


def show_why(answer: dict[str, Any]) -> None:
    if not answer["totals"]:
        typer.echo(f"{span_text(answer)}: {nothing_booked(answer)}")
    for total in answer["totals"]:
        typer.echo(_whole(answer, total))
    for cause in answer["causes"]:
        share = f" ({share_text(cause['share'])} of the bill)" if cause["share"] is not None else ""
        typer.echo(f"\n{cause['sentence']}{share}\n  {cause['remedy']}")
    for rest in answer["rest"]:
        many = "smaller causes" if rest["causes"] is None else counted(rest["causes"], "smaller cause")
        money = amount_text(rest["amount"], rest["currency"], brief=True)
        typer.echo(f"\nand {many}, {hours_text(rest['gpu_ms'])} GPU-hours, {money}")


def _whole(answer: dict[str, Any], total: dict[str, Any]) -> str:
    hours = f"{hours_text(total['for_nothing_gpu_ms'])} of {hours_text(total['gpu_ms'])} GPU-hours"
    share = f"for nothing ({share_text(total['share'])})"
    if total["currency"] is None:
        return f"{span_text(answer)}: {hours} {share}, without a price"
    spent, nothing = (amount_text(total[name], total["currency"]) for name in ("spent", "for_nothing"))
    return f"{span_text(answer)}: {nothing} of {spent} {share}, {hours}"
