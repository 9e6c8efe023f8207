"""What is taken in of runs at once: on disk together, or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trilens.model.run import (
        ArtifactRecord,
        BatchRecord,
        CheckpointRecord,
        NoteRecord,
        RankProcess,
        RunFacts,
        RunId,
        StepRecord,
        ValidationRecord,
        WriterId,
    )
    from trilens.model.run_sums import AttemptSpan


class Position(NamedTuple):
    """How far a writer was taken in, and what its steps come to until there."""

    run: RunId
    rank: int
    writer: WriterId
    attempt: int
    seq: int = -1  # of its last batch; -1 before the first
    spans: tuple[AttemptSpan, ...] = ()


@dataclass(slots=True)
class RunCommit:
    facts: list[RunFacts] = field(default_factory=list)
    processes: list[RankProcess] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    batches: list[BatchRecord] = field(default_factory=list)
    checkpoints: list[CheckpointRecord] = field(default_factory=list)
    validations: list[ValidationRecord] = field(default_factory=list)
    notes: list[NoteRecord] = field(default_factory=list)
    artifacts: list[ArtifactRecord] = field(default_factory=list)
    positions: list[Position] = field(default_factory=list)  # where these writers stand after it
    before: list[Position] = field(default_factory=list)  # and where they stood, should it be taken back
