"""What is inside a checkpoint: the chain of attempts that leads to it, their samples, what was done and
thrown away on the way, and why the answer may be wrong."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.lineage.batches import batches_of
from trilens.lineage.repeats import repeats
from trilens.model.run_sums import DatasetShare
from trilens.model.workload import Doubt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.lineage.history import History, Part
    from trilens.lineage.repeats import Repeated
    from trilens.lineage.stretches import Stretch
    from trilens.model.run import CheckpointRecord, RunId

_MOST_BATCHES, _MOST_SAMPLES = 20_000, 1_000_000  # looked through for samples that were seen twice


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Over all ranks that wrote a part of it, or told of it. `stretch` is -1 where no step is known."""

    step: int
    stretch: int
    attempts: tuple[int, ...]
    ranks: tuple[int, ...]
    paths: tuple[str, ...]
    start_ms: int
    duration_us: int | None
    size_bytes: int | None
    ok: bool
    error: str | None
    record: CheckpointRecord  # as the lowest rank tells of it


@dataclass(frozen=True, slots=True)
class Contents:
    """`repeated` is None where there are too many batches to look through."""

    parts: tuple[Part, ...]
    thrown_away: list[Part]
    shares: list[DatasetShare]
    repeated: list[Repeated] | None
    doubts: list[Doubt]


def checkpoints(history: History) -> list[Checkpoint]:
    """By time. What several ranks wrote at one step of one stretch is one checkpoint."""
    found: defaultdict[tuple[int, int], list[CheckpointRecord]] = defaultdict(list)
    for one in history.written:
        found[history.stretch_of(one), one.step].append(one)
    every = [_checkpoint(stretch, records) for (stretch, _), records in found.items()]
    return sorted(every, key=lambda one: (one.start_ms, one.step))


def _checkpoint(stretch: int, records: Sequence[CheckpointRecord]) -> Checkpoint:
    sizes: dict[str, int] = {}
    for one in records:
        if one.size_bytes is not None:  # told by several ranks, one path is still one
            sizes[one.path] = max(sizes.get(one.path, 0), one.size_bytes)
    errors = [one.error or "failed" for one in records if not one.ok]
    return Checkpoint(
        records[0].step,
        stretch,
        tuple(sorted({one.attempt for one in records})),
        tuple(sorted({one.rank for one in records})),
        tuple(dict.fromkeys(one.path for one in records)),
        min(one.start_ms for one in records),
        max((one.duration_us for one in records if one.duration_us is not None), default=None),
        sum(sizes.values()) if sizes else None,
        not errors,
        errors[0] if errors else None,
        min(records, key=lambda one: (not one.ok, one.rank, -one.n)),
    )


def contents(history: History, one: Checkpoint) -> Contents:
    parts = history.inside(one.record)
    shares = _shares(history, parts)
    few = (
        sum(share.batches for share in shares) <= _MOST_BATCHES
        and sum(share.samples for share in shares) <= _MOST_SAMPLES
    )
    return Contents(
        parts,
        history.thrown_away(parts, history.over_before(one.record)),
        shares,
        repeats(batches_of(history, parts)) if few else None,
        _doubts(history, one, parts),
    )


def _shares(history: History, parts: Iterable[Part]) -> list[DatasetShare]:
    by_run: defaultdict[RunId, list[Part]] = defaultdict(list)
    for part in parts:
        by_run[part.run].append(part)
    sums: dict[tuple[str, str | None], DatasetShare] = {}
    for run, of_run in by_run.items():
        there = history.of_run(run)
        portions = [portion for part in of_run for portion in there.portions(part)]
        for share in history.source.shares(run, portions, guard=history.guard):
            so_far = sums.get((share.dataset, share.shard))
            sums[share.dataset, share.shard] = _added(so_far, share) if so_far else share
    return sorted(sums.values(), key=lambda share: (share.dataset, share.shard or ""))


def _added(one: DatasetShare, other: DatasetShare) -> DatasetShare:
    return DatasetShare(
        one.dataset,
        one.shard,
        one.batches + other.batches,
        one.samples + other.samples,
        one.unknown + other.unknown,
    )


def _doubts(history: History, one: Checkpoint, parts: Sequence[Part]) -> list[Doubt]:
    found: list[Doubt] = []
    if not one.ok:
        found.append(Doubt("checkpoint-failed", f"writing it failed: {one.error}", "take another one"))
    if one.stretch < 0:
        found.append(Doubt("no-steps", "no step of this run is known", "call run.step() around each step"))
    elif one.step > (last := history.stretches[one.stretch].last_step) + 1:
        found.append(
            Doubt(
                "steps-missing",
                f"it is of step {one.step}, and the last that is known before it is {last}",
                "trilens runs show says what the SDK lost",
            )
        )
    if (loaded := history.written_again(one.record)) is not None:
        found += loaded.doubts
    for part in parts:
        there = history.of_run(part.run)
        stretch = there.stretches[part.stretch]
        found += there.origins[part.stretch].doubts
        found += _doubts_of_part(part, stretch)
    return [*dict.fromkeys(found)]


def _doubts_of_part(part: Part, stretch: Stretch) -> Iterable[Doubt]:
    name = f"attempt {', '.join(map(str, stretch.attempts))}"
    lost: defaultdict[int, int] = defaultdict(int)
    covered: dict[int, tuple[int, int]] = {}
    for span in stretch.spans:
        lost[span.rank] += max(0, span.last_n - span.first_n + 1 - span.records)
        first, last = covered.get(span.rank, (span.first_step, span.last_step))
        covered[span.rank] = (min(first, span.first_step), max(last, span.last_step))
    if count := sum(lost.values()):
        ranks = _listed(rank for rank, missing in lost.items() if missing)
        yield Doubt(
            "steps-missing",
            f"{count} step records of {name} did not arrive ({ranks})",
            "trilens runs show says what the SDK lost",
        )
    shorter = [
        rank for rank, (first, last) in covered.items() if first > part.first_step or last < part.last_step
    ]
    if shorter:
        rank = shorter[0]
        first, last = covered[rank]
        yield Doubt(
            "ranks-differ",
            f"in {name} {_listed(shorter)} did not tell of all of steps {part.first_step} to "
            f"{part.last_step}: rank {rank} of {first} to {last}",
        )
    if stretch.world_size is not None and len(covered) < stretch.world_size:
        yield Doubt(
            "ranks-missing",
            f"in {name} {len(covered)} of {stretch.world_size} ranks told of their steps",
            "call trilens.init() in every rank",
        )


def _listed(ranks: Iterable[int]) -> str:
    every = sorted(ranks)
    shown = ", ".join(map(str, every[:8])) + (f" and {len(every) - 8} more" if len(every) > 8 else "")
    return f"rank {shown}" if len(every) == 1 else f"ranks {shown}"
