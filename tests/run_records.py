"""Records of runs as tests make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.model.run import BatchRecord, RankProcess, RunFacts, RunId, StepRecord, WriterId
from trilens.model.run_commit import Position

if TYPE_CHECKING:
    from trilens.model.run_sums import AttemptSpan

RUN = RunId("lr-3e-4.a1")
OTHER = RunId("lr-1e-3.b2")


def writer(number: int) -> WriterId:
    return WriterId(f"{number:032x}")


def facts(run: RunId = RUN, created_ms: int = 1_000, **others: Any) -> RunFacts:
    return RunFacts(run, created_ms, **others)


def process(rank: int = 0, attempt: int = 0, *, run: RunId = RUN, **others: Any) -> RankProcess:
    others.setdefault("started_ms", 1_000 + attempt)
    return RankProcess(run, rank, writer(rank + 1_000 * attempt), attempt=attempt, **others)


def step(number: int, rank: int = 0, attempt: int = 0, *, run: RunId = RUN, **others: Any) -> StepRecord:
    others.setdefault("n", number)
    others.setdefault("start_us", number * 500_000 + rank)
    others.setdefault("duration_us", 400_000)
    return StepRecord(run, number, rank, attempt, **others)


def batch(number: int, rank: int = 0, attempt: int = 0, *, run: RunId = RUN, **others: Any) -> BatchRecord:
    others.setdefault("n", number)
    return BatchRecord(run, number, rank, attempt, **others)


def position(seq: int, *spans: AttemptSpan, rank: int = 0, attempt: int = 0, run: RunId = RUN) -> Position:
    return Position(run, rank, writer(rank + 1_000 * attempt), attempt, seq, spans)
