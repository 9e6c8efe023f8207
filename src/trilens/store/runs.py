"""Runs, their processes, steps, batches and checkpoints: kept each once, and read back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.model.run import RunId
from trilens.model.run_sums import (
    AttemptSpan,
    LastSteps,
    StepTime,
)
from trilens.store import sql
from trilens.store.latest_steps import LatestSteps
from trilens.store.remembered_reads import RememberedReads
from trilens.store.run_artifacts import RunArtifacts
from trilens.store.run_commits import RunCommits
from trilens.store.run_data import RunData
from trilens.store.run_expiry import delete_expired_runs
from trilens.store.run_memory import RunMemory
from trilens.store.run_rows import (
    CHECKPOINTS,
    NO_TRACKERS,
    NOTES,
    POSITIONS,
    PROCESSES,
    RUNS,
    STEPS,
    VALIDATIONS,
    checkpoint_of,
    facts_of,
    note_of,
    position_of,
    processes_of,
    step_of,
    trackers_of,
    validation_of,
)
from trilens.store.run_statements import BY_STEP, RunTables, among_tails, equal, of_run, select

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.query import QueryGuard
    from trilens.model.run import (
        CheckpointRecord,
        NoteRecord,
        RankProcess,
        RunFacts,
        StepRecord,
        Tracker,
        ValidationRecord,
        WriterId,
    )
    from trilens.model.run_commit import Position, RunCommit
    from trilens.model.run_sums import Tail
    from trilens.store.engine import Engine

_KEPT_PROCESSES = 50_000  # in memory: of runs that live, the intake has them anyway
_FEW_RUNS = 64
_LATEST_FIRST = "created_ms DESC, run"


class RunRecords:
    """Thread-safe. Every answer holds each record once, however often it was sent."""

    def __init__(self, engine: Engine, reads: RememberedReads | None = None) -> None:
        self._engine = engine
        self._tables = RunTables(engine)
        self._commits = RunCommits(engine)
        self._heard: dict[tuple[RunId, int, WriterId], RankProcess] = {}
        self._processes = RunMemory(self._read_processes, _KEPT_PROCESSES)
        self._positions = RunMemory(self._read_positions, _KEPT_PROCESSES)
        self._latest = LatestSteps(self._read_latest)
        self._remembered = reads or RememberedReads(engine)
        data, files = RunData(engine), RunArtifacts(engine)
        self.delete_late = self._commits.delete_late
        self.batches = data.batches
        self.shares = data.shares
        self.sightings = data.sightings
        self.curve = data.curve
        self.artifacts = files.artifacts
        self.artifact = files.artifact
        self.artifact_files = files.artifact_files

    def commit(self, commit: RunCommit) -> None:
        """On disk on return. After a StoreError nothing of it counts, and it may be given again."""
        self._commits.write(commit)
        self._processes.put(commit.processes)
        self._positions.put(commit.positions)
        self._latest.put(commit.steps)
        for process in commit.processes:
            if self._heard.get(_key(process)) is process:  # nothing newer was heard meanwhile
                del self._heard[_key(process)]

    def heard(self, process: RankProcess) -> None:
        """How a process stands now: shown from now on, and on disk once it is in a commit."""
        self._heard[_key(process)] = process

    def heard_lately(self) -> list[RankProcess]:
        """Those of which something newer is known than is on disk."""
        return [*self._heard.values()]

    def positions(self, run: RunId) -> list[Position]:
        rows = self._tables.rows(POSITIONS, [of_run(run)], "rank, attempt", final=True)
        return [position_of(row) for row in rows]

    def unfinished(self, since_ms: int) -> list[RankProcess]:
        """The processes of which no end is known and that were heard since then."""
        terms = ["ended_ms IS NULL", f"heard_ms >= {since_ms}"]
        return [*processes_of(self._tables.found(PROCESSES, terms, "run, rank, attempt", final=True))]

    def delete_expired(self, before_ms: int, steps_before_ms: int) -> int:
        """Steps and samples that came before `steps_before_ms`, all else before the other; how many rows."""
        deleted: int | None = None
        try:
            deleted = delete_expired_runs(self._engine, before_ms, steps_before_ms)
        finally:
            if deleted != 0:  # where it failed, some may be gone
                self._processes.forget()
                self._positions.forget()
                self._latest.forget()
        return deleted

    def runs(
        self,
        *,
        run: RunId | None = None,
        experiment: str | None = None,
        since_ms: int | None = None,
        limit: int = 100,
        guard: QueryGuard | None = None,
    ) -> list[RunFacts]:
        terms = [*([of_run(run)] if run is not None else []), *equal(experiment=experiment)]
        if since_ms is None:
            statement = select(RUNS, terms, _LATEST_FIRST, final=True, limit=limit)
            return self._remembered.of(RUNS.name, statement, facts_of, guard)
        heard = sorted({p.run for p in [*self._heard.values()] if p.heard_ms >= since_ms})
        since = [
            f"created_ms >= {since_ms}",
            f"run IN (SELECT run FROM {PROCESSES.name} WHERE heard_ms >= {since_ms})",
            *([f"run IN {sql.text_list(heard)}"] if heard else []),
        ]
        terms.append(f"({' OR '.join(since)})")
        rows = self._tables.rows(RUNS, terms, _LATEST_FIRST, limit=limit, final=True, guard=guard)
        return [facts_of(row) for row in rows]

    def told_trackers(self, *, limit: int) -> list[tuple[RunId, tuple[Tracker, ...]]]:
        """The latest runs of which programs said that they are in a tracker, too, and in which."""
        statement = (
            f"SELECT run, trackers FROM {RUNS.name} FINAL WHERE trackers != {sql.text(NO_TRACKERS)} "
            f"ORDER BY {_LATEST_FIRST} LIMIT {limit}"
        )
        return self._remembered.of(RUNS.name, statement, trackers_of)

    def processes(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> list[RankProcess]:
        if not runs:
            return []
        wanted = set(runs)
        # Before the others are read: what is committed meanwhile is no longer among these.
        heard = {key: process for key, process in [*self._heard.items()] if key[0] in wanted}
        written = self._processes.of(runs, guard)
        if not heard:
            return written
        known = {_key(process): process for process in written}
        known.update(heard)
        if len(known) == len(written):
            return [*known.values()]
        return sorted(known.values(), key=lambda process: (process.run, process.rank, process.attempt))

    def spans(self, run: RunId, *, guard: QueryGuard | None = None) -> list[AttemptSpan]:
        return [span for at in self._positions.of([run], guard) for span in at.spans]

    def first_steps(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> dict[RunId, int]:
        if not runs:
            return {}
        if len(runs) <= _FEW_RUNS:
            firsts: dict[RunId, int] = {}
            for at in self._positions.of(runs, guard):
                for span in at.spans:
                    firsts[at.run] = min(firsts.get(at.run, span.first_step), span.first_step)
            return firsts
        spans = "JSONExtract(spans, 'Array(Array(Nullable(Int64)))') AS span"
        first = AttemptSpan._fields.index("first_step") + 1  # the engine counts from 1
        found = self._engine.query_arrow(
            f"SELECT run, min(span[{first}]) AS step FROM {POSITIONS.name} ARRAY JOIN {spans} "
            f"WHERE run IN {sql.text_list(runs)} GROUP BY run",
            guard=guard,
        )
        return {RunId(row["run"]): row["step"] for row in found.to_pylist()}

    def steps(
        self,
        run: RunId,
        first: int,
        last: int,
        *,
        rank: int | None = None,
        limit: int = 10_000,
        guard: QueryGuard | None = None,
    ) -> list[StepRecord]:
        terms = [of_run(run), f"step BETWEEN {first} AND {last}", *equal(rank=rank)]
        return [step_of(row) for row in self._tables.rows(STEPS, terms, BY_STEP, limit=limit, guard=guard)]

    def tails(self, wanted: Sequence[Tail], *, guard: QueryGuard | None = None) -> list[StepRecord]:
        """By run, step and rank."""
        if not wanted:
            return []
        rows = self._tables.rows(STEPS, [among_tails(wanted)], f"run, {BY_STEP}", guard=guard)
        return [step_of(row) for row in rows]

    def latest(self, wanted: Sequence[Tail], *, guard: QueryGuard | None = None) -> dict[RunId, LastSteps]:
        return self._latest.of(wanted, guard) if wanted else {}

    def checkpoints(self, run: RunId, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]:
        """By start."""
        statement = select(CHECKPOINTS, [of_run(run)], f"start_ms, {BY_STEP}")
        return self._remembered.of(CHECKPOINTS.name, statement, checkpoint_of, guard)

    def written_at(self, path: str, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]:
        """Of all runs, by start."""
        terms = [f"path = {sql.text(path)}", "NOT loaded"]
        rows = self._tables.rows(CHECKPOINTS, terms, f"start_ms, run, {BY_STEP}", guard=guard)
        return [checkpoint_of(row) for row in rows]

    def validations(self, run: RunId, *, guard: QueryGuard | None = None) -> list[ValidationRecord]:
        """By step, rank and attempt."""
        statement = select(VALIDATIONS, [of_run(run)], BY_STEP)
        return self._remembered.of(VALIDATIONS.name, statement, validation_of, guard)

    def notes(self, run: RunId, *, limit: int = 1_000, guard: QueryGuard | None = None) -> list[NoteRecord]:
        """The latest, in the order of their times."""
        order = "t_ms DESC, rank DESC, attempt DESC, n DESC"
        rows = self._tables.rows(NOTES, [of_run(run)], order, limit=limit, guard=guard)
        return [note_of(row) for row in reversed(rows)]

    def _read_processes(self, runs: Sequence[RunId], guard: QueryGuard | None) -> Iterable[RankProcess]:
        terms = [f"run IN {sql.text_list(runs)}"]
        return processes_of(self._tables.found(PROCESSES, terms, "run", final=True, guard=guard))

    def _read_positions(self, runs: Sequence[RunId], guard: QueryGuard | None) -> Iterable[Position]:
        terms = [f"run IN {sql.text_list(runs)}"]
        return map(position_of, self._tables.rows(POSITIONS, terms, "run", final=True, guard=guard))

    def _read_latest(self, wanted: Sequence[Tail], guard: QueryGuard | None) -> dict[RunId, LastSteps]:
        found = self._engine.query_arrow(
            f"SELECT run, step, n, start_us, us, samples, tokens FROM {STEPS.name} "
            f"WHERE {among_tails(wanted)} ORDER BY run, n",
            guard=guard,
        )
        times: defaultdict[RunId, list[StepTime]] = defaultdict(list)
        for row in zip(*(found[name].to_pylist() for name in found.column_names), strict=True):
            times[row[0]].append(StepTime(*row))
        last = [tail._replace(first_step=times[tail.run][-1].step) for tail in wanted if tail.run in times]
        values = {(one.run, one.n): one.values for one in self.tails(last, guard=guard)}
        return {run: LastSteps(of_run, values.get((run, of_run[-1].n), {})) for run, of_run in times.items()}


def _key(process: RankProcess) -> tuple[RunId, int, WriterId]:
    return process.run, process.rank, process.writer
