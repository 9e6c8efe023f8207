"""Which tables a night is kept as, which of their columns are times, and how it is cut where it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.store import sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.store.engine import Engine


class Columns(NamedTuple):
    """Of a table: those that are times of the night, and those that say when a row was written."""

    times_ms: tuple[str, ...] = ()
    times_us: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()  # with times in them
    recordings: str = ""  # of collectives, where a row is of one
    begins: str = ""  # what begins after the end of the night is not there
    written: str = ""  # by the clock on the wall, and larger with each group


_INTERVAL: Final = Columns(("from_ms", "to_ms"), begins="from_ms")
_RECORDS: Final = Columns(written="commit")

TABLES: Final[Mapping[str, Columns]] = {
    "samples": Columns(("t",), begins="t"),
    "series": Columns(("first_seen", "last_seen"), begins="first_seen"),
    "activity": Columns(("first_t", "last_t")),
    "metadata": Columns(),
    "workloads": Columns(("created_ms",)),
    "memberships": _INTERVAL,
    "phases": _INTERVAL,
    "gpus": _INTERVAL,
    "gpu_bindings": _INTERVAL,
    "machines": _INTERVAL,
    "workload_owners": Columns(("from_ms",), begins="from_ms"),
    "events": Columns(("t_ms",), begins="t_ms"),
    "findings": Columns(("detected_ms", "onset_ms", "seen_ms", "to_ms"), texts=("body",)),
    "incidents": Columns(("onset_ms", "to_ms"), texts=("id", "body")),
    "ledger_rows": Columns(("hour_ms", "since_ms")),
    "ledger_bills": Columns(("hour_ms",)),
    "ledger_hours": Columns(("hour_ms", "upto_ms", "computed_ms")),
    "runs": Columns(("created_ms",)),
    "run_processes": Columns(("started_ms", "process_started_ms", "heard_ms", "ended_ms")),
    "run_positions": Columns(texts=("spans",), written="commit"),
    "run_steps": Columns(times_us=("start_us",), written="commit"),
    "run_curves": Columns(times_us=("t_us",), written="commit"),
    "run_batches": _RECORDS,
    "run_shares": _RECORDS,
    "run_samples": _RECORDS,
    "run_checkpoints": Columns(("start_ms",), written="commit"),
    "run_validations": Columns(("t_ms",), written="commit"),
    "run_notes": Columns(("t_ms",), written="commit"),
    "run_artifacts": Columns(("t_ms",), recordings="content", written="commit"),
}
# What is told again and again: of these a row says how things stand, and the last one counts.
STANDING: Final = ("findings", "incidents", "run_positions", "run_processes")
_TIME_METRICS: Final = "(timestamp|created|_time$|_time_seconds$|onset|ALERTS_FOR_STATE)"
_TIMES_S: Final = (1.5e9, 2.5e9)
# Hours are computed by the clock on the wall: what was computed in the future is taken for not computed.
_NOT_LATER: Final = ("last_seen", "computed_ms")


class Shift(NamedTuple):
    """How a night is laid. It is moved by `by_ms`; of what it has, that counts which was there at `end_ms`,
    in the night's own time, and of what ranks told, that which was written until `upto_us`."""

    by_ms: int
    by_us: int  # when rows were written
    end_ms: int
    upto_us: int

    def column(self, table: str, name: str) -> str:
        """What it is read as, in SQL."""
        columns, column = TABLES[table], sql.identifier(name)
        if name in columns.times_ms:
            return f"{self._time(table, name)} + {self.by_ms} AS {column}"
        if name in columns.times_us:
            return f"{column} + {1000 * self.by_ms} AS {column}"
        if name == columns.written:
            return f"{column} + {self.by_us} AS {column}"
        if table == "samples" and name == "v":
            least, most = _TIMES_S
            is_time = f"match(metric, {sql.text(_TIME_METRICS)}) AND v > {least} AND v < {most}"
            return f"if({is_time}, v + {self.by_ms / 1000}, v) AS v"
        return column

    def _time(self, table: str, name: str) -> str:
        column = sql.identifier(name)
        if TABLES[table] is _INTERVAL and name == "to_ms":
            return f"if({column} > {self.end_ms}, NULL, {column})"  # it has not ended yet
        return f"least({column}, {self.end_ms})" if name in _NOT_LATER else column

    def where(self, table: str) -> str:
        columns = TABLES[table]
        if table in STANDING:
            return "true"
        if columns.written:
            return f"{sql.identifier(columns.written)} <= {self.upto_us}"
        return f"{sql.identifier(columns.begins)} <= {self.end_ms}" if columns.begins else "true"


def columns_of(engine: Engine) -> Mapping[str, Mapping[str, str]]:
    """Of each table, with their types: a file without rows does not say them."""
    found = engine.query_arrow(
        "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() "
        "AND default_kind NOT IN ('MATERIALIZED', 'ALIAS') ORDER BY table, position"
    ).to_pylist()
    return {table: {row["name"]: row["type"] for row in found if row["table"] == table} for table in TABLES}
