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
_LIVES: Final = 4  # of each rank
_END: Final = "start_us + us"  # as the index has it


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
    """When each step began, by time."""

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


class Seat(NamedTuple):
    """Where one life of a rank is, or was."""

    rank: int
    attempt: int
    started_ms: int
    pod: str | None
    node: str
    gpu: str | None  # the first of those that it told


class StepGrids:
    """Thread-safe."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def runs_of_pods(
        self, pods: Iterable[tuple[str, str, str]], from_ms: int, to_ms: int, guard: QueryGuard | None = None
    ) -> list[RunSeen]:
        """Of processes that began in that time in these pods, each (namespace, name, uid), the earliest run
        first. Of very many pods some are asked about: they train the same."""
        some = [*pods][-_LISTED:]
        if not some:
            return []
        uids = sql.text_list(sorted({uid for _, _, uid in some}))
        names = ", ".join(sorted({sql.text_list((namespace, name)) for namespace, name, _ in some}))
        return self._runs(
            f"(pod_uid IN {uids} OR (ifNull(pod_uid, '') = '' "
            f"AND (ifNull(namespace, ''), ifNull(pod, '')) IN ({names}))) "
            f"AND started_ms BETWEEN {from_ms} AND {to_ms}",
            guard,
        )

    def runs_without_pods(
        self, nodes: Collection[str], from_ms: int, to_ms: int, guard: QueryGuard | None = None
    ) -> list[RunSeen]:
        """Of processes on these machines that told of no pod: which of them are meant, who asks looks up."""
        if not nodes:
            return []
        among = sql.text_list(sorted(nodes)[:_LISTED])
        term = f"pod IS NULL AND node IN {among} AND started_ms BETWEEN {from_ms} AND {to_ms}"
        return self._runs(term, guard)

    def seats(self, run: RunId, *, rank: int | None = None, guard: QueryGuard | None = None) -> list[Seat]:
        """By rank and attempt. Of one rank all its lives, else of each rank the latest few: a job may have
        been restarted hundreds of times."""
        found = self._engine.query_arrow(
            "SELECT rank, attempt, began, place.1 AS pod, place.2 AS node, place.3 AS gpu FROM ("
            "SELECT rank, attempt, max(started_ms) AS began, "
            "argMax((pod, toString(node), JSONExtract(gpus, 'Array(String)')[1]), version) AS place "
            f"FROM {PROCESSES.name} WHERE {_of(run)}{'' if rank is None else f' AND rank = {rank}'} "
            f"GROUP BY rank, attempt ORDER BY rank, attempt DESC LIMIT {_LIVES if rank is None else 1_000} "
            "BY rank) ORDER BY rank, attempt",
            guard=guard,
        )
        columns = (found[name].to_pylist() for name in ("rank", "attempt", "began", "pod", "node", "gpu"))
        return [
            Seat(rank, attempt, began, pod, node, gpu or None)
            for rank, attempt, began, pod, node, gpu in zip(*columns, strict=True)
        ]

    def ranks(self, run: RunId, guard: QueryGuard | None = None) -> int:
        """How many there are."""
        found = self._engine.query_arrow(
            f"SELECT toInt64(uniqExact(rank)) AS n FROM {PROCESSES.name} WHERE {_of(run)}", guard=guard
        )
        return int(found["n"][0].as_py())

    def values(
        self, run: RunId, start_us: int, width_us: int, slots: int, guard: QueryGuard | None = None
    ) -> list[ValueSlots]:
        """All that the run told of, the most often told first."""
        found = self._engine.query_arrow(
            f"SELECT value, intDiv(t_us - {start_us}, {width_us}) AS slot, "
            "sumIf(total, isFinite(total)) / sumIf(told, isFinite(total)) AS mean, max(step) AS last, "
            "toInt64(countIf(NOT isFinite(total))) AS odd "
            f"FROM {CURVES.name} WHERE {_of(run)} AND {_began(start_us, width_us * slots)} "
            "GROUP BY value, slot ORDER BY value, slot",
            guard=guard,
        )
        names = found["value"].to_pylist()
        slot, step, odd = (_ints(found, name) for name in ("slot", "last", "odd"))
        mean = _floats(found, "mean")
        every = []
        first = 0
        for name in dict.fromkeys(names):
            end = first + names.count(name)
            each = slice(first, end)
            every.append(ValueSlots(name, slot[each], mean[each], step[each], odd[each]))
            first = end
        return sorted(every, key=lambda one: -len(one.slot))

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


def _of(run: RunId) -> str:
    return f"run = {sql.text(run)}"


def _began(from_us: int, lasts_us: int) -> str:
    return f"t_us >= {from_us} AND t_us < {from_us + lasts_us}"


def _among(run: RunId, steps: Sequence[int]) -> str:
    """Whole granules are skipped by the steps' numbers, which the rows are in the order of."""
    return f"{_of(run)} AND step IN ({', '.join(map(str, steps)) or '-1'})"


def _ints(table: pa.Table, name: str) -> Ints:
    return np.asarray(table[name].to_numpy(), np.int64)


def _floats(table: pa.Table, name: str) -> Floats:
    values: Any = table[name].to_numpy()
    return np.asarray(values, np.float64)
