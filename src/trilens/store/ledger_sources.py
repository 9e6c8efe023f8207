"""Which rows of the ledger answer a question: those of hours, of days, or of days by two dimensions.

All tell the same sums, each in its way, so that an answer is exact whatever came from where. The smallest is
read that tells of everything that is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from trilens.model.errors import RequestError
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.ledger_sums import Dimension
from trilens.store import sql
from trilens.store.ledger_pair_tables import EPISODE
from trilens.store.ledger_rows import ROWS, WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Where = Mapping[Dimension, tuple[str | None, ...]]

DAYS: Final = "ledger_days"
PAIRS: Final = "ledger_day_pairs"
DAY_MS: Final = 24 * HOUR_MS

# In order: that of a pair is the order of its two.
PAIRED: Final = {
    Dimension.TEAM: "team",
    Dimension.COST_CENTRE: "cost_centre",
    Dimension.NAMESPACE: "namespace",
    Dimension.QUEUE: "queue",
    Dimension.EXPERIMENT: "experiment",
    Dimension.CLUSTER: "cluster",
    Dimension.GPU_MODEL: "model",
    Dimension.PURCHASE: "purchase",
    Dimension.REGION: "region",
    Dimension.BUCKET: "bucket",
}
ALL_PAIRS: Final = tuple(combinations(PAIRED, 2))
_OF_DAYS: Final = PAIRED | {
    Dimension.RUN: "run",
    Dimension.NODE: "node",
    Dimension.CAUSE: "cause",
    Dimension.BASIS: "basis",
    Dimension.WORKLOAD: f"tuple({', '.join(WORKLOAD)})",
}
# What most questions are about: an hour has a line for each of their combinations, far fewer than rows.
OF_LINES: Final = tuple(one for one in _OF_DAYS if one is not Dimension.NODE)
_ONLY_OF_HOURS: Final = frozenset({Dimension.GPU, Dimension.HOUR})
_FLEETS: Final = frozenset(bucket.value for bucket in Bucket if bucket.is_fleet)
_HELD: Final = frozenset(bucket.value for bucket in Bucket) - _FLEETS

_TOLD: Final = f"basis != {sql.text(Basis.NONE)}"
_USEFUL: Final = sql.text_list(sorted(bucket for bucket in Bucket if bucket.is_useful))


@dataclass(frozen=True, slots=True)
class Table:
    """Expressions are of a single row."""

    name: str
    moment: str
    columns: Mapping[Dimension, str]
    unpriced: str = "unpriced_ms"
    useful: str = f"if(bucket IN {_USEFUL} AND {_TOLD}, gpu_ms, 0)"
    signal: str = f"if({_TOLD}, gpu_ms, 0)"
    own: str = "1"  # a condition that its rows must have beside all others

    def expression(self, dimension: Dimension) -> str:
        if dimension is Dimension.DAY:
            return f"intDiv({self.moment}, {DAY_MS}) * {DAY_MS}"
        return self.columns[dimension]

    def filters(self, where: Where) -> str:
        """As one condition, of which every dimension's part must hold."""
        return " AND ".join([self.own, *(self._among(one, kept) for one, kept in where.items())])

    def _among(self, dimension: Dimension, kept: tuple[str | None, ...]) -> str:
        texts = sorted({one for one in kept if one is not None})
        if dimension is Dimension.WORKLOAD:
            terms = [_is_workload(text) for text in texts]
            none = "workload_name = ''"
        elif dimension in (Dimension.HOUR, Dimension.DAY):
            terms = [f"{self.expression(dimension)} = {_moment(text)}" for text in texts]
            none = "0"
        elif dimension is Dimension.BUCKET and dimension not in self.columns:
            terms = [
                told for told, all_of in (("fleet", _FLEETS), ("NOT fleet", _HELD)) if all_of <= {*texts}
            ]
            none = "0"
        else:
            column = self.columns[dimension]
            terms = [f"{column} IN {sql.text_list(texts)}"] if texts else []
            none = f"ifNull({column}, '') = ''"
        if None in kept:
            terms.append(none)
        return f"({' OR '.join(terms) or '0'})"


@dataclass(frozen=True, slots=True)
class DetailedTable(Table):
    """One that knows of episodes too. `gpus` is of many rows."""

    first: str = "first_ms"
    last: str = "last_ms"
    gpus: str = "groupUniqArrayArray(gpus)"
    episode: str = "episode"


BY_HOUR: Final = DetailedTable(
    ROWS,
    "hour_ms",
    _OF_DAYS | {Dimension.GPU: "gpu", Dimension.HOUR: "hour_ms"},
    "if(quanta IS NULL, gpu_ms, 0)",
    first="hour_ms",
    last="hour_ms",
    gpus="groupUniqArrayIf(cityHash64(node, gpu), gpu != '')",
    episode=EPISODE,
)
BY_DAY: Final = DetailedTable(DAYS, "day_ms", _OF_DAYS)


_T = TypeVar("_T", bound=Table)


def pair_name(one: Dimension, other: Dimension) -> str:
    return f"{one.value},{other.value}"


_BY_PAIR: Final = {
    frozenset(pair): Table(
        PAIRS,
        "day_ms",
        dict(zip(pair, ("one", "other"), strict=True)),
        useful="useful_ms",
        signal="signal_ms",
        own=f"pair = {sql.text(pair_name(*pair))}",
    )
    for pair in ALL_PAIRS
}


def days_table(by: Iterable[Dimension], where: Where) -> Table | None:
    """The smallest that tells of all of these; None where only hours do."""
    asked = {*by, *where} - {Dimension.DAY}
    if not _ONLY_OF_HOURS.isdisjoint(asked):
        return None
    if Dimension.BUCKET not in by and len(asked) > 2 and _is_fleet_or_not(where.get(Dimension.BUCKET, ())):
        asked.discard(Dimension.BUCKET)
    for one in (Dimension.BUCKET, Dimension.CLUSTER):  # of few values
        if len(asked) < 2:
            asked.add(one)
    return _BY_PAIR.get(frozenset(asked), BY_DAY)


def _is_fleet_or_not(buckets: Iterable[str | None]) -> bool:
    """Whether of each of the two all are asked for, or none."""
    kept = {*buckets}
    return all(kept >= one or kept.isdisjoint(one) for one in (_FLEETS, _HELD))


class Sources(NamedTuple):
    """Where a window is read: conditions for rows of hours and of days, None where nothing of it is."""

    hours: str | None
    days: str | None

    def tables(self, of_days: _T) -> list[tuple[_T | DetailedTable, str]]:
        both = ((BY_HOUR, self.hours), (of_days, self.days))
        return [(table, condition) for table, condition in both if condition is not None]


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
