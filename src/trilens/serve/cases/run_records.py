"""What programs told of their runs, as far as a case is about them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.diagnose.case_file import RankSteps, SubjectKind
from trilens.model.run_sums import Tail
from trilens.model.step_phases import DATA_PHASES, SYNC_PHASES
from trilens.model.verdict import Missing
from trilens.serve.access.seen_runs import RunsSeen
from trilens.serve.access.sight import WHOLE
from trilens.serve.cases.suspect_batches import suspect_batches
from trilens.serve.run_workloads import members_of, process_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.diagnose.case_file import SuspectBatch
    from trilens.lineage.source import RunSource
    from trilens.model.query import QueryGuard
    from trilens.model.run import ArtifactRecord, NoteRecord, RankProcess, RunFacts, RunId, StepRecord
    from trilens.serve.access.sight import Sight
    from trilens.serve.cases.records import Known
    from trilens.serve.cases.subjects import Meant
    from trilens.store.runs import RunRecords
    from trilens.store.workloads import Span, WorkloadRecords

_LOOKED_AT: Final = 1_000  # runs that were there in the time of the case
_RUNS: Final = 4  # of these, so many are in it: the latest
_STEPS: Final = 500  # of a rank
_FEWEST_STEPS: Final = 64  # where there are very many ranks
_STEPS_IN_ALL: Final = 65_536
_NOTES: Final = 2_000
_ARTIFACT_BYTES: Final = 64 << 20
_LOSSES: Final = ("loss", "train_loss", "train/loss")
_NORMS: Final = ("grad_norm", "gradient_norm", "train/grad_norm")


@dataclass(frozen=True, slots=True)
class KnownRuns:
    runs: tuple[RunFacts, ...] = ()
    ranks: tuple[RankProcess, ...] = ()
    steps: tuple[RankSteps, ...] = ()
    notes: tuple[NoteRecord, ...] = ()
    suspects: tuple[SuspectBatch, ...] = ()
    artifacts: tuple[ArtifactRecord, ...] = ()
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseRuns:
    """Thread-safe."""

    runs: RunRecords
    workloads: WorkloadRecords

    def read(
        self, meant: Meant, known: Known, span: Span, guard: QueryGuard | None, sight: Sight = WHOLE
    ) -> KnownRuns:
        seen = RunsSeen(self.runs, self.workloads).by(sight)
        facts = {one.run: one for one in seen.runs(since_ms=span.start_ms, limit=_LOOKED_AT, guard=guard)}
        processes = seen.processes([*facts], guard=guard)
        places = members_of(processes, self.workloads, guard)
        node = meant.subject.name if meant.subject.kind is SubjectKind.NODE else None
        pods, keys = known.pods, known.keys
        ours: defaultdict[RunId, list[RankProcess]] = defaultdict(list)
        for process in processes:
            place = places.get(process_key(process))
            cluster = place.pod.cluster if place is not None else process.cluster
            if (place is not None and (place.pod in pods or place.workload in keys)) or (
                process.node == node and meant.subject.may_be_in(cluster)
            ):
                ours[process.run].append(process)
        latest = sorted(ours, key=lambda run: max(one.heard_ms for one in ours[run]))[-_RUNS:]
        # The other ranks of a run matter as much as those that were asked about: who waits for whom.
        ranks = [process for process in processes if process.run in latest]
        notes = [note for run in latest for note in seen.notes(run, limit=_NOTES, guard=guard)]
        artifacts, missing = self._artifacts(seen, latest, guard)
        return KnownRuns(
            tuple(facts[run] for run in latest),
            tuple(ranks),
            tuple(_steps(seen, ranks, guard)),
            tuple(notes),
            tuple(_suspects(seen, ranks, guard)),
            tuple(artifacts),
            tuple(missing),
        )

    def _artifacts(
        self, seen: RunSource, runs: Iterable[RunId], guard: QueryGuard | None
    ) -> tuple[list[ArtifactRecord], list[Missing]]:
        """The latest of each kind and rank."""
        found: list[ArtifactRecord] = []
        left_out, size = 0, 0
        for run in runs:
            latest = {(one.rank, one.kind): one for one in seen.artifacts(run, guard=guard)}
            wanted = []
            for one in latest.values():
                if size + one.size_bytes <= _ARTIFACT_BYTES:
                    wanted.append(one)
                    size += one.size_bytes
            left_out += len(latest) - len(wanted)
            found += self.runs.artifact_files(run, wanted, guard=guard)
        if not left_out:
            return found, []
        what = f"{left_out} files that ranks sent: together they are more than {_ARTIFACT_BYTES >> 20} MiB"
        return found, [Missing(what, "trilens runs export has them all")]


def _steps(seen: RunSource, ranks: Sequence[RankProcess], guard: QueryGuard | None) -> Iterator[RankSteps]:
    """Of the last life of each rank."""
    last = {(one.run, one.rank): one for one in sorted(ranks, key=lambda one: one.attempt)}
    told = [one for one in last.values() if one.step is not None]
    if not told:
        return
    each = max(_FEWEST_STEPS, min(_STEPS, _STEPS_IN_ALL // len(told)))
    tails = [Tail(one.run, one.rank, one.attempt, max((one.step or 0) - each + 1, 0)) for one in told]
    lives: defaultdict[tuple[RunId, int, int], list[StepRecord]] = defaultdict(list)
    for step in seen.tails(tails, guard=guard):
        lives[step.run, step.rank, step.attempt].append(step)
    for (_, rank, attempt), steps in sorted(lives.items()):
        yield _columns(rank, attempt, sorted(steps, key=lambda one: one.n)[-each:])


def _suspects(
    seen: RunSource, ranks: Sequence[RankProcess], guard: QueryGuard | None
) -> Iterator[SuspectBatch]:
    reached: dict[RunId, int] = {}
    for one in ranks:
        if one.step is not None:
            reached[one.run] = max(reached.get(one.run, 0), one.step)
    for run, step in reached.items():
        yield from suspect_batches(seen, run, step, _LOSSES, guard)


def _columns(rank: int, attempt: int, steps: Sequence[StepRecord]) -> RankSteps:
    return RankSteps(
        rank,
        attempt,
        tuple(one.step for one in steps),
        tuple((one.start_us + one.duration_us) // 1000 for one in steps),
        tuple(one.duration_us / 1000 for one in steps),
        tuple(_phase_ms(one, DATA_PHASES) for one in steps),
        tuple(_phase_ms(one, SYNC_PHASES) for one in steps),
        tuple(_first(one.values, _LOSSES) for one in steps),
        tuple(_first(one.values, _NORMS) for one in steps),
    )


def _phase_ms(step: StepRecord, names: Sequence[str]) -> float | None:
    told = [step.phases[name] for name in names if name in step.phases]
    return sum(told) / 1000 if told else None


def _first(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    return next((values[name] for name in names if name in values), None)
