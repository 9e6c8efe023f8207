"""Questions to the rows of the ledger, as SQL, and their answers.

A window is read from days where whole days lie in it and have been made, and from hours elsewhere. Both have
the same columns but for GPU and hour, so that the sum over them is exact whatever came from where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.errors import RequestError
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.ledger_sums import Dimension, Episode, Sum
from trilens.model.run import RunId
from trilens.model.workload import WorkloadKey
from trilens.store import sql
from trilens.store.ledger_rows import ROWS, WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    Where = Mapping[Dimension, tuple[str | None, ...]]

DAYS: Final = "ledger_days"
DAY_MS: Final = 24 * HOUR_MS

_COLUMNS: Final = {
    Dimension.TEAM: "team",
    Dimension.COST_CENTRE: "cost_centre",
    Dimension.NAMESPACE: "namespace",
    Dimension.QUEUE: "queue",
    Dimension.EXPERIMENT: "experiment",
    Dimension.RUN: "run",
    Dimension.CLUSTER: "cluster",
    Dimension.NODE: "node",
    Dimension.GPU: "gpu",
    Dimension.GPU_MODEL: "model",
    Dimension.PURCHASE: "purchase",
    Dimension.REGION: "region",
    Dimension.BUCKET: "bucket",
    Dimension.CAUSE: "cause",
    Dimension.BASIS: "basis",
}
_NOT_IN_DAYS: Final = frozenset({Dimension.GPU, Dimension.HOUR})

_QUANTA: Final = "sum(toInt128(ifNull(quanta, 0)))"
_USEFUL: Final = sql.text_list(sorted(bucket for bucket in Bucket if bucket.is_useful))
_TOLD: Final = f"basis != {sql.text(Basis.NONE)}"
_ALONE: Final = "if(workload_name = '', node, '')"  # what nobody holds is told of each node
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
_EPISODE_HASH: Final = (
    f"cityHash64(bucket, cause, {', '.join(WORKLOAD)}, ifNull(run, ''), ifNull(since_ms, -1), cluster, "
    f"{_ALONE}, currency)"
)

# A day has all of an hour's columns but these: its GPU, its doubts, and the hour itself.
_DAY_KEY: Final = (
    "cluster",
    "node",
    "model",
    "purchase",
    "region",
    *WORKLOAD,
    "attempt",
    "namespace",
    "run",
    "experiment",
    "team",
    "cost_centre",
    "queue",
    "bucket",
    "cause",
    "since_ms",
    "step",
    "basis",
    "currency",
)


class _Table(NamedTuple):
    """What both kinds of rows tell, each in its way."""

    name: str
    moment: str
    first: str
    last: str
    unpriced: str
    gpus: str


_BY_HOUR: Final = _Table(
    ROWS,
    "hour_ms",
    "hour_ms",
    "hour_ms",
    "sumIf(gpu_ms, quanta IS NULL)",
    "groupUniqArrayIf(cityHash64(node, gpu), gpu != '')",
)
_BY_DAY: Final = _Table(
    DAYS, "day_ms", "first_ms", "last_ms", "sum(unpriced_ms)", "groupUniqArrayArray(gpus)"
)


# GPUs without a UUID are only counted: as many as it takes to have so much time in so many hours.
_AT_LEAST: Final = f"toUInt64(ceil(sum(ms) / (max(high_ms) - min(low_ms) + {HOUR_MS})))"


class Sources(NamedTuple):
    """Where a window is read: conditions for either table, None where nothing of it is."""

    hours: str | None
    days: str | None

    def tables(self) -> list[tuple[_Table, str]]:
        both = ((_BY_HOUR, self.hours), (_BY_DAY, self.days))
        return [(table, condition) for table, condition in both if condition is not None]


def uses_days(by: Iterable[Dimension], where: Iterable[Dimension]) -> bool:
    return _NOT_IN_DAYS.isdisjoint((*by, *where))


def sums_statement(by: Sequence[Dimension], sources: Sources, where: Where) -> str:
    names = [f"k{i}" for i in range(len(by))]
    group = ", ".join([*names, "currency"])
    measures = (
        "currency, sum(gpu_ms) AS ms, sum(throttled_ms) AS throttled, "
        f"sumIf(gpu_ms, bucket IN {_USEFUL} AND {_TOLD}) AS useful, sumIf(gpu_ms, {_TOLD}) AS signal, "
        f"{_QUANTA} AS amount"
    )
    parts = [
        f"SELECT {_named(by, table)}{measures}, {table.unpriced} AS unpriced FROM {table.name} "
        f"WHERE {condition} AND {filters(where, table)} GROUP BY {group}"
        for table, condition in sources.tables()
    ]
    return (
        f"SELECT {group}, sum(ms) AS gpu_ms, sum(throttled) AS throttled_ms, "
        "sum(useful) AS useful_ms, sum(signal) AS signal_ms, toDecimal128(sum(amount), 0) AS quanta, "
        f"sum(unpriced) AS unpriced_ms FROM ({' UNION ALL '.join(parts)}) "
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
    return [Sum(key, *row) for key, row in zip(together, zip(*measures, strict=True), strict=True)]


def episodes_statement(sources: Sources, where: Where, limit: int) -> str:
    """The largest are found first, by a hash of what they are: of the others nothing else is asked."""
    group = ", ".join(_EPISODE_KEY)
    amounts = " UNION ALL ".join(
        f"SELECT {_EPISODE_HASH} AS episode, {_QUANTA} AS amount, sum(gpu_ms) AS ms FROM {table.name} "
        f"WHERE {condition} AND {filters(where, table)} GROUP BY episode"
        for table, condition in sources.tables()
    )
    largest = (
        f"SELECT episode FROM ({amounts}) GROUP BY episode "
        f"ORDER BY sum(amount) DESC, sum(ms) DESC, episode LIMIT {limit}"
    )
    parts = " UNION ALL ".join(
        f"SELECT bucket, cause, {', '.join(WORKLOAD)}, run, since_ms, cluster, {_ALONE} AS alone, currency, "
        "sum(gpu_ms) AS ms, min(step) AS low_step, min(node) AS low_node, max(node) AS high_node, "
        f"{_QUANTA} AS amount, {table.unpriced} AS unpriced, min({table.first}) AS low_ms, "
        f"max({table.last}) AS high_ms, argMax(tuple(team), {table.last}) AS last_team, "
        f"{table.gpus} AS hashes "
        f"FROM {table.name} WHERE {condition} AND {filters(where, table)} "
        f"AND {_EPISODE_HASH} IN ({largest}) GROUP BY {group}"
        for table, condition in sources.tables()
    )
    return (
        f"SELECT bucket, cause, {', '.join(WORKLOAD)}, run, since_ms, cluster, currency, "
        "tupleElement(argMax(last_team, high_ms), 1) AS team, "
        "if(min(low_node) = max(high_node), toNullable(min(low_node)), NULL) AS node, "
        "min(low_ms) AS first_ms, max(high_ms) AS last_ms, min(low_step) AS step, "
        f"toInt64(greatest(length(groupUniqArrayArray(hashes)), {_AT_LEAST})) AS gpus, sum(ms) AS gpu_ms, "
        "toDecimal128(sum(amount), 0) AS quanta, sum(unpriced) AS unpriced_ms "
        f"FROM ({parts}) GROUP BY {group} ORDER BY quanta DESC, gpu_ms DESC, {group} LIMIT {limit}"
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


def day_statement(number: int, day_ms: int, counts: str) -> str:
    """Of one day's hours, of their rows that count."""
    key = ", ".join(_DAY_KEY)
    return (
        f"INSERT INTO {DAYS} (day_ms, {key}, gpu_ms, throttled_ms, quanta, unpriced_ms, gpus, first_ms, "
        f"last_ms, written) SELECT {day_ms}, {key}, sum(gpu_ms), sum(throttled_ms), "
        f"toDecimal128({_QUANTA}, 0), {_BY_HOUR.unpriced}, {_BY_HOUR.gpus}, min(hour_ms), max(hour_ms), "
        f"{number} FROM {ROWS} "
        f"WHERE hour_ms >= {day_ms} AND hour_ms < {day_ms + DAY_MS} AND {counts} GROUP BY {key}"
    )


