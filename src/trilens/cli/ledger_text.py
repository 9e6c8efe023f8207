"""Hours of the ledger as people read them."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from trilens.cli.cost_figures import counted, hours_text
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_moment
from trilens.ledger.answers.money_text import money

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_COUNTED = ("hours", "node_hours", "rows", "gpu_ms")
_SHOWN_MISMATCHES = 50


def added(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Answers about spans one after the other as one."""
    parts = list(parts)
    whole: dict[str, Any] = {name: sum(part[name] for part in parts) for name in _COUNTED}
    for side in ("billed", "booked"):
        sums: defaultdict[str, Decimal] = defaultdict(Decimal)
        for part in parts:
            for currency, amount in part[side].items():
                sums[currency] += Decimal(amount)
        whole[side] = {currency: f"{amount:f}" for currency, amount in sums.items()}
    whole["mismatches"] = [one for part in parts for one in part["mismatches"]]
    return whole


def show_verified(found: dict[str, Any]) -> None:
    mismatches = found["mismatches"]
    for one in mismatches[:_SHOWN_MISMATCHES]:
        place = "/".join(name for name in (one["cluster"], one["node"]) if name)  # none: of all of them
        typer.echo(f"{show_moment(one['hour_ms'] / 1000)}{' ' if place else ''}{place}: {one['text']}")
    if len(mismatches) > _SHOWN_MISMATCHES:
        typer.echo(f"and {len(mismatches) - _SHOWN_MISMATCHES:,} more (--json has all)")
    for side, text in (("billed", "the bills come to"), ("booked", "the rows add up to")):
        for currency, amount in sorted(found[side].items()):
            typer.echo(f"{text} {currency} {Decimal(amount):,f}")
    looked_at = (
        f"{counted(found['hours'], 'hour')}, {counted(found['node_hours'], 'node-hour')}, "
        f"{counted(found['rows'], 'row')}, {hours_text(found['gpu_ms'])} GPU-hours"
    )
    if not found["hours"]:
        typer.echo("nothing is booked in that time", err=True)
    elif mismatches:
        count = len(mismatches)
        typer.echo(f"{looked_at}: {count:,} do{'es' if count == 1 else ''} not add up")
    else:
        typer.echo(f"{looked_at}: all add up exactly")


def hours_table(hours: Sequence[dict[str, Any]]) -> None:
    print_table(
        ["hour", "revision", "computed", "why", "rows", "GPU-hours", "no price", "amount", "moved", "doubts"],
        [
            [
                show_moment(one["hour_ms"] / 1000),
                "open" if one["open"] else str(one["revision"]),
                show_moment(one["computed_ms"] // 1000),
                one["reason"],
                f"{one['rows']:,}",
                hours_text(one["gpu_ms"]),
                hours_text(one["unpriced_gpu_ms"]) if one["unpriced_gpu_ms"] else "",
                _money(one["amount"], one["currency"]),
                _money(one["changed"], one["currency"]) if one["revision"] else "",
                ", ".join(sorted({warning["code"] for warning in one["warnings"]})),
            ]
            for one in hours
        ],
        may_go=("rows", "computed", "no price"),
        folds=("doubts",),
    )


def _money(amount: str | None, currency: str) -> str:
    return money(Decimal(amount), currency) if amount is not None else currency
