"""Lineage as the answers that people see."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.lineage.history import holds
from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.lineage_answers import (
    BatchAnswer,
    CheckpointContents,
    CommonAnswer,
    PartAnswer,
    RepeatedAnswer,
    ShareAnswer,
    SightingAnswer,
    SpikeAnswer,
    StepOfRank,
)
from trilens.serve.run_view import checkpoint_answer, told, values_answer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.lineage.before_spikes import Before, Common
    from trilens.lineage.contents import Checkpoint, Contents
    from trilens.lineage.history import History, Part
    from trilens.lineage.sightings import Seen
    from trilens.model.run import BatchRecord, RunFacts, RunId, StepRecord


def step_answers(
    history: History, steps: Sequence[StepRecord], batches: Iterable[BatchRecord]
) -> list[StepOfRank]:
    processes = {(one.rank, one.attempt): one for one in history.processes}
    of_step: defaultdict[tuple[int, int, int], list[BatchRecord]] = defaultdict(list)
    for batch in batches:
        of_step[batch.rank, batch.attempt, batch.n].append(batch)
    now = history.now()
    found = []
    for one in steps:
        process = processes.get((one.rank, one.attempt))
        stretch = history.where(one.rank, one.attempt, one.n)
        found.append(
            StepOfRank(
                one.rank,
                one.attempt,
                one.n,
                stretch is None or holds(now, history.run, stretch, one.step),
                one.start_us,
                one.duration_us,
                dict(one.phases),
                dict(one.device_phases),
                values_answer(one.values),
                one.samples,
                one.tokens,
                one.epoch,
                process.node if process is not None else None,
                process.namespace if process is not None else None,
                process.pod if process is not None else None,
                [*process.gpus] if process is not None else [],
                [batch_answer(batch) for batch in of_step[one.rank, one.attempt, one.n]],
            )
        )
    return found


def batch_answer(one: BatchRecord) -> BatchAnswer:
    return BatchAnswer(
        one.run,
        one.step,
        one.rank,
        one.attempt,
        one.n,
        one.i,
        one.dataset,
        one.shard,
        one.epoch,
        one.size,
        one.digest,
        (one.first, one.size or 0, one.stride) if one.first is not None else None,
        [*one.ids],
        [*one.names],
        one.unknown,
    )


def contents_answer(
    history: History, one: Checkpoint, others: Iterable[Checkpoint], inside: Contents
) -> CheckpointContents:
    return CheckpointContents(
        history.run,
        checkpoint_answer(one),
        [checkpoint_answer(other) for other in others],
        [_part(history, part) for part in inside.parts],
        [_part(history, part) for part in inside.thrown_away],
        [ShareAnswer(*share) for share in inside.shares],
        [RepeatedAnswer(*one) for one in inside.repeated] if inside.repeated is not None else None,
        [DoubtAnswer(*doubt) for doubt in inside.doubts],
    )


def _part(history: History, part: Part) -> PartAnswer:
    attempts = history.of_run(part.run).stretches[part.stretch].attempts
    return PartAnswer(part.run, part.stretch, attempts, part.first_step, part.last_step)


def sighting_answer(seen: Seen, facts: Mapping[RunId, RunFacts]) -> SightingAnswer:
    one = seen.sighting
    run = facts.get(one.run)
    return SightingAnswer(
        one.run,
        run.experiment if run is not None else None,
        run.name if run is not None else None,
        one.step,
        one.rank,
        one.attempt,
        one.dataset,
        one.shard,
        one.epoch,
        seen.kept,
        seen.checkpoints,
    )


def spike_answer(before: Before, most: int) -> SpikeAnswer:
    spike = before.spike
    return SpikeAnswer(
        spike.attempt,
        spike.step,
        spike.last_step,
        spike.peak.step,
        told(spike.peak.worst),
        spike.peak.worst_rank,
        spike.median,
        spike.spreads,
        before.first_step,
        [batch_answer(batch) for batch in before.batches[:most]],
        max(0, len(before.batches) - most),
        before.is_of_all_ranks,
    )


def common_answer(one: Common) -> CommonAnswer:
    return CommonAnswer(*one)
