"""All that overlaps a span of time, for booking it: asked of every table of records at once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.event import EventKind
from trilens.model.finding import FindingKind
from trilens.model.gpu_fault import REMEMBERED_MS, takes_out
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_facts import (
    Facts,
    FoundStall,
    LifeKey,
    Owner,
    RunHistory,
    no_minutes,
)
from trilens.model.run import Ending, RankProcess, RunFacts, RunId
from trilens.store import sql
from trilens.store.event_rows import EVENTS, event_of
from trilens.store.finding_rows import FINDINGS
from trilens.store.gpu_rows import GPU_BINDINGS, GPUS, binding_of, gpu_of
from trilens.store.life_numbers import LifeClock
from trilens.store.machine_rows import MACHINES
from trilens.store.run_rows import (
    CHECKPOINTS,
    LIFE_COLUMNS,
    POSITIONS,
    PROCESSES,
    RUNS,
    STEPS,
    VALIDATIONS,
    checkpoint_of,
    life_of,
    position_of,
    validation_of,
)
from trilens.store.step_minutes import near_steps
from trilens.store.step_sums import StepReader, TimeRange, rank_steps
from trilens.store.workload_rows import (
    KEY_IN,
    MEMBERSHIPS,
    OWNERS,
    PHASES,
    WORKLOADS,
    membership_of,
    owner_of,
    phase_of,
    workload_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.event import EventRecord
    from trilens.model.gpu import GpuInterval
    from trilens.model.ledger_facts import RankSteps, StepMinutes
    from trilens.model.query import QueryGuard
    from trilens.model.run import CheckpointRecord, ValidationRecord
    from trilens.model.run_sums import AttemptSpan
    from trilens.model.workload import GpuUuid, WorkloadKey
    from trilens.store.engine import Engine
    from trilens.store.imports import ImportRecords
    from trilens.store.ledger import Ledger
    from trilens.store.machines import MachineRecords
    from trilens.store.run_rows import RunTable
    from trilens.store.runs import RunRecords
    from trilens.store.workload_rows import Row, Table

_TOLD_EVERY_MS: Final = 60_000  # serve/detection/keeper.py
_FAULTS: Final = sql.text_list(sorted({EventKind.XID, EventKind.SXID, EventKind.NVLINK}))


class LateHours(NamedTuple):
    """Hours of which step records came in after `since`: `commits` is when the last of each did, in
    microseconds of this server's clock. `upto` is to be asked with the next time."""

    upto: int
    commits: Mapping[int, int]


