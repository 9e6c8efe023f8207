"""Runs as the answers that people see."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from trilens.lineage.contents import checkpoints
from trilens.lineage.standing import current_lives
from trilens.model.run import Ending
from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.event_answers import WorkloadName
from trilens.serve.money.spending_answer import spending_answer
from trilens.serve.run_answers import (
    ArtifactAnswer,
    BeganAnswer,
    CheckpointAnswer,
    NoteAnswer,
    RankAnswer,
    RunAnswer,
    RunDetail,
    StepRange,
    StretchAnswer,
    TimeLeft,
    TrackerRun,
    ValidationAnswer,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.answers.spending import Spending
    from trilens.lineage.contents import Checkpoint
    from trilens.lineage.history import History, Part
    from trilens.lineage.standing import Standing
    from trilens.lineage.stretches import Stretch
    from trilens.model.run import NoteRecord, RankProcess, RunFacts, ValidationRecord
    from trilens.model.run_sums import ArtifactName
    from trilens.model.workload import WorkloadKey
    from trilens.serve.run_answers import Value


def run_answer(facts: RunFacts, standing: Standing, workloads: Sequence[WorkloadKey]) -> RunAnswer:
    pace = standing.pace
    left = standing.time_left
    return RunAnswer(
        facts.run,
        facts.experiment,
        facts.name,
        facts.source,
        standing.state.value if standing.state is not None else None,
        standing.since_ms,
        standing.error,
        standing.error_rank,
        [*standing.dead],
        standing.attempts,
        standing.ranks,
        facts.world_size,
        standing.step,
        standing.steps_done,
        facts.total_steps,
        standing.progress,
        TimeLeft(*left) if left is not None else None,
        pace.step_s if pace is not None else None,
        _times(pace.samples_per_second if pace is not None else None, standing.ranks),
        _times(pace.tokens_per_second if pace is not None else None, standing.ranks),
        _loss(standing.values),
        standing.phase,
        facts.created_ms,
        standing.started_ms,
        standing.heard_ms,
        [WorkloadName(*key) for key in workloads],
        [TrackerRun(*tracker) for tracker in facts.trackers],
    )


def _times(rate: float | None, ranks: int) -> float | None:
    return rate * ranks if rate is not None else None


def _loss(values: Mapping[str, float]) -> Value | None:
    """Some log it as train/loss or train_loss."""
    named = ["loss", *sorted(name for name in values if name.endswith("loss"))]
    return next((told(values[name]) for name in named if name in values), None)


def told(value: float) -> Value:
    """JSON has no number for what is not finite."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def values_answer(values: Mapping[str, float]) -> dict[str, Value]:
    return {name: told(value) for name, value in values.items()}


def run_detail(
    run: RunAnswer,
    facts: RunFacts,
    history: History,
    validations: Sequence[ValidationRecord],
    notes: Sequence[NoteRecord],
    artifacts: Sequence[ArtifactName],
    spent: Spending | None,
) -> RunDetail:
    lost: Counter[str] = Counter()
    for process in history.processes:
        lost.update(process.lost)
    gone = history.thrown_away(history.now(), len(history.stretches))
    last = {(one.rank, one.attempt) for one in current_lives(history.processes)}
    return RunDetail(
        run,
        dict(facts.config),
        dict(facts.tags),
        [_stretch(history, stretch, gone) for stretch in history.stretches],
        [_rank(process, (process.rank, process.attempt) in last) for process in history.processes],
        [checkpoint_answer(one) for one in checkpoints(history)],
        [
            ValidationAnswer(
                one.step,
                one.rank,
                one.attempt,
                one.t_ms,
                _seconds(one.duration_us),
                values_answer(one.values),
            )
            for one in validations
        ],
        [
            NoteAnswer(one.t_ms, one.rank, one.attempt, one.step, one.kind, one.text, dict(one.data))
            for one in notes
        ],
        [artifact_answer(one) for one in artifacts],
        dict(lost),
        spending_answer(spent),
    )


def checkpoint_answer(one: Checkpoint) -> CheckpointAnswer:
    return CheckpointAnswer(
        one.step,
        one.stretch,
        [*one.attempts],
        [*one.ranks],
        [*one.paths],
        one.start_ms,
        _seconds(one.duration_us),
        one.size_bytes,
        one.ok,
        one.error,
    )


def artifact_answer(one: ArtifactName) -> ArtifactAnswer:
    return ArtifactAnswer(
        f"{one.rank}.{one.attempt}.{one.n}",
        one.rank,
        one.attempt,
        one.t_ms,
        one.kind,
        one.name,
        one.size_bytes,
    )


def _stretch(history: History, stretch: Stretch, gone: Sequence[Part]) -> StretchAnswer:
    began = history.origins[stretch.index]
    ended, error = _ended(history, stretch)
    return StretchAnswer(
        stretch.index,
        stretch.attempts,
        sorted(stretch.ranks),
        stretch.first_step,
        stretch.last_step,
        min(span.start_us for span in stretch.spans) // 1000,
        max(span.end_us for span in stretch.spans) // 1000,
        BeganAnswer(
            began.how.value, began.step, began.path, began.written.run if began.written is not None else None
        ),
        ended,
        error,
        [StepRange(part.first_step, part.last_step) for part in gone if part.stretch == stretch.index],
        [DoubtAnswer(*doubt) for doubt in began.doubts],
    )


def _ended(history: History, stretch: Stretch) -> tuple[str | None, str | None]:
    """None while it goes on. The first rank that failed is the likeliest to know why."""
    lives = {(span.rank, span.attempt) for span in stretch.spans}
    later = {
        (span.rank, span.attempt) for one in history.stretches[stretch.index + 1 :] for span in one.spans
    }
    if lives & later:
        return "went back", None
    ended = [one for one in history.processes if (one.rank, one.attempt) in lives and one.ending is not None]
    failed = min(
        (one for one in ended if one.ending is Ending.FAILED), key=lambda one: one.ended_ms or 0, default=None
    )
    if failed is not None:
        return Ending.FAILED.value, failed.error
    if any(one.ending is Ending.LOST for one in ended):
        return Ending.LOST.value, None
    return (Ending.FINISHED.value, None) if ended else (None, None)


def _rank(process: RankProcess, is_last: bool) -> RankAnswer:
    return RankAnswer(
        process.rank,
        process.attempt,
        is_last,
        process.local_rank,
        process.world_size,
        process.node,
        process.pid,
        process.cluster,
        process.namespace,
        process.pod,
        process.container,
        [*process.gpus],
        process.launcher,
        process.job,
        process.metrics_address,
        dict(process.versions),
        process.started_ms,
        process.heard_ms,
        process.step,
        process.phase,
        process.clock_offset_us,
        dict(process.lost),
        process.ended_ms,
        process.ending.value if process.ending is not None else None,
        process.error,
    )


def _seconds(duration_us: int | None) -> float | None:
    return duration_us / 1e6 if duration_us is not None else None
