"""Two months of the ledger, made of one day that was booked: what people then ask about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.ledger_fleet import DAY_MS

if TYPE_CHECKING:
    from trilens.store.engine import Engine

MONTH_DAYS: Final = 30
_NUMBERS_A_DAY: Final = 3_600_000_000  # `written` of the day before is as much less

# Workloads come and go: of ten that do not serve, nine are others each day.
_NEW_EVERY_DAY: Final = ("workload_name", "workload_uid", "run")


def make_months(engine: Engine, day_ms: int) -> None:
    """The same day again and again, back to two months before; of the earlier month, only days are there."""
    for ago in range(1, 2 * MONTH_DAYS):
        if ago < MONTH_DAYS:
            for table in ("ledger_rows", "ledger_bills"):
                _repeat(engine, table, day_ms, ago)
        for table in ("ledger_hours", "ledger_days", "ledger_day_pairs", "ledger_days_made"):
            _repeat(engine, table, day_ms, ago)


def _repeat(engine: Engine, table: str, day_ms: int, ago: int) -> None:
    columns = [
        *engine.query_arrow(
            f"SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '{table}' "
            "AND default_kind != 'MATERIALIZED' ORDER BY position"
        )["name"].to_pylist()
    ]
    moment = "hour_ms" if "hour_ms" in columns else "day_ms"
    moved = {
        name: f"{name} - {ago * DAY_MS}"
        for name in ("hour_ms", "day_ms", "first_ms", "last_ms", "since_ms", "upto_ms")
    }
    moved |= {name: f"{name} - {ago * _NUMBERS_A_DAY}" for name in ("written", "version")}
    moved["hours"] = f"arrayMap(one -> one - {ago * _NUMBERS_A_DAY}, hours)"
    comes_and_goes = "workload_name NOT LIKE 'inferenceservice-%' AND workload_name != ''"
    for name in _NEW_EVERY_DAY:
        moved[name] = (
            f"if({comes_and_goes} AND cityHash64(workload_name) % 10 != 0, concat({name}, '-{ago}'), {name})"
        )
    chosen = ", ".join(moved.get(name, name) for name in columns)
    engine.command(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {chosen} FROM {table} "
        f"WHERE {moment} >= {day_ms} AND {moment} < {day_ms + DAY_MS}"
    )


def is_exact(engine: Engine) -> tuple[int, int]:
    """Node-hours, and how many of them have rows that do not come to their bill."""
    found = engine.query_arrow(
        "SELECT count() AS hours, countIf(rows_ms != bill_ms OR rows_quanta != bill_quanta) AS wrong FROM ("
        "SELECT hour_ms, node, sum(ms) AS rows_ms, sum(quanta) AS rows_quanta, sum(billed_ms) AS bill_ms, "
        "sum(billed) AS bill_quanta FROM ("
        "SELECT hour_ms, node, sum(gpu_ms) AS ms, sum(toInt128(ifNull(quanta, 0))) AS quanta, "
        "toInt64(0) AS billed_ms, toInt128(0) AS billed FROM ledger_rows GROUP BY hour_ms, node UNION ALL "
        "SELECT hour_ms, node, 0, 0, sum(gpu_ms), sum(arraySum(mapValues(components))) FROM ledger_bills "
        "GROUP BY hour_ms, node) GROUP BY hour_ms, node)"
    ).to_pylist()[0]
    return found["hours"], found["wrong"]
