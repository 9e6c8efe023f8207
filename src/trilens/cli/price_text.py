"""A price book as people read it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import typer

from trilens.cli.doubt_text import doubt_text
from trilens.cli.plain_table import print_table
from trilens.cli.times import show_moment
from trilens.ledger.answers.money_text import money

_UNITS = {
    "per_node_hour": "a node and hour",
    "per_gpu_hour": "a GPU and hour",
    "cpu_per_core_hour": "a core and hour",
    "memory_per_gib_hour": "a GiB of memory and hour",
    "storage_per_gib_month": "a GiB of storage and month",
    "network_per_node_hour": "a node and hour for the network",
}


_ESTIMATE = "~"


def show_book(book: dict[str, Any]) -> None:
    print_table(
        ["name", "for", "price", "from", "until", "as of", "told by", "source"],
        [
            [
                price["name"],
                _machines(price["match"]),
                _asks(price),
                _day(price["from_ms"]),
                _day(price["until_ms"]),
                price["as_of"],
                f"{price['told_by']}{' (default)' if price['default'] else ''}".strip(),
                price["source"],
            ]
            for price in book["prices"]
        ],
        may_go=("source", "told by", "as of", "until", "from"),
        folds=("for", "price"),
    )
    if any(price["estimate"] for price in book["prices"]):
        typer.echo(f"{_ESTIMATE} an estimate: what it costs, or since when, is a guess")
    for rate in book["exchange"]:
        since = f" from {_day(rate['from_ms'])}" if rate["from_ms"] is not None else ""
        typer.echo(f"1 {rate['currency']} is {rate['rate']} {book['currency']}{since}")


def show_choice(choice: dict[str, Any]) -> None:
    if choice["machine"]["known"]:
        typer.echo(_known(choice["machine"]))
    if choice["per_hour"] is None:
        typer.echo("no price")
    else:
        count = f"{choice['gpus']} GPU{'' if choice['gpus'] == 1 else 's'}"
        amount = money(Decimal(choice["per_hour"]), choice["currency"])
        typer.echo(f"{choice['price']}: {amount} an hour for {count}, {choice['purchase'] or 'however paid'}")
        if len(choice["components"]) > 1:
            for part, cost in choice["components"].items():
                typer.echo(f"  {part} {money(Decimal(cost), choice['currency'])}")
    for i, fit in enumerate(choice["fits"]):
        word = "counts" if i == 0 else "fits too"
        marks = [mark for mark in ("default", "estimate") if fit[mark]]
        name = f"{fit['name']} ({', '.join(marks)})" if marks else fit["name"]
        behind = f"; {fit['behind']}" if fit["behind"] else ""
        typer.echo(f"{word}: {name}: {', '.join(fit['why'])}{behind}")
    for miss in choice["misses"]:
        typer.echo(f"does not fit: {miss['name']}: {miss['why']}")
    for doubt in choice["doubts"]:
        typer.echo(f"warning: {doubt_text(doubt)}", err=True)


def _known(machine: dict[str, Any]) -> str:
    """Every kind that a price may ask for, so that what is missing is seen."""
    count = "an unknown number of" if machine["gpus"] is None else machine["gpus"]
    told = [
        f"{count} {machine['gpu_model'] or 'GPUs of an unknown model'}",
        *(
            f"{kind} {machine[kind] or 'not known'}"
            for kind in ("instance_type", "region", "provider", "purchase")
        ),
    ]
    return f"{machine['node']} of cluster {machine['cluster']}: {', '.join(told)}"


def _machines(match: dict[str, list[str]]) -> str:
    return ", ".join(f"{kind} {' or '.join(wanted)}" for kind, wanted in match.items()) or "every machine"


def _asks(price: dict[str, Any]) -> str:
    if price["free"]:
        return "free"
    currency, mark = price["currency"], _ESTIMATE if price["estimate"] else ""
    parts = [
        f"{mark}{amount} {currency} {_UNITS[key]}" for key, amount in price["asks"].items() if key in _UNITS
    ]
    owned = [
        f"{key.removeprefix('owned.')} {amount}"
        for key, amount in price["asks"].items()
        if key.startswith("owned.")
    ]
    if owned:
        parts.insert(0, f"owned ({', '.join(owned)}) in {currency}")
    return ", ".join(parts)


def _day(t_ms: int | None) -> str:
    if t_ms is None:
        return ""
    return show_moment(t_ms / 1000).removesuffix("T00:00:00Z")
