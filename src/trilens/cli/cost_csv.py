"""Cost as CSV: one line for each combination, money and shares as plain numbers."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

from trilens.cli.cost_figures import HOUR_MS, key_text

if TYPE_CHECKING:
    from typing import TextIO


def write_csv(answer: dict[str, Any], file: TextIO) -> None:
    writer = csv.writer(file, lineterminator="\n")
    if "per" in answer:
        _write_units(answer, writer)
        return
    by = answer["by"]
    writer.writerow(
        [
            *by,
            "currency",
            "amount",
            "gpu_hours",
            "unpriced_gpu_hours",
            "goodput",
            "told",
            "throttled",
            "before_amount",
            "before_gpu_hours",
            "change",
            "status",
        ]
    )
    for line in answer["lines"]:
        now, before = line["now"] or {}, line["before"] or {}
        writer.writerow(
            [
                *(key_text(name, line["keys"][name], none="") for name in by),
                line["currency"] or "",
                now.get("amount"),
                _hours(now.get("gpu_ms")),
                _hours(now.get("unpriced_gpu_ms")),
                now.get("goodput"),
                now.get("told"),
                now.get("throttled"),
                before.get("amount"),
                _hours(before.get("gpu_ms")),
                line["change"],
                line["status"] or "",
            ]
        )


def _write_units(answer: dict[str, Any], writer: Any) -> None:
    writer.writerow(
        ["kind", "id", "name", "currency", "amount", "gpu_hours", "unpriced_gpu_hours", "units", "per_unit"]
    )
    for line in answer["lines"]:
        ((kind, key),) = line["keys"].items()
        writer.writerow(
            [
                kind,
                key_text(kind, key, none=""),
                line["name"],
                line["currency"] or "",
                line["amount"],
                _hours(line["gpu_ms"]),
                _hours(line["unpriced_gpu_ms"]),
                line["units"],
                line["per_unit"],
            ]
        )


def _hours(gpu_ms: int | None) -> str | None:
    return f"{gpu_ms / HOUR_MS:.6f}" if gpu_ms is not None else None