class LedgerFacts:
    """Thread-safe."""

    def __init__(
        self,
        engine: Engine,
        runs: RunRecords,
        machines: MachineRecords,
        imports: ImportRecords,
        ledger: Ledger,
    ) -> None:
        self._engine = engine
        self._runs = runs
        self._machines = machines
        self._imports = imports
        self._ledger = ledger

    def facts(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        records = self.records(from_ms, to_ms, guard=guard)
        return self._with_steps(records, from_ms, to_ms, guard, work_done=True)

    def programs(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        """Of ten thousand GPUs all that is known takes seconds to read; of work it is little."""
        lives = self._lives(from_ms, to_ms, guard, also_beside=False)
        clocks = _clocks(lives, from_ms, to_ms)
        checkpoints = self._checkpoints(clocks, from_ms, to_ms, guard)
        return Facts(from_ms, to_ms, lives=lives, checkpoints=checkpoints)

    def rank_steps(
        self, lives: Sequence[RankProcess], from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> RankSteps:
        span = TimeRange(from_ms * 1000, to_ms * 1000)
        return rank_steps(self._engine, _clocks(lives, from_ms, to_ms), span, guard)

    def step_minutes(
        self, lives: Sequence[RankProcess], from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> StepMinutes:
        span = TimeRange(from_ms * 1000, to_ms * 1000)
        clocks = _clocks(lives, from_ms, to_ms)
        if not clocks:
            return no_minutes()
        return StepReader(self._engine, span, guard, work_done=True).around(clocks, span).within

    def with_steps(
        self, records: Facts, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Facts:
        return self._with_steps(records, from_ms, to_ms, guard, work_done=False)

    def records(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        lives = self._lives(from_ms, to_ms, guard)
        clocks = _clocks(lives, from_ms, to_ms)
        overlaps = f"from_ms < {to_ms} AND (to_ms IS NULL OR to_ms > {from_ms})"
        faults = self._faults(from_ms, to_ms, guard)
        gpus = [gpu_of(row) for row in self._rows(GPUS, overlaps, "uuid, instance, from_ms", guard)]
        return Facts(
            from_ms,
            to_ms,
            machines=self._machines.during(from_ms, to_ms, guard=guard),
            gpus=gpus,
            bindings=[
                binding_of(row)
                for row in self._rows(
                    GPU_BINDINGS,
                    overlaps,
                    "uuid, instance, from_ms, cluster, namespace, pod, container",
                    guard,
                )
            ],
            members=[
                membership_of(row)
                for row in self._rows(
                    MEMBERSHIPS, overlaps, "cluster, namespace, pod, pod_uid, from_ms", guard
                )
            ],
            owners=self._owners(overlaps, guard),
            phases=[
                phase_of(row)
                for row in self._rows(PHASES, overlaps, "from_ms, to_ms IS NULL, to_ms, version", guard)
            ],
            faults=faults,
            worked=self._ledger.hours_of_work(
                _taken_out(faults, gpus), from_ms - REMEMBERED_MS, to_ms, guard=guard
            ),
            runs=self._run_facts(lives, guard),
            lives=lives,
            checkpoints=self._checkpoints(clocks, from_ms, to_ms, guard),
            validations=self._validations(clocks, from_ms, to_ms, guard),
            stalls=self._stalls(from_ms, to_ms, guard),
            jobs=self._imports.jobs_during(from_ms, to_ms, guard=guard),
            usage=self._imports.usage_during(from_ms, to_ms, guard=guard),
        )

    def histories(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> dict[RunId, RunHistory]:
        """Asked for together: after a night of crashes there are hundreds."""
        if not runs:
            return {}
        of_runs = f"WHERE run IN {sql.text_list(sorted(set(runs)))}"
        processes: defaultdict[RunId, list[RankProcess]] = defaultdict(list)
        for process in self._runs.processes(sorted(set(runs)), guard=guard):
            processes[process.run].append(process)
        spans: defaultdict[RunId, list[AttemptSpan]] = defaultdict(list)
        told = self._engine.query_arrow(
            f"SELECT {POSITIONS.columns} FROM {POSITIONS.name} FINAL {of_runs} ORDER BY run, rank, attempt",
            guard=guard,
        )
        for position in map(position_of, told.to_pylist()):
            spans[position.run].extend(position.spans)
        checkpoints: defaultdict[RunId, list[CheckpointRecord]] = defaultdict(list)
        told = self._engine.query_arrow(
            f"SELECT {CHECKPOINTS.columns} FROM {CHECKPOINTS.name} {of_runs} "
            "ORDER BY run, start_ms, step, rank, attempt, n",
            guard=guard,
        )
        for checkpoint in map(checkpoint_of, told.to_pylist()):
            checkpoints[checkpoint.run].append(checkpoint)
        return {run: RunHistory(processes[run], spans[run], checkpoints[run]) for run in runs}

    def repeating(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> dict[RunId, int]:
        """Those of which a rank has gone forward more than once, in one life or in several: with how many
        ways all of its ranks have together."""
        if not runs:
            return {}
        found = self._engine.query_arrow(
            "SELECT run, sum(ways) AS all_ways FROM (SELECT run, rank, "
            f"sum(toInt64(JSONLength(spans))) AS ways FROM {POSITIONS.name} FINAL "
            f"WHERE run IN {sql.text_list(sorted(set(runs)))} GROUP BY run, rank) "
            "GROUP BY run HAVING max(ways) > 1",
            guard=guard,
        )
        return {RunId(row["run"]): row["all_ways"] for row in found.to_pylist()}

    def first_ms(self, *, guard: QueryGuard | None = None) -> int | None:
        """When the first machine, GPU or binding begins; None where there is none. Not of imports."""
        each = " UNION ALL ".join(
            f"SELECT min(from_ms) AS first, count() AS n FROM {table.name}"
            for table in (MACHINES, GPUS, GPU_BINDINGS)
        )
        found = self._engine.query_arrow(
            f"SELECT minOrNull(first) AS first FROM ({each}) WHERE n > 0", guard=guard
        )
        first: int | None = found["first"][0].as_py()
        return first

    def late_hours(self, since: int, *, guard: QueryGuard | None = None) -> LateHours:
        """`since` is a time of this server's clock in microseconds, at first, and then what was answered."""
        found = self._engine.query_arrow(
            f"SELECT intDiv(start_us + us, {HOUR_MS * 1000}) * {HOUR_MS} AS hour, max(commit) AS at "
            f"FROM {STEPS.name} WHERE commit > {since} GROUP BY hour ORDER BY hour",
            guard=guard,
        )
        commits = dict(zip(found["hour"].to_pylist(), found["at"].to_pylist(), strict=True))
        return LateHours(max(commits.values(), default=since), commits)

    def _with_steps(
        self, records: Facts, from_ms: int, to_ms: int, guard: QueryGuard | None, *, work_done: bool
    ) -> Facts:
        clocks = _clocks(records.lives, from_ms, to_ms)
        steps = near_steps(self._engine, clocks, from_ms * 1000, to_ms * 1000, guard, work_done=work_done)
        return replace(records, minutes=steps.minutes, earlier=steps.earlier, later=steps.later)

    def _lives(
        self, from_ms: int, to_ms: int, guard: QueryGuard | None, *, also_beside: bool = True
    ) -> list[RankProcess]:
        """Those that overlap the span, and in pods that held a GPU in it those that ended before, or begin in
        the hour after: what was held for them was held for nothing, or for their start."""
        offset = "intDiv(ifNull(clock_offset_us, 0), 1000)"
        holding = (
            f"SELECT pod_uid FROM {GPU_BINDINGS.name} "
            f"WHERE from_ms < {to_ms} AND (to_ms IS NULL OR to_ms > {from_ms}) AND pod_uid != ''"
        )
        beside = f"ifNull(pod_uid, '') IN ({holding})" if also_beside else "0"
        found = self._engine.query_arrow(
            f"SELECT {LIFE_COLUMNS} FROM {PROCESSES.name} FINAL "
            f"WHERE started_ms + {offset} < {to_ms + HOUR_MS} AND (started_ms + {offset} < {to_ms} "
            f"AND (ended_ms IS NULL OR ended_ms + {offset} > {from_ms} OR ended_ms > {from_ms}) "
            f"OR {beside}) ORDER BY run, rank, attempt",
            guard=guard,
        )
        lives = [life_of(row) for row in found.to_pylist()]
        newer = {(life.run, life.rank, life.writer): life for life in self._runs.heard_lately()}
        lives = [newer.get((life.run, life.rank, life.writer), life) for life in lives]
        return [_by_rank_0(life) for life in lives]

    def _run_facts(self, lives: Sequence[RankProcess], guard: QueryGuard | None) -> dict[RunId, RunFacts]:
        """Without their configuration, which nobody needs here and may be long."""
        if not lives:
            return {}
        runs = sql.text_list(sorted({life.run for life in lives}))
        names = "run, created_ms, experiment, name, world_size, total_steps, source"
        found = self._engine.query_arrow(
            f"SELECT {names} FROM {RUNS.name} FINAL WHERE run IN {runs} ORDER BY run", guard=guard
        )
        return {RunId(row["run"]): RunFacts(**row) for row in found.to_pylist()}

    def _owners(self, overlaps: str, guard: QueryGuard | None) -> dict[WorkloadKey, list[Owner]]:
        """Of workloads from before owners were kept, what is known of them now."""
        members = f"SELECT {KEY_IN[MEMBERSHIPS.name]} FROM {MEMBERSHIPS.name} WHERE {overlaps}"
        columns = ", ".join(OWNERS.columns)
        key = KEY_IN[OWNERS.name]
        found = self._engine.query_arrow(
            f"SELECT {columns} FROM {OWNERS.name} FINAL WHERE {key} IN ({members}) UNION ALL "
            f"SELECT {columns.replace('from_ms', 'toInt64(0) AS from_ms')} FROM {WORKLOADS.name} FINAL "
            f"WHERE {key} IN ({members}) AND {key} NOT IN (SELECT {key} FROM {OWNERS.name})",
            guard=guard,
        )
        owners: defaultdict[WorkloadKey, list[Owner]] = defaultdict(list)
        for row in found.to_pylist():
            owners[workload_key(row)].append(owner_of(row))
        for of_one in owners.values():
            of_one.sort(key=lambda owner: owner.from_ms)
        return dict(owners)

    def _faults(self, from_ms: int, to_ms: int, guard: QueryGuard | None) -> list[EventRecord]:
        condition = f"t_ms >= {from_ms - REMEMBERED_MS} AND t_ms < {to_ms} AND kind IN {_FAULTS}"
        return [event_of(row) for row in self._rows(EVENTS, condition, "t_ms, node, cluster, id", guard)]

    def _checkpoints(
        self, clocks: Sequence[LifeClock], from_ms: int, to_ms: int, guard: QueryGuard | None
    ) -> list[CheckpointRecord]:
        rows = self._timed(CHECKPOINTS, "start_ms", clocks, from_ms, to_ms, guard)
        return [checkpoint_of(row) for row in rows]

    def _validations(
        self, clocks: Sequence[LifeClock], from_ms: int, to_ms: int, guard: QueryGuard | None
    ) -> list[ValidationRecord]:
        rows = self._timed(VALIDATIONS, "t_ms", clocks, from_ms, to_ms, guard)
        return [validation_of(row) for row in rows]

    def _timed(
        self,
        table: RunTable,
        moment: str,
        clocks: Sequence[LifeClock],
        from_ms: int,
        to_ms: int,
        guard: QueryGuard | None,
    ) -> list[Row]:
        """What lasted from `moment` on for a while, with `moment` by the clock of rank 0."""
        if not clocks:
            return []
        offsets = {clock.life: clock.offset_us // 1000 for clock in clocks}
        slack = max(map(abs, offsets.values()))
        runs = sql.text_list(sorted({life.run for life in offsets}))
        found = self._engine.query_arrow(
            f"SELECT {table.columns} FROM {table.name} WHERE run IN {runs} AND {moment} < {to_ms + slack} "
            f"AND {moment} + intDiv(ifNull(us, 0), 1000) >= {from_ms - slack} "
            "ORDER BY run, step, rank, attempt, n",
            guard=guard,
        )
        rows = []
        for row in found.to_pylist():
            offset = offsets.get(LifeKey(row["run"], row["rank"], row["attempt"]))
            if offset is not None:
                row[moment] += offset
                if row[moment] < to_ms and row[moment] + (row["us"] or 0) // 1000 >= from_ms:
                    rows.append(row)
        return rows

    def _stalls(self, from_ms: int, to_ms: int, guard: QueryGuard | None) -> list[FoundStall]:
        """One that lasts is told of every minute: what was told of long ago has ended with its server."""
        found = self._engine.query_arrow(
            f"SELECT run, onset_ms, ifNull(to_ms, seen_ms + {_TOLD_EVERY_MS}) AS until_ms "
            f"FROM {FINDINGS.name} FINAL WHERE kind = {sql.text(FindingKind.STALL)} AND run != '' "
            f"AND onset_ms < {to_ms} AND until_ms > {from_ms} ORDER BY run, onset_ms, until_ms",
            guard=guard,
        )
        return [FoundStall(RunId(row["run"]), row["onset_ms"], row["until_ms"]) for row in found.to_pylist()]

    def _rows(self, table: Table, condition: str, order: str, guard: QueryGuard | None) -> list[Row]:
        columns = ", ".join(table.columns)
        statement = f"SELECT {columns} FROM {table.name} FINAL WHERE {condition} ORDER BY {order}"
        rows: list[Row] = self._engine.query_arrow(statement, guard=guard).to_pylist()
        return rows


def _clocks(lives: Iterable[RankProcess], from_ms: int, to_ms: int) -> list[LifeClock]:
    """Of those that overlap the span."""
    return [
        LifeClock(LifeKey(life.run, life.rank, life.attempt), life.clock_offset_us or 0)
        for life in lives
        if _overlaps(life.started_ms, life.ended_ms, from_ms, to_ms)
    ]


def _taken_out(faults: Iterable[EventRecord], gpus: Iterable[GpuInterval]) -> set[GpuUuid]:
    """Where a fault has only a number, all that had it: which one is meant depends on the hour."""
    broken = [fault for fault in faults if takes_out(fault)]
    numbers = {(fault.node, str(fault.gpu)) for fault in broken if not fault.uuid}
    numbered = {one.gpu.key.uuid for one in gpus if (one.gpu.node, one.gpu.index) in numbers}
    return numbered | {fault.uuid for fault in broken if fault.uuid}


def _by_rank_0(life: RankProcess) -> RankProcess:
    """By the clock of rank 0, as its steps are. That it was lost the server found, by a clock of its own."""
    offset_ms = (life.clock_offset_us or 0) // 1000
    if not offset_ms:
        return life
    ended_ms = life.ended_ms
    if ended_ms is not None and life.ending is not Ending.LOST:
        ended_ms += offset_ms
    return replace(life, started_ms=life.started_ms + offset_ms, ended_ms=ended_ms)


def _overlaps(from_ms: int, until_ms: int | None, start_ms: int, end_ms: int) -> bool:
    return from_ms < end_ms and (until_ms is None or until_ms > start_ms)
