"""What runs read and what came of it: batches, samples that were seen, and the curves of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.run import RunId
from trilens.model.run_sums import DatasetShare, Sighting
from trilens.store import run_curves, sql
from trilens.store.run_rows import BATCHES, batch_of
from trilens.store.run_statements import BY_STEP, RunTables, equal, in_portion, of_ranks, of_run
from trilens.store.run_sums import CURVES, SAMPLES, SHARES, text_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.query import QueryGuard
    from trilens.model.run import BatchRecord
    from trilens.model.run_curve import Curve
    from trilens.model.run_sums import Portion
    from trilens.store.engine import Engine


class RunData:
    """Thread-safe: keeps nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tables = RunTables(engine)

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
        terms = [of_run(run), f"step BETWEEN {first} AND {last}", *equal(rank=rank, attempt=attempt)]
        rows = self._tables.rows(BATCHES, terms, f"{BY_STEP}, i", limit=limit, guard=guard)
        return [batch_of(row) for row in rows]

    def shares(
        self, run: RunId, portions: Sequence[Portion], *, guard: QueryGuard | None = None
    ) -> list[DatasetShare]:
        """By dataset and shard."""
        of_all = [in_portion(portion) for portion in portions if portion.rank is None]
        parts = []
        if of_all:
            parts.append(
                "SELECT dataset, shard, sum(batches) AS b, sum(samples) AS s, sum(unknown) AS u "
                f"FROM {SHARES.name} WHERE {of_run(run)} AND ({' OR '.join(of_all)}) GROUP BY dataset, shard"
            )
        if of_some := of_ranks(portions):
            parts.append(
                "SELECT dataset, shard, toInt64(count()) AS b, sum(ifNull(size, 0)) AS s, "
                "toInt64(countIf(unknown IS NOT NULL)) AS u "
                f"FROM {BATCHES.name} WHERE {of_run(run)} AND ({' OR '.join(of_some)}) "
                "GROUP BY dataset, shard"
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
        which = [*([of_run(run)] if run is not None else []), *equal(dataset=dataset)]
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
            f"ORDER BY run, {BY_STEP}, dataset, shard LIMIT {limit}",
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
            f"SELECT {run_curves.COLUMNS} FROM {CURVES.name} WHERE {of_run(run)} "
            f"AND value = {sql.text(value)} AND step BETWEEN {first} AND {last}",
            guard=guard,
        )
        return run_curves.curve_of(found)
