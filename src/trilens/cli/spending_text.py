"""What a run or a workload cost, and where its GPU time went, in two lines."""

from __future__ import annotations

from typing import Any

import typer

from trilens.cli.cost_figures import amount_text, goodput_text, hours_text, share_text
from trilens.cli.doubt_text import doubt_text


def show_spending(spent: dict[str, Any] | None) -> None:
    """Nothing where the ledger has nothing of it. A part of its time is not shown as if it were all."""
    if spent is None:
        return
    gap = spent["gap"]
    if gap is None:
        so_far = " so far" if spent["provisional"] else ""
        cost, nothing = (amount_text(spent[name], spent["currency"]) for name in ("amount", "for_nothing"))
        typer.echo(f"  cost {cost}{so_far}, {nothing} of it for nothing")
    else:
        typer.echo(f"  cost unknown, {doubt_text(gap)}")
    if not spent["whole"]:
        return
    useful = goodput_text(spent) if spent["goodput"] is not None else "goodput unknown"
    went = ", ".join(
        f"{one['bucket']} {share_text(one['gpu_ms'] / spent['gpu_ms'])}" for one in spent["buckets"]
    )
    typer.echo(f"  {hours_text(spent['gpu_ms'])} GPU-hours, {useful}: {went}")
