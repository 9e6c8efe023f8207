"""What was spent, what of it for nothing, and what experiments cost, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.client.shapes import MS_OF_HOUR, workload_name
from trilens.client.table import Column, Kind, Table, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]

_TIMES: Final = frozenset({"hour", "day"})
_SPENT: Final = ("amount", "gpu_hours", "unpriced_gpu_hours", "goodput", "told", "throttled")

CAUSES: Final = (
    *(Column(name) for name in ("sentence", "bucket", "cause")),
    Column("workload", path=lambda row: workload_name(row["workload"])),
    *(Column(name) for name in ("run", "team", "cluster", "node")),
    Column("amount", Kind.MONEY),
    Column("currency"),
    Column("share", Kind.NUMBER),
    Column("gpus", Kind.WHOLE),
    Column("gpu_hours", Kind.NUMBER, lambda row: row["gpu_ms"] / MS_OF_HOUR),
    Column("unpriced_gpu_hours", Kind.NUMBER, lambda row: row["unpriced_gpu_ms"] / MS_OF_HOUR),
    Column("since", Kind.TIME_MS, "since_ms"),
    Column("remedy"),
)

_RUN_COST: Final = (
    Column("experiment"),
    *(Column(name) for name in ("run", "name", "state", "user")),
    Column("started", Kind.TIME_MS, "started_ms"),
    Column("ended", Kind.TIME_MS, "ended_ms"),
    Column("step", Kind.WHOLE),
    Column("gpu_hours", Kind.NUMBER),
    Column("utilization", Kind.NUMBER),
    Column("amount", Kind.MONEY, "cost.amount"),
    Column("currency", path="cost.currency"),
    Column("goodput", Kind.NUMBER, "cost.goodput"),
    Column("on_front", Kind.TRUTH),
)


def cost_table(data: Row, warnings: Sequence[str]) -> Table:
    """A column for each dimension; what the period before has is beside it, where it was compared."""
    columns = [
        *(_dimension(name) for name in data["by"]),
        Column("currency"),
        *(_spent(name, "now", name) for name in _SPENT),
        _spent("before", "before", "amount"),
        Column("change", Kind.MONEY),
        Column("change_ratio", Kind.NUMBER),
        Column("status"),
    ]
    said = [*warnings, *(one["text"] for one in data["warnings"]), *_left_out(data["left_out"])]
    return table_of(columns, data["lines"], said, from_ms=data["from_ms"], to_ms=data["to_ms"])


def why_table(data: Row, warnings: Sequence[str]) -> Table:
    """The rest of the causes, which are not told one by one, are in what holds for all of it."""
    said = [*warnings, *(one["text"] for one in data["warnings"])]
    totals = [
        {name: one[name] for name in ("currency", "spent", "for_nothing", "share")} for one in data["totals"]
    ]
    return table_of(CAUSES, data["causes"], said, from_ms=data["from_ms"], to_ms=data["to_ms"], totals=totals)


def experiments_table(experiments: Sequence[Row], warnings: Sequence[str]) -> Table:
    """Parameters and last metrics as columns `param.NAME` and `metric.NAME`."""
    rows = [{"experiment": one["experiment"], **run} for one in experiments for run in one["runs"]]
    params = sorted({name for row in rows for name in row["params"]})
    metrics = sorted({name for row in rows for name in row["metrics"]})
    columns = [
        *_RUN_COST,
        *(Column(f"param.{name}", Kind.TEXT, _in("params", name)) for name in params),
        *(Column(f"metric.{name}", Kind.NUMBER, _in("metrics", name)) for name in metrics),
    ]
    return table_of(columns, rows, warnings)


def _in(group: str, name: str) -> Any:
    return lambda row: row[group].get(name)


def _dimension(name: str) -> Column:
    if name in _TIMES:
        return Column(name, Kind.TIME_MS, lambda row: row["keys"][name])
    return Column(name, Kind.TEXT, lambda row: workload_name(row["keys"][name]))


def _spent(column: str, when: str, name: str) -> Column:
    """Of a period in which there was nothing of it, nothing is known."""
    if name.endswith("gpu_hours"):
        sent = name.replace("hours", "ms")
        return Column(
            column, Kind.NUMBER, lambda row: row[when][sent] / MS_OF_HOUR if row[when] is not None else None
        )
    return Column(column, Kind.MONEY if name == "amount" else Kind.NUMBER, f"{when}.{name}")


def _left_out(lines: int) -> list[str]:
    return [f"{lines:,} smaller lines are left out; raise limit to have them"] if lines else []
