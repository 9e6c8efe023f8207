"""Questions to the rows of the ledger, as SQL, and their answers."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.ledger_sums import Dimension, Episode, Sum
from trilens.model.run import RunId
from trilens.model.workload import WorkloadKey
from trilens.store.ledger_rows import WORKLOAD
from trilens.store.ledger_sources import BY_DAY, DAY_MS, OF_LINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from trilens.store.ledger_sources import Sources, Table, Where

_AMOUNT: Final = "toInt128(ifNull(quanta, 0))"
_EPISODE_KEY: Final = (
    "bucket",
    "cause",
    *WORKLOAD,
    "run",
    "since_ms",
    "cluster",
    "alone",
    "currency",
)
# GPUs without a UUID are only counted: as many as it takes to have so much time in so many hours.
_AT_LEAST: Final = f"toUInt64(ceil(sum(ms) / (max(high_ms) - min(low_ms) + {HOUR_MS})))"


def sums_statement(by: Sequence[Dimension], sources: Sources, of_days: Table, where: Where) -> str:
    names = [f"k{i}" for i in range(len(by))]
    group = ", ".join([*names, "currency"])
    parts = " UNION ALL ".join(
        f"SELECT {_named(by, table)}currency, gpu_ms AS ms, throttled_ms AS throttled, "
        f"{table.useful} AS useful, {table.signal} AS signal, {_AMOUNT} AS amount, "
        f"{table.unpriced} AS unpriced FROM {table.name} WHERE {condition} AND {table.filters(where)}"
        for table, condition in sources.tables(of_days)
    )
    return (
        f"SELECT {group}, sum(ms) AS gpu_ms, sum(throttled) AS throttled_ms, "
        "sum(useful) AS useful_ms, sum(signal) AS signal_ms, toDecimal128(sum(amount), 0) AS quanta, "
        f"sum(unpriced) AS unpriced_ms FROM ({parts}) "
        f"GROUP BY {group} ORDER BY quanta DESC, gpu_ms DESC, {group}"
    )


def sums_of(by: Sequence[Dimension], found: pa.Table) -> list[Sum]:
    keys = [
        _workloads(found[f"k{i}"]) if one is Dimension.WORKLOAD else found[f"k{i}"].to_pylist()
        for i, one in enumerate(by)
    ]
    measures = [found[name].to_pylist() for name in Sum._fields[1:]]
    at = Sum._fields[1:].index("quanta")
    measures[at] = [int(amount) for amount in measures[at]]
    together = zip(*keys, strict=True) if keys else [()] * found.num_rows
    return [*map(Sum._make, zip(together, *measures, strict=True))]


def is_in_lines(by: Iterable[Dimension], where: Where) -> bool:
    """Whether lines by `OF_LINES` tell of all that is asked. A workload may be named in several ways."""
    return {*by} <= {*OF_LINES, Dimension.HOUR, Dimension.DAY} and {*where} <= {*OF_LINES} - {
        Dimension.WORKLOAD
    }


def of_lines(lines: Iterable[Sum], hour_ms: int, by: Sequence[Dimension], where: Where) -> list[Sum]:
    """Of one hour."""
    moments = {Dimension.HOUR: hour_ms, Dimension.DAY: hour_ms // DAY_MS * DAY_MS}
    places = [(moments.get(one), OF_LINES.index(one) if one in OF_LINES else -1) for one in by]
    kept = [(OF_LINES.index(one), {text or None for text in texts}) for one, texts in where.items()]
    asked = (
        one._replace(keys=tuple(one.keys[at] if moment is None else moment for moment, at in places))
        for one in lines
        if all((one.keys[at] or None) in texts for at, texts in kept)
    )
    return added_up(by, [asked])


def added_up(by: Sequence[Dimension], parts: Iterable[Iterable[Sum]]) -> list[Sum]:
    """Of different rows that count together, in the order in which the engine would tell them."""
    found: dict[tuple[object, ...], Sum] = {}
    for one in chain.from_iterable(parts):
        key = (one.keys, one.currency)
        before = found.get(key)
        found[key] = one if before is None else _added(before, one)
    places = [at for at, one in enumerate(by) if one is Dimension.WORKLOAD]

    def order(one: Sum) -> tuple[Any, ...]:
        keys = [
            (False, key or ()) if at in places else (key is None, key or "")
            for at, key in enumerate(one.keys)
        ]
        return -one.quanta, -one.gpu_ms, keys, one.currency

    return sorted(found.values(), key=order)


def _added(one: Sum, other: Sum) -> Sum:
    return Sum(
        one.keys,
        one.gpu_ms + other.gpu_ms,
        one.throttled_ms + other.throttled_ms,
        one.useful_ms + other.useful_ms,
        one.signal_ms + other.signal_ms,
        one.quanta + other.quanta,
        one.unpriced_ms + other.unpriced_ms,
        one.currency,
    )


def largest_statement(sources: Sources, where: Where, limit: int) -> str:
    """Which episodes are the largest, as numbers: of the others nothing else is asked."""
    amounts = " UNION ALL ".join(
        f"SELECT {table.episode} AS number, {_AMOUNT} AS amount, gpu_ms AS ms FROM {table.name} "
        f"WHERE {condition} AND {table.filters(where)}"
        for table, condition in sources.tables(BY_DAY)
    )
    return (
        f"SELECT number FROM ({amounts}) GROUP BY number "
        f"ORDER BY sum(amount) DESC, sum(ms) DESC, number LIMIT {limit}"
    )


def episodes_statement(sources: Sources, where: Where, numbers: Sequence[int]) -> str:
    group = ", ".join(_EPISODE_KEY)
    these = ", ".join(map(str, numbers))
    parts = " UNION ALL ".join(
        f"SELECT bucket, cause, {', '.join(WORKLOAD)}, run, since_ms, cluster, "
        "if(workload_name = '', node, '') AS alone, currency, "  # what nobody holds is told of each node
        "sum(gpu_ms) AS ms, min(step) AS low_step, min(node) AS low_node, max(node) AS high_node, "
        f"sum({_AMOUNT}) AS amount, sum({table.unpriced}) AS unpriced, min({table.first}) AS low_ms, "
        f"max({table.last}) AS high_ms, argMax(tuple(team), {table.last}) AS last_team, "
        f"{table.gpus} AS hashes "
        f"FROM {table.name} WHERE {condition} AND {table.filters(where)} "
        f"AND {table.episode} IN ({these}) GROUP BY {group}"
        for table, condition in sources.tables(BY_DAY)
    )
    return (
        f"SELECT bucket, cause, {', '.join(WORKLOAD)}, run, since_ms, cluster, currency, "
        "tupleElement(argMax(last_team, high_ms), 1) AS team, "
        "if(min(low_node) = max(high_node), toNullable(min(low_node)), NULL) AS node, "
        "min(low_ms) AS first_ms, max(high_ms) AS last_ms, min(low_step) AS step, "
        f"toInt64(greatest(length(groupUniqArrayArray(hashes)), {_AT_LEAST})) AS gpus, sum(ms) AS gpu_ms, "
        "toDecimal128(sum(amount), 0) AS quanta, sum(unpriced) AS unpriced_ms "
        f"FROM ({parts}) GROUP BY {group} ORDER BY quanta DESC, gpu_ms DESC, {group}"
    )


def episodes_of(found: pa.Table) -> list[Episode]:
    return [
        Episode(
            Bucket(row["bucket"]),
            row["cause"],
            _workload(row[name] for name in WORKLOAD),
            RunId(row["run"]) if row["run"] is not None else None,
            row["team"],
            row["cluster"],
            row["node"],
            row["since_ms"],
            row["first_ms"],
            row["last_ms"],
            row["step"],
            row["gpus"],
            row["gpu_ms"],
            int(row["quanta"]),
            row["unpriced_ms"],
            row["currency"],
        )
        for row in found.to_pylist()
    ]


def _named(by: Sequence[Dimension], table: Table) -> str:
    return "".join(f"{table.expression(one)} AS k{i}, " for i, one in enumerate(by))


def _workloads(column: pa.ChunkedArray) -> list[WorkloadKey | None]:
    names = (part.to_pylist() for part in column.combine_chunks().flatten())
    return [key if key.name else None for key in map(WorkloadKey._make, zip(*names, strict=True))]


def _workload(key: Iterable[str]) -> WorkloadKey | None:
    found = WorkloadKey(*key)
    return found if found.name else None
