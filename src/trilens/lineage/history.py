"""One run as the chain of stretches that leads to each of its checkpoints."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from trilens.lineage.origins import Origin, loaded_from, origin
from trilens.lineage.stretches import stretches
from trilens.lineage.ways import cut_at_loads
from trilens.model.run_sums import Portion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.lineage.source import RunSource
    from trilens.lineage.stretches import Stretch
    from trilens.model.query import QueryGuard
    from trilens.model.run import CheckpointRecord, RankProcess, RunId
    from trilens.model.run_sums import AttemptSpan

_MOST_RUNS = 16  # in a chain of runs that each began with a checkpoint of the one before


class Part(NamedTuple):
    """Steps of one stretch of one run, both ends included."""

    run: RunId
    stretch: int
    first_step: int
    last_step: int


class History:
    """Reads what it needs of a run when it is needed. Not thread-safe: for one question."""

    def __init__(
        self, source: RunSource, run: RunId, guard: QueryGuard | None = None, *, depth: int = 0
    ) -> None:
        self.run = run
        self.source = source
        self.guard = guard
        self._depth = depth
        self._others: dict[RunId, History] = {}
        self._parts: dict[int, tuple[Part, ...]] = {}
        self._inside: dict[tuple[int, int, int], tuple[Part, ...]] = {}
        self._reaches: dict[tuple[int, int, int], tuple[int, tuple[Part, ...]]] = {}
        self._last_steps: dict[tuple[int, int, int], int] = {}

    @cached_property
    def processes(self) -> list[RankProcess]:
        return self.source.processes([self.run], guard=self.guard)

    @cached_property
    def checkpoints(self) -> list[CheckpointRecord]:
        """Written and loaded."""
        return self.source.checkpoints(self.run, guard=self.guard)

    @cached_property
    def written(self) -> list[CheckpointRecord]:
        return [one for one in self.checkpoints if not one.loaded]

    @cached_property
    def stretches(self) -> list[Stretch]:
        spans = self.source.spans(self.run, guard=self.guard)
        cut = cut_at_loads(self.source, self.run, spans, self._loads_of, self.guard)
        return stretches(cut, self.processes, self._loads)

    @cached_property
    def _loads(self) -> list[CheckpointRecord]:
        return [one for one in self.checkpoints if one.loaded and one.ok]

    @cached_property
    def _loads_of(self) -> dict[tuple[int, int], list[CheckpointRecord]]:
        """By rank and attempt."""
        found: defaultdict[tuple[int, int], list[CheckpointRecord]] = defaultdict(list)
        for load in self._loads:
            found[load.rank, load.attempt].append(load)
        return dict(found)

    @cached_property
    def origins(self) -> list[Origin]:
        return [
            origin(
                stretch,
                self.stretches[: stretch.index],
                [one for one in self.written if self.stretch_of(one) < stretch.index],
                self._elsewhere,
            )
            for stretch in self.stretches
        ]

    def _elsewhere(self, path: str) -> list[CheckpointRecord]:
        """What other runs wrote there."""
        return [one for one in self.source.written_at(path, guard=self.guard) if one.run != self.run]

    def of_run(self, run: RunId) -> History:
        """This one, or another that a stretch began from."""
        if run == self.run:
            return self
        if run not in self._others:
            self._others[run] = History(self.source, run, self.guard, depth=self._depth + 1)
        return self._others[run]

    @cached_property
    def _begun(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """When each life of a rank began which stretches."""
        found: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for stretch in self.stretches:
            for span in stretch.spans:
                found[span.rank, span.attempt].append((span.start_us, stretch.index))
        return {life: sorted(begun) for life, begun in found.items()}

    def stretch_of(self, one: CheckpointRecord) -> int:
        """In which its rank was when it wrote it, or came to next; -1 where no step is known."""
        # A process that writes for others may do no steps itself: then the time alone tells.
        anyone = [(stretch.start_us, stretch.index) for stretch in self.stretches]
        begun = self._begun.get((one.rank, one.attempt), anyone)
        at_us = one.start_ms * 1000 + 999
        earlier = [index for start_us, index in begun if start_us <= at_us]
        return (earlier[-1:] or [index for _, index in begun[:1]] or [-1])[0]

    def last_step_in(self, one: CheckpointRecord) -> int:
        """A checkpoint contains the step that it is named after, unless that began when it was being written:
        some count the steps done, and so name it after the one to come."""
        key = (one.rank, one.attempt, one.n)
        if key not in self._last_steps:
            self._last_steps[key] = one.step - 1 if self._is_of_steps_done(one) else one.step
        return self._last_steps[key]

    def _is_of_steps_done(self, one: CheckpointRecord) -> bool:
        index = self.stretch_of(one)
        began = [
            step.start_us
            for step in self.source.steps(self.run, one.step, one.step, rank=one.rank, guard=self.guard)
            if self.where(step.rank, step.attempt, step.n) == index
        ]
        return bool(began) and min(began) > one.start_ms * 1000 + 999

    def inside(self, one: CheckpointRecord) -> tuple[Part, ...]:
        """All steps that lead to a checkpoint of this run, the earliest first."""
        key = (one.rank, one.attempt, one.n)
        if key not in self._inside:
            self._inside[key] = ()  # what is said to come from itself comes from nowhere
            self._inside[key] = self._leading_to(one)
        return self._inside[key]

    def _leading_to(self, one: CheckpointRecord) -> tuple[Part, ...]:
        if (loaded := self.written_again(one)) is not None:
            source = loaded.written
            return self.of_run(source.run).inside(source) if source is not None else ()
        index = self.stretch_of(one)
        return self.until(index, self.last_step_in(one)) if index >= 0 else ()

    def written_again(self, one: CheckpointRecord) -> Origin | None:
        """Where it came from, if it was loaded after the last step and is what was loaded."""
        if (load := self._loaded_just_before(one)) is None:
            return None
        written = [other for other in self.written if other.start_ms <= load.start_ms]
        return loaded_from(load, written, self._elsewhere)

    def _loaded_just_before(self, one: CheckpointRecord) -> CheckpointRecord | None:
        """The best checkpoint is often loaded after the last step, and written again as the result."""
        loads = [load for load in self._loads_of.get((one.rank, one.attempt), []) if load.n < one.n]
        if not loads:
            return None
        begun = self._begun.get((one.rank, one.attempt), [])
        since_us, until_us = loads[-1].start_ms * 1000, one.start_ms * 1000 + 999
        return None if any(since_us <= start_us <= until_us for start_us, _ in begun) else loads[-1]

    def over_before(self, one: CheckpointRecord) -> int:
        """How many stretches were over when it was written: its own too, where what it holds was loaded
        after that."""
        index = self.stretch_of(one)
        if index < 0 or self._loaded_just_before(one) is None:
            return max(0, index)
        return index + (self.stretches[index].start_us <= one.start_ms * 1000)

    def now(self) -> tuple[Part, ...]:
        """All steps that lead to how the run stands."""
        if not self.stretches:
            return ()
        return self.until(len(self.stretches) - 1, self.stretches[-1].last_step)

    def until(self, index: int, step: int) -> tuple[Part, ...]:
        stretch = self.stretches[index]
        before = self.before(index)
        if step < stretch.first_step:
            return before  # a checkpoint may be written before the first step: it holds what was loaded
        return (*before, Part(self.run, index, stretch.first_step, min(step, stretch.last_step)))

    def before(self, index: int) -> tuple[Part, ...]:
        """What a stretch began with."""
        if index not in self._parts:
            self._parts[index] = self._before(index)
        return self._parts[index]

    def _before(self, index: int) -> tuple[Part, ...]:
        began = self.origins[index]
        if began.written is not None:
            if began.written.run != self.run and self._depth >= _MOST_RUNS:
                return ()
            return self.of_run(began.written.run).inside(began.written)
        if began.step is None or index == 0 or began.step < self.stretches[0].first_step:
            return ()
        # Where steps done are counted, a checkpoint is named after the step that comes next.
        step = began.step - (began.step == self.stretches[index].first_step)
        parent = self._reaching(index, step)
        return _clipped(self.until(parent, self.stretches[parent].last_step), self.run, step)

    def _reaching(self, index: int, step: int) -> int:
        """The latest stretch before that came as far as this step, or else the one that came farthest."""
        reached = [one.index for one in self.stretches[:index] if one.last_step >= step]
        if reached:
            return reached[-1]
        return max(self.stretches[:index], key=lambda one: (one.last_step, one.index)).index

    def thrown_away(self, kept: Sequence[Part], before: int) -> list[Part]:
        """What stretches earlier than `before` did that is not in `kept`."""
        return [
            Part(self.run, stretch.index, first, last)
            for stretch in self.stretches[:before]
            for first, last in _without(
                (stretch.first_step, stretch.last_step),
                [
                    (part.first_step, part.last_step)
                    for part in kept
                    if (part.run, part.stretch) == (self.run, stretch.index)
                ],
            )
        ]

    @cached_property
    def _seats(self) -> dict[tuple[int, int], list[tuple[int, int]]]:
        """For each life of a rank, the last steps of its ways forward and their stretches."""
        found: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for stretch in self.stretches:
            for span in stretch.spans:
                found[span.rank, span.attempt].append((span.last_n, stretch.index))
        return {life: sorted(seats) for life, seats in found.items()}

    def where(self, rank: int, attempt: int, n: int) -> int | None:
        """The stretch that a step belongs to; None for one that came after the spans were read."""
        seats = self._seats.get((rank, attempt), [])
        return next((index for last_n, index in seats if n <= last_n), None)

    def contains(self, one: CheckpointRecord, stretch: int, step: int) -> bool:
        """Whether a step of a stretch of this run is in a checkpoint: `inside`, for many questions."""
        key = (one.rank, one.attempt, one.n)
        if key not in self._reaches:
            self._reaches[key] = self._reach(one)
        own, before = self._reaches[key]
        if own == stretch:
            return step < one.step or (step == one.step and step <= self.last_step_in(one))
        return holds(before, self.run, stretch, step)

    def _reach(self, one: CheckpointRecord) -> tuple[int, tuple[Part, ...]]:
        """The stretch of which it contains the steps up to its own, if any, and what else it contains."""
        if self._loaded_just_before(one) is not None:
            return -1, self.inside(one)
        index = self.stretch_of(one)
        return index, self.before(index) if index >= 0 else ()

    def portions(self, part: Part) -> list[Portion]:
        """The same steps as the source can be asked for them."""
        stretch = self.stretches[part.stretch]
        attempts = stretch.attempts
        spans_of_attempt = sum(span.attempt == attempts[0] for one in self.stretches for span in one.spans)
        if len(attempts) == 1 and spans_of_attempt == len(stretch.spans):
            return [Portion(attempts[0], part.first_step, part.last_step)]
        return [*_of_spans(stretch.spans, part)]


def holds(parts: Iterable[Part], run: RunId, stretch: int, step: int) -> bool:
    return any(
        (part.run, part.stretch) == (run, stretch) and part.first_step <= step <= part.last_step
        for part in parts
    )


def _of_spans(spans: Iterable[AttemptSpan], part: Part) -> Iterable[Portion]:
    for span in spans:
        first, last = max(span.first_step, part.first_step), min(span.last_step, part.last_step)
        if first <= last:
            yield Portion(span.attempt, first, last, span.rank, span.first_n, span.last_n)


def _clipped(parts: Iterable[Part], run: RunId, step: int) -> tuple[Part, ...]:
    """Without this run's steps after that one; those of a run before it have numbers of their own."""
    return tuple(
        part if part.run != run else part._replace(last_step=min(part.last_step, step))
        for part in parts
        if part.run != run or part.first_step <= step
    )


def _without(whole: tuple[int, int], taken: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    first, last = whole
    for start, end in sorted(taken):
        if start > first:
            yield first, start - 1
        first = max(first, end + 1)
    if first <= last:
        yield first, last