def filters(where: Where, table: _Table = _BY_HOUR) -> str:
    """As one condition, of which every dimension's part must hold."""
    return " AND ".join(_among(one, kept, table) for one, kept in where.items()) or "1"


def _among(dimension: Dimension, kept: tuple[str | None, ...], table: _Table) -> str:
    texts = sorted({one for one in kept if one is not None})
    if dimension is Dimension.WORKLOAD:
        terms = [_is_workload(text) for text in texts]
        none = "workload_name = ''"
    elif dimension in (Dimension.HOUR, Dimension.DAY):
        terms = [f"{_expression(dimension, table)} = {_moment(text)}" for text in texts]
        none = "0"
    else:
        column = _COLUMNS[dimension]
        terms = [f"{column} IN {sql.text_list(texts)}"] if texts else []
        none = f"ifNull({column}, '') = ''"
    if None in kept:
        terms.append(none)
    return f"({' OR '.join(terms) or '0'})"


def _is_workload(written: str) -> str:
    """NAME, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME."""
    *path, name = written.split("/")
    terms = [f"workload_name = {sql.text(name)}"]
    match path:
        case []:
            pass
        case [either]:
            kind = f"lower(workload_kind) = {sql.text(either.lower())}"
            terms.append(f"(workload_namespace = {sql.text(either)} OR {kind})")
        case [cluster, namespace, kind]:
            named = {"cluster": cluster, "namespace": namespace, "kind": kind}
            terms += [f"workload_{column} = {sql.text(value)}" for column, value in named.items()]
        case _:
            raise RequestError(
                f"{written!r} names no workload",
                hint="write NAME, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME",
            )
    return f"({' AND '.join(terms)})"


def _moment(written: str) -> int:
    try:
        return int(written)
    except ValueError as e:
        raise RequestError(f"{written!r} is no time in milliseconds") from e


def _named(by: Sequence[Dimension], table: _Table) -> str:
    return "".join(f"{_expression(one, table)} AS k{i}, " for i, one in enumerate(by))


def _expression(dimension: Dimension, table: _Table) -> str:
    if dimension is Dimension.WORKLOAD:
        return f"tuple({', '.join(WORKLOAD)})"
    if dimension is Dimension.HOUR:
        return table.moment
    if dimension is Dimension.DAY:
        return f"intDiv({table.moment}, {DAY_MS}) * {DAY_MS}"
    return _COLUMNS[dimension]


def _workloads(column: pa.ChunkedArray) -> list[WorkloadKey | None]:
    names = (part.to_pylist() for part in column.combine_chunks().flatten())
    return [_workload(key) for key in zip(*names, strict=True)]


def _workload(key: Iterable[str]) -> WorkloadKey | None:
    found = WorkloadKey(*key)
    return found if found.name else None
