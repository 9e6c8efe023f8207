"""Steps of a run laid over time, for pages: added up in the engine, or read of some steps for all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trilens.model.run import RunId
from trilens.store import sql
from trilens.store.run_rows import PROCESSES, STEPS
from trilens.store.run_sums import CURVES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import pyarrow as pa

    from trilens.model.query import QueryGuard
    from trilens.store.engine import Engine

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

_LISTED: Final = 2_000  # texts in one statement
_ROWS_READ: Final = 200_000
_END: Final = "start_us + us"  # as the index has it
# A uid is enough; without one the name counts, which has a slash in it where a uid has none.
_NAME: Final = "concat(ifNull(namespace, ''), '/', ifNull(pod, ''))"
_POD: Final = f"if(ifNull(pod_uid, '') = '', {_NAME}, assumeNotNull(pod_uid))"


class RunSeen(NamedTuple):
    run: RunId
    started_ms: int
    heard_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class ValueSlots:
    """One value over time: its mean over ranks and steps in each slot that has any. `step` is the last that
    began there, `odd` how often it was not finite."""

    name: str
    slot: Ints
    mean: Floats
    step: Ints
    odd: Ints


@dataclass(frozen=True, slots=True, eq=False)
class StepTimes:
    """When steps began, by time: those that told of some value, or where no step did, all."""

    step: Ints
    attempt: Ints
    t_us: Ints

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, slots=True, eq=False)
class StepsOfRanks:
    """Some steps of all ranks, or of one, in no order. `sync_us` is what of a step was waiting for others."""

    step: Ints
    attempt: Ints
    rank: Ints
    us: Ints
    sync_us: Ints


@dataclass(frozen=True, slots=True, eq=False)
class StepWork:
    """What a rank took in at some steps, the mean of those that told; NaN where none did."""

    step: Ints
    attempt: Ints
    samples: Floats
    tokens: Floats


class RunCourse(NamedTuple):
    values: list[ValueSlots]
    times: StepTimes


class StepGrids:
    """Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def runs_of_pods(
        self,
        cluster: str,
        pods: Iterable[tuple[str, str, str]],
        from_ms: int,
        to_ms: int,
        guard: QueryGuard | None = None,
    ) -> list[RunSeen]:
        """Of processes that began in that time in these pods, each (namespace, name, uid), the earliest run
        first. Of very many pods some are asked about: they train the same."""
        some = [*pods][-_LISTED:]
        if not some:
            return []
        whose = {uid for _, _, uid in some} | {f"{namespace}/{name}" for namespace, name, _ in some}
        here = f"{_POD} IN {sql.text_list(sorted(whose))} AND ifNull(cluster = {sql.text(cluster)}, 1)"
        return self._runs(f"{here} AND started_ms BETWEEN {from_ms} AND {to_ms}", guard)

    def runs_without_pods(
        self, nodes: Collection[str], from_ms: int, to_ms: int, guard: QueryGuard | None = None
    ) -> list[RunSeen]:
        """Of processes on these machines that told of no pod: which of them are meant, who asks looks up."""
        if not nodes:
            return []
        among = sql.text_list(sorted(nodes)[:_LISTED])
        term = f"pod IS NULL AND node IN {among} AND started_ms BETWEEN {from_ms} AND {to_ms}"
        return self._runs(term, guard)

    def course(
        self, run: RunId, start_us: int, width_us: int, slots: int, guard: QueryGuard | None = None
    ) -> RunCourse:
        """All that the run told of, the most often told first, and when its steps were."""
        end_us = start_us + width_us * slots
        found = self._engine.query_arrow(
            f"SELECT value, step, attempt, t_us, told, total FROM {CURVES.name} "
            f"WHERE {_of(run)} AND {_began(start_us, width_us * slots)} LIMIT {_ROWS_READ}",
            guard=guard,
        )
        if found.num_rows == _ROWS_READ:  # of hundreds of values, the engine adds up better
            values = self.values(run, start_us, width_us, slots, guard)
            return RunCourse(values, self.times(run, values[0].name, start_us, end_us, guard))
        if not found.num_rows:
            return RunCourse([], self.times(run, None, start_us, end_us, guard))
        return course_of(found, start_us, width_us, slots)

    def values(
        self, run: RunId, start_us: int, width_us: int, slots: int, guard: QueryGuard | None = None
    ) -> list[ValueSlots]:
        """All that the run told of, the most often told first."""
        found = self._engine.query_arrow(
            f"SELECT value, intDiv(t_us - {start_us}, {width_us}) AS slot, "
            "sumIf(total, isFinite(total)) / sumIf(told, isFinite(total)) AS mean, max(step) AS last, "
            "toInt64(countIf(NOT isFinite(total))) AS odd, toInt64(count()) AS rows "
            f"FROM {CURVES.name} WHERE {_of(run)} AND {_began(start_us, width_us * slots)} "
            "GROUP BY value, slot ORDER BY value, slot",
            guard=guard,
        )
        names = found["value"].to_pylist()
        slot, step, odd, rows = (_ints(found, name) for name in ("slot", "last", "odd", "rows"))
        mean = _floats(found, "mean")
        every = []
        first = 0
        for name in dict.fromkeys(names):
            end = first + names.count(name)
            each = slice(first, end)
            value = ValueSlots(name, slot[each], mean[each], step[each], odd[each])
            every.append((int(rows[each].sum()), value))
            first = end
        return _most_told_first(every)

    def times(
        self, run: RunId, value: str | None, from_us: int, to_us: int, guard: QueryGuard | None = None
    ) -> StepTimes:
        """Of the steps that told of this value, which is quick however many ranks there are; without one, of
        all, for which every rank's steps are read."""
        if value is not None:
            source = f"SELECT step, attempt, t_us FROM {CURVES.name} WHERE {_of(run)} "
            source += f"AND value = {sql.text(value)} AND {_began(from_us, to_us - from_us)}"
        else:
            source = f"SELECT step, attempt, start_us AS t_us FROM {STEPS.name} WHERE {_of(run)} "
            source += f"AND {_END} >= {from_us} AND start_us >= {from_us} AND start_us < {to_us}"
        found = self._engine.query_arrow(
            f"SELECT step, attempt, min(t_us) AS t FROM ({source}) GROUP BY step, attempt ORDER BY t",
            guard=guard,
        )
        return StepTimes(_ints(found, "step"), _ints(found, "attempt"), _ints(found, "t"))

    def steps(
        self,
        run: RunId,
        steps: Sequence[int],
        *,
        rank: int | None = None,
        guard: QueryGuard | None = None,
    ) -> StepsOfRanks:
        if not steps:
            nothing = np.array([], np.int64)
            return StepsOfRanks(nothing, nothing, nothing, nothing, nothing)
        found = self._engine.query_arrow(
            f"SELECT step, attempt, rank, us, sync_us FROM {STEPS.name} "
            f"WHERE {_among(run, steps)}{'' if rank is None else f' AND rank = {rank}'}",
            guard=guard,
        )
        return StepsOfRanks(*(_ints(found, name) for name in ("step", "attempt", "rank", "us", "sync_us")))

    def work(self, run: RunId, steps: Sequence[int], guard: QueryGuard | None = None) -> StepWork:
        """By step and attempt."""
        found = self._engine.query_arrow(
            "SELECT step, attempt, avg(samples) AS mean_samples, "
            f"avg(tokens) AS mean_tokens FROM {STEPS.name} WHERE {_among(run, steps)} "
            "GROUP BY step, attempt ORDER BY step, attempt",
            guard=guard,
        )
        return StepWork(
            _ints(found, "step"),
            _ints(found, "attempt"),
            _floats(found, "mean_samples"),
            _floats(found, "mean_tokens"),
        )

    def _runs(self, term: str, guard: QueryGuard | None) -> list[RunSeen]:
        found = self._engine.query_arrow(
            f"SELECT run, min(started_ms) AS started, max(heard_ms) AS heard FROM {PROCESSES.name} "
            f"WHERE {term} GROUP BY run ORDER BY started, run",
            guard=guard,
        )
        return [RunSeen(RunId(row["run"]), row["started"], row["heard"]) for row in found.to_pylist()]


