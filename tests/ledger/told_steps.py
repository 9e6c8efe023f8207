"""Lives of ranks told step by step, and the facts and the naive booking that follow from them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_facts import (
    Facts,
    LastStep,
    LifeKey,
    RunHistory,
    StepMinutes,
)
from trilens.model.run import (
    CheckpointRecord,
    Ending,
    RankProcess,
    RunId,
    StepRecord,
    ValidationRecord,
    WriterId,
)
from trilens.model.run_sums import AttemptSpan
from trilens.model.step_phases import CHECKPOINT_PHASES, DATA_PHASES, SYNC_PHASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.ledger.span import Span

RUN = RunId("pretrain")
HOUR = 1_768_392_000_000  # a full hour
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


@dataclass
class Told:
    """A life, told as it goes on: each call lets time pass. `begins_s` is from the beginning of the hour."""

    begins_s: float = 0.0
    rank: int = 0
    attempt: int = 0
    run: RunId = RUN
    step: int = 0
    world_size: int = 1
    steps: list[StepRecord] = field(default_factory=list)
    checkpoints: list[CheckpointRecord] = field(default_factory=list)
    validations: list[ValidationRecord] = field(default_factory=list)
    ending: Ending | None = None
    ended_us: int | None = None
    phase: str | None = None
    untold: int = 0  # steps that its heartbeat is ahead of its records

    def __post_init__(self) -> None:
        self.at_us = HOUR * 1000 + round(self.begins_s * SECOND_US)
        self.started_us = self.at_us

    @property
    def key(self) -> LifeKey:
        return LifeKey(self.run, self.rank, self.attempt)

    def passes(self, seconds: float) -> Told:
        self.at_us += round(seconds * SECOND_US)
        return self

    def does(
        self,
        steps: int,
        seconds: float = 1.0,
        *,
        between: float = 0.0,
        phases: Mapping[str, float] | None = None,
        device: Mapping[str, float] | None = None,
        tokens: int | None = None,
    ) -> Told:
        for _ in range(steps):
            self.passes(between)
            took_us = round(seconds * SECOND_US)
            self.steps.append(
                StepRecord(
                    self.run,
                    self.step,
                    self.rank,
                    self.attempt,
                    len(self.steps),
                    self.at_us,
                    took_us,
                    {name: round(s * SECOND_US) for name, s in (phases or {}).items()},
                    {name: round(s * SECOND_US) for name, s in (device or {}).items()},
                    tokens=tokens,
                )
            )
            self.step += 1
            self.at_us += took_us
        return self

    def saves(
        self, seconds: float | None, *, waits: bool = True, ok: bool = True, loaded: bool = False
    ) -> Told:
        duration_us = None if seconds is None else round(seconds * SECOND_US)
        self.checkpoints.append(
            CheckpointRecord(
                self.run,
                self.step - 1,
                self.rank,
                self.attempt,
                len(self.checkpoints),
                f"ckpt/{self.step - 1}",
                self.at_us // 1000,
                loaded=loaded,
                duration_us=duration_us,
                ok=ok,
            )
        )
        return self.passes(seconds or 0) if waits else self

    def loads(self, step: int, seconds: float | None = None) -> Told:
        self.step = step + 1
        return self.saves(seconds, loaded=True)

    def validates(self, seconds: float) -> Told:
        duration_us = round(seconds * SECOND_US)
        self.validations.append(
            ValidationRecord(
                self.run,
                self.step - 1,
                self.rank,
                self.attempt,
                len(self.validations),
                self.at_us // 1000,
                duration_us,
            )
        )
        return self.passes(seconds)

    def ends(self, ending: Ending = Ending.FINISHED) -> Told:
        self.ending, self.ended_us = ending, self.at_us
        return self

    def at_s(self, seconds: float) -> Told:
        """Nothing until then, from the beginning of the hour."""
        self.at_us = HOUR * 1000 + round(seconds * SECOND_US)
        return self

    @property
    def process(self) -> RankProcess:
        return RankProcess(
            self.run,
            self.rank,
            WriterId(f"{self.run}-{self.rank}-{self.attempt}"),
            self.started_us // 1000,
            self.attempt,
            world_size=self.world_size,
            heard_ms=self.at_us // 1000,
            step=self.steps[-1].step + self.untold if self.steps else None,
            phase=self.phase,
            ended_ms=None if self.ended_us is None else self.ended_us // 1000,
            ending=self.ending,
        )


def facts_of(*lives: Told, from_ms: int = HOUR, to_ms: int = HOUR + HOUR_MS) -> Facts:
    """As the store would tell them of one hour."""
    return Facts(
        from_ms,
        to_ms,
        lives=[
            one.process
            for one in lives
            if one.started_us < to_ms * 1000 and (one.ended_us is None or one.ended_us > from_ms * 1000)
        ],
        minutes=minutes_of([step for one in lives for step in one.steps], from_ms, to_ms),
        earlier={one.key: before for one in lives if (before := _nearest(one.steps, to_us=from_ms * 1000))},
        later={one.key: after for one in lives if (after := _nearest(one.steps, from_us=to_ms * 1000))},
        checkpoints=[
            each
            for one in lives
            for each in one.checkpoints
            if each.start_ms < to_ms and each.start_ms + (each.duration_us or 0) // 1000 >= from_ms
        ],
        validations=[
            each
            for one in lives
            for each in one.validations
            if each.t_ms < to_ms and each.t_ms + (each.duration_us or 0) // 1000 >= from_ms
        ],
    )


def history_of(*lives: Told) -> RunHistory:
    return RunHistory(
        [one.process for one in lives],
        [span for one in lives for span in _ways(one.steps)],
        sorted((each for one in lives for each in one.checkpoints), key=lambda each: each.start_ms),
    )


def minutes_of(steps: Iterable[StepRecord], from_ms: int = 0, to_ms: int = 1 << 60) -> StepMinutes:
    runs = sorted({one.run for one in steps})
    by_minute: defaultdict[tuple[int, int, int, int], list[StepRecord]] = defaultdict(list)
    for one in steps:
        if from_ms * 1000 <= end_us(one) < to_ms * 1000:
            by_minute[runs.index(one.run), one.rank, one.attempt, end_us(one) // MINUTE_US].append(one)
    rows = [(*key, *_sums(sorted(by_minute[key], key=end_us))) for key in sorted(by_minute)]
    columns = np.array(rows, np.int64).reshape(-1, 18).T
    narrow = [column.astype(np.int32) for column in columns[:3]]
    return StepMinutes(tuple(runs), *narrow, *columns[3:])


def end_us(step: StepRecord) -> int:
    return step.start_us + step.duration_us


def _sums(steps: Sequence[StepRecord]) -> tuple[int, ...]:
    def phases(names: Iterable[str]) -> int:
        return sum(one.phases.get(name, 0) for one in steps for name in names)

    return (
        len(steps),
        steps[0].step,
        steps[-1].step,
        steps[0].start_us,
        end_us(steps[0]),
        end_us(steps[-1]),
        sum(one.duration_us for one in steps),
        phases(DATA_PHASES),
        phases(SYNC_PHASES),
        phases(CHECKPOINT_PHASES),
        sum(us for one in steps for name, us in one.device_phases.items() if name not in DATA_PHASES),
        sum(one.device_phases.get(name, 0) for one in steps for name in SYNC_PHASES),
        sum(one.tokens or 0 for one in steps),
        sum(one.samples or 0 for one in steps),
    )


def _nearest(steps: Sequence[StepRecord], *, from_us: int = -1, to_us: int = -1) -> LastStep | None:
    """The first that ended at or after `from_us`, or the last before `to_us`."""
    near = [one for one in steps if (end_us(one) >= from_us if from_us >= 0 else end_us(one) < to_us)]
    if not near:
        return None
    step = near[0] if from_us >= 0 else near[-1]
    same = [end_us(one) for one in near if end_us(one) // MINUTE_US == end_us(step) // MINUTE_US]
    pace_us = (same[-1] - same[0]) // (len(same) - 1) if len(same) > 1 else None
    return LastStep(step.step, step.start_us, end_us(step), pace_us)


def _ways(steps: Sequence[StepRecord]) -> list[AttemptSpan]:
    ways: list[list[StepRecord]] = []
    for one in steps:
        if not ways or one.step <= ways[-1][-1].step:
            ways.append([])
        ways[-1].append(one)
    return [
        AttemptSpan(
            way[0].rank,
            way[0].attempt,
            way[0].step,
            way[-1].step,
            len(way),
            None,
            None,
            way[0].start_us,
            end_us(way[-1]),
            way[0].n,
            way[-1].n,
        )
        for way in ways
    ]


def booked_s(spans: Iterable[Span]) -> dict[str, float]:
    """Seconds by bucket."""
    found: defaultdict[str, int] = defaultdict(int)
    for span in spans:
        for part in span.parts:
            found[part.bucket.value] += part.ms
    return {bucket: ms / 1000 for bucket, ms in sorted(found.items())}


def is_whole(spans: Sequence[Span], from_ms: int, to_ms: int) -> bool:
    """Without a hole, in order, and each as long as its parts together."""
    edges = [from_ms, *(span.to_ms for span in spans)]
    return (
        edges[-1] == to_ms
        and [span.from_ms for span in spans] == edges[:-1]
        and all(sum(part.ms for part in span.parts) == span.to_ms - span.from_ms for span in spans)
        and all(part.ms > 0 for span in spans for part in span.parts)
    )
