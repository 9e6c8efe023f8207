"""A rank's life as the ledger books it: from its process's start to its end, by what it told of its steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.ledger import causes
from trilens.ledger.allocation.doubts import CLOCK_JUMPED
from trilens.ledger.lives.found_stalls import with_found_stalls
from trilens.ledger.lives.lost_minutes import lost_minutes
from trilens.ledger.lives.minute_parts import minute_parts
from trilens.ledger.lives.pauses import loads_of, pauses_of
from trilens.ledger.lives.stalls import first_together, paces, patience
from trilens.ledger.lives.step_groups import lost_apart, step_groups, with_steps_in_progress
from trilens.ledger.lives.told_lives import told_lives
from trilens.ledger.lives.told_twice import told_once
from trilens.ledger.lives.waits import long_waits
from trilens.ledger.span import Part, Span
from trilens.model.ledger import Basis, Bucket

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.ledger.lives.lost_work import LostSteps
    from trilens.ledger.lives.step_groups import StepGroup
    from trilens.ledger.lives.told_lives import ToldLives
    from trilens.ledger.lives.waits import Wait
    from trilens.model.ledger_facts import Facts, LifeKey

_LONGEST_PAUSE_US: Final = 1_800_000_000  # a checkpoint or validation that lasts longer hangs, says the SDK
# A member of an enumeration is slow to name, and these are named for every rank.
_DATA_WAIT: Final = Bucket.DATA_WAIT
_SYNC_WAIT: Final = Bucket.SYNC_WAIT
_CHECKPOINT: Final = Bucket.CHECKPOINT
_PRODUCTIVE: Final = Bucket.PRODUCTIVE
_STEPS: Final = Basis.STEPS
_PAUSES: Final = {
    "checkpoint": (Bucket.CHECKPOINT, causes.SAVING),
    "validation": (Bucket.PRODUCTIVE, causes.VALIDATION),
}


def life_spans(facts: Facts, lost: Sequence[LostSteps], now_ms: int) -> dict[LifeKey, list[Span]]:
    """Of each life inside [facts.from_ms, facts.to_ms): from its process's start to its end, or to now,
    without holes and in order. A life that never told a step has none: coarser signals tell then."""
    told = told_lives(facts, now_ms)
    spans = with_found_stalls(_Lives(facts, told, lost).spans(), facts.stalls, told)
    return told_once(told, spans)


class _Lives:
    def __init__(self, facts: Facts, told: ToldLives, lost: Sequence[LostSteps]) -> None:
        self._told = told
        self._lost = lost
        self._loads = loads_of(facts)
        self._saving, self._pausing = pauses_of(facts, told.runs)
        self._pace = paces(told)
        self._waits = long_waits(told, patience(self._pace)[told.run], self._saving, self._pausing)
        self._has_stepped = told.last_end >= 0
        # After the last step: it goes on, or it has only to end.
        self._goes_on = self._has_stepped & ((told.after >= 0) | ~told.is_over) & ~self._waits.is_after
        self._from_us, self._to_us = told.from_us.tolist(), told.to_us.tolist()
        self._doubts = [(CLOCK_JUMPED,) if jumped else () for jumped in told.jumped.tolist()]
        self._begun_us = self._began_together()

    def _began_together(self) -> list[int]:
        started = self._told.started_us.tolist()
        return [started[leader] for leader in first_together(self._told.run.tolist(), started)]

    def spans(self) -> dict[LifeKey, list[Span]]:
        found: list[list[Span]] = [[] for _ in self._told.keys]
        self._add_starts(found)
        self._add_steps(found)
        self._add_ends(found)
        return dict(zip(self._told.keys, found, strict=True))

    def _add_starts(self, found: list[list[Span]]) -> None:
        """Until the first step of a life begins; until it ends, where that takes as long as a stall."""
        told, waits = self._told, self._waits
        tells = self._ranks_that_tell()
        for life in np.flatnonzero((told.before < 0) & (told.to_us > told.from_us)).tolist():
            key, row = told.keys[life], int(told.first_row[life])
            if row < told.end_row[life]:
                until = told.minutes.first_end_us[row] if waits.is_before[row] else told.begin_us[row]
            elif told.after[life] >= 0:
                until = told.after[life] if waits.is_after[life] else told.after_start[life]
            elif told.processes[life].step is None and (key.run, key.rank) in tells:
                until = told.to_us[life]
            else:
                continue
            self._add_start(found[life], life, min(max(int(until), self._from_us[life]), self._to_us[life]))

    def _ranks_that_tell(self) -> set[tuple[str, int]]:
        """Where another life of a rank told of steps, one without any has only not come so far."""
        return {(one.run, one.rank) for one in self._told.processes if one.step is not None}

    def _add_start(self, spans: list[Span], life: int, until_us: int) -> None:
        from_us, reading_us, at_us = self._from_us[life], 0, self._from_us[life]
        for begin_us, end_us in sorted(self._loads.get(self._told.keys[life], ())):
            begin_us, end_us = max(begin_us, at_us), min(end_us, until_us)
            reading_us += max(end_us - begin_us, 0)
            at_us = max(at_us, end_us)
        parts = (
            (Bucket.STARTING, causes.RESTORING, reading_us),
            (Bucket.STARTING, causes.LOADING, until_us - from_us - reading_us),
        )
        self._add(spans, life, from_us, until_us, parts, self._begun_us[life])

    def _add_steps(self, found: list[list[Span]]) -> None:
        told, waits = self._told, self._waits
        parts = minute_parts(told, waits.is_before, self._pace, self._saving)
        parts = with_steps_in_progress(told, parts, self._goes_on, self._saving, self._pausing)
        lost = lost_minutes(told.minutes, self._lost)
        edges = self._edges(np.flatnonzero((lost.steps > 0) & (lost.steps < told.minutes.steps)))
        for group in step_groups(told, parts, waits.is_before, lost):
            spans = found[group.life]
            wait = waits.before.get(group.row)
            if wait is not None and not wait.is_first:
                self._add_wait(spans, group.life, wait)
            self._add_group(spans, group, edges)

    def _edges(self, rows: NDArray[np.int64]) -> dict[int, tuple[int, int, int]]:
        """Of minutes that were lost in part: when their first and last steps ended, and pauses in between."""
        told = self._told
        first_us, last_us = told.minutes.first_end_us[rows], told.minutes.last_end_us[rows]
        paused = self._pausing.inside(told.row_run[rows], first_us, last_us)
        edges = zip(first_us.tolist(), last_us.tolist(), paused.tolist(), strict=True)
        return dict(zip(rows.tolist(), edges, strict=True))

    def _add_wait(self, spans: list[Span], life: int, wait: Wait) -> None:
        stalled_us = wait.to_us - wait.from_us - wait.saved_us - wait.validated_us
        parts = (
            (Bucket.CHECKPOINT, causes.SAVING, wait.saved_us),
            (Bucket.PRODUCTIVE, causes.VALIDATION, wait.validated_us),
            (Bucket.STALLED, causes.NO_STEP, stalled_us),
        )
        self._add(spans, life, wait.from_us, wait.to_us, parts, wait.since_us, wait.step)

    def _add_group(
        self, spans: list[Span], group: StepGroup, edges: Mapping[int, tuple[int, int, int]]
    ) -> None:
        if group.lost < 0:
            self._add_kept(spans, group)
        elif group.lost_steps >= group.steps:
            self._add_lost(spans, group)
        else:
            lost, kept = lost_apart(group, *edges[group.row])
            if group.lost_first:
                self._add_lost(spans, lost)
                self._add_kept(spans, kept)
            else:
                self._add_kept(spans, kept)
                self._add_lost(spans, lost)

    def _add_kept(self, spans: list[Span], group: StepGroup) -> None:
        _, _, from_ms, to_ms, data_ms, sync_ms, checkpoint_ms, *_ = group
        if from_ms >= to_ms:
            return
        parts = []
        if data_ms:
            parts.append(Part(_DATA_WAIT, causes.STEPS, data_ms))
        if sync_ms:
            parts.append(Part(_SYNC_WAIT, causes.STEPS, sync_ms))
        if checkpoint_ms:
            parts.append(Part(_CHECKPOINT, causes.SAVING, checkpoint_ms))
        productive_ms = to_ms - from_ms - data_ms - sync_ms - checkpoint_ms
        if productive_ms:
            parts.append(Part(_PRODUCTIVE, causes.STEPS, productive_ms))
        doubts = self._doubts[group.life]
        spans.append(Span(from_ms, to_ms, tuple(parts), _STEPS, None, None, doubts))

    def _add_lost(self, spans: list[Span], group: StepGroup) -> None:
        """With all that its steps waited for; checkpoints in between are still such."""
        if group.from_ms >= group.to_ms:
            return
        lost = self._lost[group.lost]
        parts = (
            Part(Bucket.CHECKPOINT, causes.SAVING, group.checkpoint_ms),
            Part(Bucket.RECOMPUTE, causes.LOST_WORK, group.to_ms - group.from_ms - group.checkpoint_ms),
        )
        spans.append(
            Span(
                group.from_ms,
                group.to_ms,
                _some(parts),
                Basis.STEPS,
                lost.since_ms,
                lost.first_step,
                self._doubts[group.life],
            )
        )

    def _add_ends(self, found: list[list[Span]]) -> None:
        """From the last step on that is known, where that is not divided as the minute before it."""
        told, waits = self._told, self._waits
        for life, wait in waits.after.items():
            if not wait.is_first:
                self._add_last_wait(found[life], life, wait)
        has_rows = told.end_row > told.first_row
        is_first = ~self._has_stepped & (told.after >= 0)
        begin = np.clip(np.where(is_first, told.after_start, told.last_end), told.from_us, told.to_us)
        is_finishing = self._has_stepped & ~self._goes_on
        rest = (
            (is_first | is_finishing | (self._goes_on & ~has_rows)) & ~waits.is_after & (begin < told.to_us)
        )
        lives = np.flatnonzero(rest)
        saved = self._saving.inside(told.run[lives], begin[lives], told.to_us[lives]).tolist()
        for life, from_us, saved_us in zip(lives.tolist(), begin[lives].tolist(), saved, strict=True):
            to_us = self._to_us[life]
            cause = causes.FINISHING if is_finishing[life] else causes.STEPS
            parts = (
                (Bucket.CHECKPOINT, causes.SAVING, saved_us),
                (Bucket.PRODUCTIVE, cause, to_us - from_us - saved_us),
            )
            self._add(found[life], life, from_us, to_us, parts)

    def _add_last_wait(self, spans: list[Span], life: int, wait: Wait) -> None:
        """A checkpoint or a validation is told of when it is over: until then the program says that it is in
        the middle of one."""
        told = self._told
        pause = _PAUSES.get(told.processes[life].phase or "")
        is_open = told.after[life] < 0 and not told.is_over[life]
        if pause is None or not is_open or told.end_us[life] - told.last_end[life] > _LONGEST_PAUSE_US:
            self._add_wait(spans, life, wait)
            return
        parts = ((*pause, wait.to_us - wait.from_us),)
        self._add(spans, life, wait.from_us, wait.to_us, parts)

    def _add(
        self,
        spans: list[Span],
        life: int,
        from_us: int,
        to_us: int,
        amounts: Sequence[tuple[Bucket, str, int]],
        since_us: int | None = None,
        step: int | None = None,
    ) -> None:
        """Ends are rounded down to milliseconds: what follows begins where this ends."""
        if from_us // 1000 >= to_us // 1000:
            return
        parts, at_us = [], from_us
        for bucket, cause, us in amounts:
            parts.append(Part(bucket, cause, (at_us + us) // 1000 - at_us // 1000))
            at_us += us
        since_ms = None if since_us is None else since_us // 1000
        spans.append(
            Span(
                from_us // 1000,
                to_us // 1000,
                _some(parts),
                Basis.STEPS,
                since_ms,
                step,
                self._doubts[life],
            )
        )


def _some(parts: Iterable[Part]) -> tuple[Part, ...]:
    return tuple([part for part in parts if part.ms])
