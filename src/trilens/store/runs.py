"""Runs, their processes, steps, batches and checkpoints: kept each once, and read back."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from trilens.model.run import RunId
from trilens.model.run_sums import (
    ArtifactName,
    AttemptSpan,
    DatasetShare,
    LastSteps,
    Sighting,
    StepTime,
)
from trilens.store import run_curves, sql
from trilens.store.latest_steps import LatestSteps
from trilens.store.remembered_reads import RememberedReads
from trilens.store.run_commits import RunCommits
from trilens.store.run_expiry import delete_expired_runs
from trilens.store.run_memory import RunMemory
from trilens.store.run_rows import (
    ARTIFACTS,
    BATCHES,
    CHECKPOINTS,
    NOTES,
    POSITIONS,
    PROCESSES,
    RUNS,
    STEPS,
    VALIDATIONS,
    artifact_of,
    batch_of,
    checkpoint_of,
    facts_of,
    note_of,
    position_of,
    processes_of,
    step_of,
    validation_of,
)
from trilens.store.run_sums import CURVES, SAMPLES, SHARES, text_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from trilens.model.query import QueryGuard
    from trilens.model.run import (
        ArtifactRecord,
        BatchRecord,
        CheckpointRecord,
        NoteRecord,
        RankProcess,
        RunFacts,
        StepRecord,
        ValidationRecord,
        WriterId,
    )
    from trilens.model.run_commit import Position, RunCommit
    from trilens.model.run_curve import Curve
    from trilens.model.run_sums import Portion, Tail
    from trilens.store.engine import Engine
    from trilens.store.run_rows import RunTable

_KEPT_PROCESSES = 50_000  # in memory: of runs that live, the intake has them anyway
_FEW_RUNS = 64
_BY_STEP = "step, rank, attempt, n"
_LATEST_FIRST = "created_ms DESC, run"


class RunRecords:
    """Thread-safe. Every answer holds each record once, however often it was sent."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._commits = RunCommits(engine)
        self._heard: dict[tuple[RunId, int, WriterId], RankProcess] = {}
        self._processes = RunMemory(self._read_processes, _KEPT_PROCESSES)
        self._positions = RunMemory(self._read_positions, _KEPT_PROCESSES)
        self._latest = LatestSteps(self._read_latest)
        self._remembered = RememberedReads(engine)

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
        return [position_of(row) for row in self._rows(POSITIONS, [_of(run)], "rank, attempt", final=True)]

    def unfinished(self, since_ms: int) -> list[RankProcess]:
        """The processes of which no end is known and that were heard since then."""
        terms = ["ended_ms IS NULL", f"heard_ms >= {since_ms}"]
        return [*processes_of(self._found(PROCESSES, terms, "run, rank, attempt", final=True))]

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
        terms = [*([_of(run)] if run is not None else []), *_equal(experiment=experiment)]
        if since_ms is None:
            statement = _select(RUNS, terms, _LATEST_FIRST, final=True, limit=limit)
            return self._remembered.of(RUNS.name, statement, facts_of, guard)
        heard = sorted({p.run for p in [*self._heard.values()] if p.heard_ms >= since_ms})
        since = [
            f"created_ms >= {since_ms}",
            f"run IN (SELECT run FROM {PROCESSES.name} WHERE heard_ms >= {since_ms})",
            *([f"run IN {sql.text_list(heard)}"] if heard else []),
        ]
        terms.append(f"({' OR '.join(since)})")
        rows = self._rows(RUNS, terms, _LATEST_FIRST, limit=limit, final=True, guard=guard)
        return [facts_of(row) for row in rows]

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
        terms = [_of(run), f"step BETWEEN {first} AND {last}", *_equal(rank=rank)]
        return [step_of(row) for row in self._rows(STEPS, terms, _BY_STEP, limit=limit, guard=guard)]

    def tails(self, wanted: Sequence[Tail], *, guard: QueryGuard | None = None) -> list[StepRecord]:
        """By run, step and rank."""
        if not wanted:
            return []
        rows = self._rows(STEPS, [_among_tails(wanted)], f"run, {_BY_STEP}", guard=guard)
        return [step_of(row) for row in rows]

    def latest(self, wanted: Sequence[Tail], *, guard: QueryGuard | None = None) -> dict[RunId, LastSteps]:
        return self._latest.of(wanted, guard) if wanted else {}

    def batches(
        self,
        run: RunId,
        first: int,
        last: int,
        *,
        rank: int | None = None,
        attempt: int | None = None,
        limit: int = 10_000,
        guard: QueryGuard | None = None,
    ) -> list[BatchRecord]:
        terms = [_of(run), f"step BETWEEN {first} AND {last}", *_equal(rank=rank, attempt=attempt)]
        rows = self._rows(BATCHES, terms, f"{_BY_STEP}, i", limit=limit, guard=guard)
        return [batch_of(row) for row in rows]

    def shares(
        self, run: RunId, portions: Sequence[Portion], *, guard: QueryGuard | None = None
    ) -> list[DatasetShare]:
        """By dataset and shard."""
        of_all = [_in(portion) for portion in portions if portion.rank is None]
        parts = []
        if of_all:
            parts.append(
                "SELECT dataset, shard, sum(batches) AS b, sum(samples) AS s, sum(unknown) AS u "
                f"FROM {SHARES.name} WHERE {_of(run)} AND ({' OR '.join(of_all)}) GROUP BY dataset, shard"
            )
        if of_some := _of_ranks(portions):
            parts.append(
                "SELECT dataset, shard, toInt64(count()) AS b, sum(ifNull(size, 0)) AS s, "
                "toInt64(countIf(unknown IS NOT NULL)) AS u "
                f"FROM {BATCHES.name} WHERE {_of(run)} AND ({' OR '.join(of_some)}) GROUP BY dataset, shard"
            )
        if not parts:
            return []
        found = self._engine.query_arrow(
            f"SELECT dataset, shard, sum(b) AS batches, sum(s) AS samples, sum(u) AS unknown "
            f"FROM ({' UNION ALL '.join(parts)}) GROUP BY dataset, shard ORDER BY dataset, shard",
            guard=guard,
        )
        return [DatasetShare(**row) for row in found.to_pylist()]

    def sightings(
        self,
        sample: int | str,
        *,
        run: RunId | None = None,
        dataset: str | None = None,
        limit: int = 1_000,
        guard: QueryGuard | None = None,
    ) -> list[Sighting]:
        """By run, step and rank."""
        name = sample if isinstance(sample, str) else ""
        key = text_key(sample) if isinstance(sample, str) else sample
        which = [*([_of(run)] if run is not None else []), *_equal(dataset=dataset)]
        columns = "run, step, rank, attempt, n, dataset, shard, epoch"
        told = [f"sample = {key}", f"name = {sql.text(name)}", *which]
        parts = [f"SELECT {columns} FROM {SAMPLES.name} WHERE {' AND '.join(told)}"]
        if not isinstance(sample, str):
            steps_on = f"(stride = 0 OR ({sample} - assumeNotNull(first)) % stride = 0)"
            ranges = [f"low <= {sample}", f"high >= {sample}", steps_on, *which]
            parts.append(f"SELECT {columns} FROM {BATCHES.name} WHERE {' AND '.join(ranges)}")
        # A batch may hold a sample twice, and was then seen once.
        found = self._engine.query_arrow(
            f"SELECT DISTINCT {columns} FROM ({' UNION ALL '.join(parts)}) "
            f"ORDER BY run, {_BY_STEP}, dataset, shard LIMIT {limit}",
            guard=guard,
        )
        return [Sighting(RunId(row.pop("run")), **row) for row in found.to_pylist()]

    def curve(
        self,
        run: RunId,
        value: str,
        first: int,
        last: int,
        *,
        guard: QueryGuard | None = None,
    ) -> Curve:
        found = self._engine.query_arrow(
            f"SELECT {run_curves.COLUMNS} FROM {CURVES.name} WHERE {_of(run)} "
            f"AND value = {sql.text(value)} AND step BETWEEN {first} AND {last}",
            guard=guard,
        )
        return run_curves.curve_of(found)

    def checkpoints(self, run: RunId, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]:
        """By start."""
        statement = _select(CHECKPOINTS, [_of(run)], f"start_ms, {_BY_STEP}")
        return self._remembered.of(CHECKPOINTS.name, statement, checkpoint_of, guard)

    def written_at(self, path: str, *, guard: QueryGuard | None = None) -> list[CheckpointRecord]:
        """Of all runs, by start."""
        terms = [f"path = {sql.text(path)}", "NOT loaded"]
        rows = self._rows(CHECKPOINTS, terms, f"start_ms, run, {_BY_STEP}", guard=guard)
        return [checkpoint_of(row) for row in rows]

    def validations(self, run: RunId, *, guard: QueryGuard | None = None) -> list[ValidationRecord]:
        """By step, rank and attempt."""
        statement = _select(VALIDATIONS, [_of(run)], _BY_STEP)
        return self._remembered.of(VALIDATIONS.name, statement, validation_of, guard)

    def notes(self, run: RunId, *, limit: int = 1_000, guard: QueryGuard | None = None) -> list[NoteRecord]:
        """The latest, in the order of their times."""
        order = "t_ms DESC, rank DESC, attempt DESC, n DESC"
        rows = self._rows(NOTES, [_of(run)], order, limit=limit, guard=guard)
        return [note_of(row) for row in reversed(rows)]

    def artifacts(
        self, run: RunId, *, rank: int | None = None, guard: QueryGuard | None = None
    ) -> list[ArtifactName]:
        """By time."""
        found = self._engine.query_arrow(
            f"SELECT {', '.join(ArtifactName._fields)} FROM {ARTIFACTS.name} "
            f"WHERE {' AND '.join([_of(run), *_equal(rank=rank)])} ORDER BY t_ms, rank, attempt, n",
            guard=guard,
        )
        return [ArtifactName(**row) for row in found.to_pylist()]

    def artifact(
        self, run: RunId, rank: int, attempt: int, n: int, *, guard: QueryGuard | None = None
    ) -> ArtifactRecord | None:
        terms = [_of(run), *_equal(rank=rank, attempt=attempt, n=n)]
        rows = self._rows(ARTIFACTS, terms, "t_ms", guard=guard)
        return artifact_of(rows[0]) if rows else None

    def artifact_files(
        self, run: RunId, named: Sequence[ArtifactName], *, guard: QueryGuard | None = None
    ) -> list[ArtifactRecord]:
        """These with their contents, by time: of a thousand ranks, in one question."""
        if not named:
            return []
        among = ", ".join(f"({one.rank}, {one.attempt}, {one.n})" for one in named)
        terms = [_of(run), f"(rank, attempt, n) IN ({among})"]
        rows = self._rows(ARTIFACTS, terms, "t_ms, rank, attempt, n", guard=guard)
        return [artifact_of(row) for row in rows]

    def _read_processes(self, runs: Sequence[RunId], guard: QueryGuard | None) -> Iterable[RankProcess]:
        terms = [f"run IN {sql.text_list(runs)}"]
        return processes_of(self._found(PROCESSES, terms, "run", final=True, guard=guard))

    def _read_positions(self, runs: Sequence[RunId], guard: QueryGuard | None) -> Iterable[Position]:
        terms = [f"run IN {sql.text_list(runs)}"]
        return map(position_of, self._rows(POSITIONS, terms, "run", final=True, guard=guard))

    def _read_latest(self, wanted: Sequence[Tail], guard: QueryGuard | None) -> dict[RunId, LastSteps]:
        found = self._engine.query_arrow(
            f"SELECT run, step, n, start_us, us, samples, tokens FROM {STEPS.name} "
            f"WHERE {_among_tails(wanted)} ORDER BY run, n",
            guard=guard,
        )
        times: defaultdict[RunId, list[StepTime]] = defaultdict(list)
        for row in zip(*(found[name].to_pylist() for name in found.column_names), strict=True):
            times[row[0]].append(StepTime(*row))
        last = [tail._replace(first_step=times[tail.run][-1].step) for tail in wanted if tail.run in times]
        values = {(one.run, one.n): one.values for one in self.tails(last, guard=guard)}
        return {run: LastSteps(of_run, values.get((run, of_run[-1].n), {})) for run, of_run in times.items()}

    def _rows(
        self,
        table: RunTable,
        terms: Sequence[str],
        order: str,
        *,
        final: bool = False,
        limit: int | None = None,
        guard: QueryGuard | None = None,
    ) -> list[dict[str, Any]]:
        found = self._found(table, terms, order, final=final, limit=limit, guard=guard)
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def _found(
        self,
        table: RunTable,
        terms: Sequence[str],
        order: str,
        *,
        final: bool = False,
        limit: int | None = None,
        guard: QueryGuard | None = None,
    ) -> pa.Table:
        statement = _select(table, terms, order, final=final, limit=limit)
        return self._engine.query_arrow(statement, guard=guard)


