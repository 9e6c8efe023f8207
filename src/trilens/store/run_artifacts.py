"""The files that runs sent along."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.model.run_sums import ArtifactName
from trilens.store.run_rows import ARTIFACTS, artifact_of
from trilens.store.run_statements import RunTables, equal, of_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.model.query import QueryGuard
    from trilens.model.run import ArtifactRecord, RunId
    from trilens.store.engine import Engine


class RunArtifacts:
    """Thread-safe: keeps nothing."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tables = RunTables(engine)

    def artifacts(
        self, run: RunId, *, rank: int | None = None, guard: QueryGuard | None = None
    ) -> list[ArtifactName]:
        """By time."""
        found = self._engine.query_arrow(
            f"SELECT {', '.join(ArtifactName._fields)} FROM {ARTIFACTS.name} "
            f"WHERE {' AND '.join([of_run(run), *equal(rank=rank)])} ORDER BY t_ms, rank, attempt, n",
            guard=guard,
        )
        return [ArtifactName(**row) for row in found.to_pylist()]

    def artifact(
        self, run: RunId, rank: int, attempt: int, n: int, *, guard: QueryGuard | None = None
    ) -> ArtifactRecord | None:
        terms = [of_run(run), *equal(rank=rank, attempt=attempt, n=n)]
        rows = self._tables.rows(ARTIFACTS, terms, "t_ms", guard=guard)
        return artifact_of(rows[0]) if rows else None

    def artifact_files(
        self, run: RunId, named: Sequence[ArtifactName], *, guard: QueryGuard | None = None
    ) -> list[ArtifactRecord]:
        """These with their contents, by time: of a thousand ranks, in one question."""
        if not named:
            return []
        among = ", ".join(f"({one.rank}, {one.attempt}, {one.n})" for one in named)
        terms = [of_run(run), f"(rank, attempt, n) IN ({among})"]
        rows = self._tables.rows(ARTIFACTS, terms, "t_ms, rank, attempt, n", guard=guard)
        return [artifact_of(row) for row in rows]
