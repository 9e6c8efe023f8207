"""Cost by two dimensions: the first down, the second across."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any, NamedTuple

from trilens.cli.cost_figures import UNKNOWN, change_text, hours_text, is_before_whole, key_text
from trilens.cli.plain_table import print_table
from trilens.ledger.answers.money_text import money
from trilens.model.ledger import Bucket


class _Row(NamedTuple):
    key: str
    currency: str | None


def show_across(answer: dict[str, Any]) -> None:
    down, across = answer["by"]
    cells: defaultdict[_Row, dict[str, str]] = defaultdict(dict)
    totals: defaultdict[_Row, Decimal] = defaultdict(Decimal)
    before: dict[_Row, Decimal] = {}
    gpu_ms: defaultdict[_Row, int] = defaultdict(int)
    weight: defaultdict[str, Decimal] = defaultdict(Decimal)
    for line in answer["lines"]:
        row = _Row(key_text(down, line["keys"][down]), line["currency"])
        if line["before"] is not None:
            before[row] = before.get(row, Decimal(0)) + Decimal(line["before"]["amount"] or 0)
        now = line["now"]
        if now is None:
            continue
        amount = Decimal(now["amount"] or 0)
        column = key_text(across, line["keys"][across])
        cells[row][column] = _cell(now, line["currency"])
        totals[row] += amount
        weight[column] += amount
        gpu_ms[row] += now["gpu_ms"]
    columns = _ordered(across, weight)
    is_whole = is_before_whole(answer)
    rows = [
        [
            row.key,
            *(cells[row].get(column, "") for column in columns),
            money(totals[row], row.currency) if row.currency else UNKNOWN,
            change_text(totals[row], before.get(row), row.currency, is_whole=is_whole)
            if answer["compared"]
            else "",
            hours_text(gpu_ms[row]),
        ]
        for row in sorted(cells, key=lambda one: (-totals[one], -gpu_ms[one], one.key))
    ]
    gone = [
        [
            row.key,
            *([""] * len(columns)),
            "gone",
            change_text(Decimal(0), before[row], row.currency, is_whole=is_whole),
            "",
        ]
        for row in before
        if row not in cells
    ]
    smallest_first = sorted(columns, key=lambda one: weight[one])
    print_table(
        [down, *columns, "total", "change", "gpu-hours"],
        [*rows, *gone],
        may_go=["gpu-hours", *smallest_first[:-1]],
    )


def _cell(now: dict[str, Any], currency: str | None) -> str:
    """Of what has no price only the time is known."""
    return money(Decimal(now["amount"]), currency) if currency else f"{hours_text(now['gpu_ms'])} h"


def _ordered(dimension: str, weight: dict[str, Decimal]) -> list[str]:
    """Buckets and times in their own order, all else by what it cost."""
    if dimension == "bucket":
        return [bucket.value for bucket in Bucket if bucket.value in weight]
    if dimension in ("hour", "day"):
        return sorted(weight)
    return sorted(weight, key=lambda one: (-weight[one], one))
