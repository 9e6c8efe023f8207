"""Which steps of a run were done for nothing: found through what each of its stretches began from."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.lineage.kept import Kept, kept_steps, written_once
from trilens.model.run import Ending

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.lineage.stretches import Stretch
    from trilens.model.ledger_facts import RunHistory
    from trilens.model.run import CheckpointRecord, RankProcess, RunId
    from trilens.model.run_sums import AttemptSpan

DONE_AGAIN: Final = "done-again"
CRASHED: Final = "crashed"


class LostSteps(NamedTuple):
    """Steps of one life of a rank, or of all ranks (`rank` is None), both ends included, that ended after
    `since_ms` and until `lost_ms`: a process that goes back does steps of the same numbers again.

    `since_ms` is about when the first of them began: when the last checkpoint before it did, or its stretch.
    It is the same for all ranks. None: there are no others of these numbers before.
    """

    run: RunId
    attempt: int
    rank: int | None
    first_step: int
    last_step: int
    lost_ms: int
    reason: str  # done-again, crashed
    since_ms: int | None = None


def lost_steps(history: RunHistory) -> list[LostSteps]:
    """What later stretches did not go on from; and of the last one, if it crashed, what came after its last
    good checkpoint, where the run tells of checkpoints at all."""
    if not history.processes:
        return []
    run = history.processes[0].run
    kept = kept_steps(history.spans, history.processes, history.checkpoints)
    process_of = {(one.rank, one.attempt): one for one in history.processes}
    last_of = {(span.rank, span.attempt): one.stretch.index for one in kept for span in one.stretch.spans}
    found: list[LostSteps] = []
    for one in kept[:-1]:
        found += _lost_of(run, one, DONE_AGAIN, kept, process_of, last_of)
    if kept and _has_crashed(kept[-1].stretch, process_of):
        saved = _saved(kept[-1].stretch, history.checkpoints)
        if saved is not None:
            found += _lost_of(run, saved, CRASHED, kept, process_of, last_of)
    return found


def _has_crashed(stretch: Stretch, process_of: Mapping[tuple[int, int], RankProcess]) -> bool:
    """It is over, and a rank failed or none said that it finished."""
    newest: dict[int, RankProcess] = {}
    for span in stretch.spans:
        process = process_of.get((span.rank, span.attempt))
        if process is not None and process.attempt >= newest.get(span.rank, process).attempt:
            newest[span.rank] = process
    endings = {process.ending for process in newest.values()}
    return (
        bool(endings) and None not in endings and (Ending.FAILED in endings or Ending.FINISHED not in endings)
    )


def _saved(stretch: Stretch, checkpoints: Iterable[CheckpointRecord]) -> Kept | None:
    """What of the last stretch is in a good checkpoint; None where the run tells of none at all."""
    told = [*checkpoints]
    if all(one.loaded for one in told):
        return None
    lives = {(span.rank, span.attempt) for span in stretch.spans}
    attempts = {span.attempt for span in stretch.spans}
    good = [
        one
        for one in written_once(told)
        if one.start_ms * 1000 + 999 >= stretch.start_us
        and one.step >= stretch.first_step
        and ((one.rank, one.attempt) in lives or one.attempt in attempts)
    ]
    best = max(good, key=lambda one: (one.step, one.start_ms), default=None)
    return Kept(stretch, None if best is None else min(best.step, stretch.last_step), best)


def _lost_of(
    run: RunId,
    kept: Kept,
    reason: str,
    all_kept: Sequence[Kept],
    process_of: Mapping[tuple[int, int], RankProcess],
    last_of: Mapping[tuple[int, int], int],
) -> Iterator[LostSteps]:
    """`last_of` is the last stretch of each life: one that goes on has gone back by itself."""
    stretch = kept.stretch
    first = stretch.first_step if kept.last_step is None else kept.last_step + 1
    if first > stretch.last_step:
        return
    since_ms = _since_ms(kept)
    later = all_kept[stretch.index + 1 :]
    by_attempt: defaultdict[int, list[AttemptSpan]] = defaultdict(list)
    for span in stretch.spans:
        by_attempt[span.attempt].append(span)
    for attempt, spans in by_attempt.items():
        ended = {
            span.rank: _ended_us(
                span,
                process_of.get((span.rank, span.attempt)),
                goes_on=last_of[span.rank, span.attempt] > stretch.index,
            )
            for span in spans
        }
        again_us = [
            span.start_us + _shift_us(process_of.get((span.rank, span.attempt)))
            for other in later
            for span in other.stretch.spans
            if span.attempt == attempt
        ]
        lost_us = max(ended.values())
        if not again_us or (lost_us <= min(again_us) and len({span.last_step for span in spans}) == 1):
            yield LostSteps(
                run, attempt, None, first, stretch.last_step, -(-lost_us // 1000), reason, since_ms
            )
            continue
        for span in spans:
            lost_ms = -(-ended[span.rank] // 1000)
            yield LostSteps(run, attempt, span.rank, first, span.last_step, lost_ms, reason, since_ms)


def _since_ms(kept: Kept) -> int:
    begun_ms = kept.stretch.start_us // 1000
    return begun_ms if kept.held_by is None else max(begun_ms, kept.held_by.start_ms)


def _ended_us(span: AttemptSpan, process: RankProcess | None, *, goes_on: bool) -> int:
    """When its life ended, or where it went back, its last step before that."""
    end_us = span.end_us + _shift_us(process)
    if goes_on or process is None or process.ended_ms is None:
        return end_us
    return max(end_us, process.ended_ms * 1000)


def _shift_us(process: RankProcess | None) -> int:
    return (process.clock_offset_us or 0) if process is not None else 0