def _select(
    table: RunTable, terms: Sequence[str], order: str, *, final: bool = False, limit: int | None = None
) -> str:
    statement = f"SELECT {table.columns} FROM {table.name}"
    if final:  # of rows that are told again, the last one counts
        statement += " FINAL"
    if terms:
        statement += f" WHERE {' AND '.join(terms)}"
    statement += f" ORDER BY {order}"
    if limit is not None:
        statement += f" LIMIT {limit}"
    return statement


def _key(process: RankProcess) -> tuple[RunId, int, WriterId]:
    return process.run, process.rank, process.writer


def _in(portion: Portion) -> str:
    terms = [f"attempt = {portion.attempt}", f"step BETWEEN {portion.first_step} AND {portion.last_step}"]
    if portion.first_n is not None:
        terms.append(f"n >= {portion.first_n}")
    if portion.last_n is not None:
        terms.append(f"n <= {portion.last_n}")
    return f"({' AND '.join(terms)})"


def _of_ranks(portions: Iterable[Portion]) -> list[str]:
    """Ranks that did the same steps in one term: a thousand terms would each be tried on every row."""
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    for portion in portions:
        if portion.rank is not None:
            ranks[_in(portion)].add(portion.rank)
    return [f"(rank IN ({', '.join(map(str, sorted(of)))}) AND {term})" for term, of in ranks.items()]


def _among_tails(wanted: Iterable[Tail]) -> str:
    each = (
        f"({_of(tail.run)} AND step >= {tail.first_step} AND rank = {tail.rank} AND attempt = {tail.attempt})"
        for tail in wanted
    )
    return f"({' OR '.join(each)})"


def _of(run: RunId) -> str:
    return f"run = {sql.text(run)}"


def _equal(**wanted: int | str | None) -> list[str]:
    return [
        f"{column} = {sql.text(value) if isinstance(value, str) else value}"
        for column, value in wanted.items()
        if value is not None
    ]