def course_of(found: pa.Table, start_us: int, width_us: int, slots: int) -> RunCourse:
    """Of rows of a group of ranks each, in any order."""
    column = found["value"].combine_chunks().dictionary_encode()
    names, code = column.dictionary.to_pylist(), np.asarray(column.indices, np.int64)
    step, attempt, t_us = (_ints(found, name) for name in ("step", "attempt", "t_us"))
    told, total = _ints(found, "told"), _floats(found, "total")
    cell = code * slots + (t_us - start_us) // width_us
    size, is_finite = len(names) * slots, np.isfinite(total)
    there, odd = np.bincount(cell, minlength=size), np.bincount(cell[~is_finite], minlength=size)
    count = np.bincount(cell[is_finite], told[is_finite], size)
    last = np.zeros(size, np.int64)
    np.maximum.at(last, cell, step)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.bincount(cell[is_finite], total[is_finite], size) / count
    every = []
    for at, name in enumerate(names):
        cells = slice(at * slots, (at + 1) * slots)
        slot = np.flatnonzero(there[cells])
        value = ValueSlots(name, slot, mean[cells][slot], last[cells][slot], odd[cells][slot])
        every.append((int(there[cells].sum()), value))
    values = _most_told_first(every)
    is_clock = code == names.index(values[0].name)
    return RunCourse(values, _times_of(step[is_clock], attempt[is_clock], t_us[is_clock]))


def _most_told_first(values: Iterable[tuple[int, ValueSlots]]) -> list[ValueSlots]:
    """Each comes with its rows: how many slots it has says more, where there are many."""
    ordered = sorted(values, key=lambda one: (-len(one[1].slot), -one[0], one[1].name))
    return [value for _, value in ordered]


def _times_of(step: Ints, attempt: Ints, t_us: Ints) -> StepTimes:
    """Each step once, when the first rank began it."""
    order = np.lexsort((t_us, attempt, step))
    step, attempt, t_us = step[order], attempt[order], t_us[order]
    is_first = np.ones(len(order), bool)
    is_first[1:] = (np.diff(step) != 0) | (np.diff(attempt) != 0)
    step, attempt, t_us = step[is_first], attempt[is_first], t_us[is_first]
    order = np.argsort(t_us, kind="stable")
    return StepTimes(step[order], attempt[order], t_us[order])


def _of(run: RunId) -> str:
    return f"run = {sql.text(run)}"


def _began(from_us: int, lasts_us: int) -> str:
    return f"t_us >= {from_us} AND t_us < {from_us + lasts_us}"


def _among(run: RunId, steps: Sequence[int]) -> str:
    """Whole granules are skipped by the steps' numbers, which the rows are in the order of."""
    return f"{_of(run)} AND step IN ({', '.join(map(str, steps))})"


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].to_numpy(), np.int64)


def _floats(table: pa.Table, name: str) -> Floats:
    values: Any = table[name].to_numpy()
    return np.asarray(values, np.float64)
