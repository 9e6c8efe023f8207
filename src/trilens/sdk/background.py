"""The thread that makes records and metrics of what the program's thread noted, about once a second.

Python runs one thread at a time: whatever this one does in one go, the program may have to wait for. So it
works in small slices, and lets the program in between.
"""

from __future__ import annotations

import threading
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilens.sdk.sections import artifact_fields, batches_section, steps_section
from trilens.sdk.values import why_no_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.sdk.recorder import Recorder
    from trilens.sdk.step_note import StepNote
    from trilens.sdk.training_metrics import TrainingMetrics

SLICE: Final = 128  # steps in a batch: about a millisecond of work
SLICE_IDS: Final = 16_384  # of samples in a batch, for the same reason
MOST_VALUE_NAMES: Final = 1_000  # in the records of one process: each is a column
_TICK_NS: Final = 500_000_000  # the thread is woken more often when there are many steps
_PATIENCE_S: Final = 2.0  # of a program that ends


class Outbox(Protocol):
    """Where batches of records go. sdk/outbox satisfies it."""

    def put(self, sections: dict[str, Any]) -> None: ...

    def close(self, timeout_s: float) -> None: ...


class Background:
    def __init__(self, recorder: Recorder, metrics: TrainingMetrics, outbox: Outbox | None) -> None:
        self._recorder = recorder
        self._metrics = metrics
        self._outbox = outbox
        self._facts: dict[str, Any] | None = None  # to be told
        self._told: dict[str, Any] | None = None  # the same, kept for what is added to them
        self._facts_lock = threading.RLock()  # a handler of the program's for a signal may run inside it
        self._next_n = 0
        self._aborted: set[int] = set()  # steps from then on that an exception ended: they are not missing
        self._counts: dict[str, int] = {}
        self._value_names: set[str] = set()
        self._ticked_ns = 0
        self._turn_lock = threading.Lock()
        self._stopping = False
        self._thread = threading.Thread(target=self._loop, name="trilens-sdk", daemon=True)

    def start(self, facts: dict[str, Any] | None) -> None:
        """`facts` are those of the run, from the rank that tells them."""
        self._told = None if facts is None else dict(facts)
        self._facts = facts
        self._thread.start()

    def add_facts(self, more: dict[str, Any]) -> None:
        """They changed: the server takes the last. Mappings are added to, None changes nothing."""
        if self._told is None:
            return
        with self._facts_lock:
            for name, value in more.items():
                if isinstance(value, dict):
                    self._told[name] = {**self._told[name], **value}
                elif value is not None:
                    self._told[name] = value
            self._facts = dict(self._told)

    def stop(self, end: dict[str, Any]) -> None:
        """Everything that is left goes out, and how it ended with it."""
        self._stopping = True
        self._recorder.wake.set()
        self._thread.join(timeout=_PATIENCE_S)
        if not self._turn_lock.acquire(timeout=_PATIENCE_S):
            # It looks at a checkpoint on a file system that does not answer, say. The program must end.
            self._recorder.guard.lost("end", why="the background thread hangs")
            return
        try:
            self._turn(end)
        finally:
            self._turn_lock.release()

    def _loop(self) -> None:
        wake = self._recorder.wake
        while not self._stopping:
            wake.wait(self._recorder.options.interval_s)
            wake.clear()
            with self._turn_lock:
                self._recorder.guard.run("records", self._turn)

    def _turn(self, end: dict[str, Any] | None = None) -> None:
        if end is not None or monotonic_ns() - self._ticked_ns > _TICK_NS:
            self._ticked_ns = monotonic_ns()
            self._recorder.tick()
        more = True
        while more:
            steps = self._recorder.take_steps(SLICE, all_of_them=end is not None)
            more = len(steps) == SLICE
            for part in _parts(steps):
                self._tell(part)
        if end is not None:
            self._tell((), end)

    def _tell(self, steps: Sequence[StepNote], end: dict[str, Any] | None = None) -> None:
        guard = self._recorder.guard
        sections = guard.run("records", self._sections, steps)
        if sections is None:
            sections = {}
            guard.lost("step", len(steps), why="they could not be made into records")
        if end is not None:
            sections["end"] = end
        if sections and self._outbox is not None:
            guard.run("records", self._outbox.put, sections)

    def _sections(self, steps: Sequence[StepNote]) -> dict[str, Any]:
        recorder = self._recorder
        sections: dict[str, Any] = {}
        with self._facts_lock:
            facts, self._facts = self._facts, None
        if facts is not None:
            sections["facts"] = facts
        told = [(note[0], note[1], note[10]) for note in steps if note[10]]
        while recorder.aborted:
            aborted = recorder.aborted.popleft()
            self._aborted.add(aborted[0])
            told.append(aborted)
        if steps:
            self._count_missing(steps)
            self._bound_names(steps)
            self._metrics.add_steps(steps)
            sections["steps"] = steps_section(steps, time_ns() - monotonic_ns())
        if told:
            sections["batches"] = batches_section(told, recorder.guard)
        for section, records in recorder.take_records().items():
            if section == "artifacts":
                records = [artifact_fields(fields) for fields in records]
            sections[section] = [{"n": self._number(section), **fields} for fields in records]
        return sections

    def _count_missing(self, steps: Sequence[StepNote]) -> None:
        """The queue drops its oldest when it is full: seen here by the gaps in the count."""
        next_n = steps[-1][0] + 1
        aborted = sum(n < next_n for n in self._aborted)
        missing = next_n - self._next_n - len(steps) - aborted
        self._next_n = next_n
        self._aborted = {n for n in self._aborted if n >= next_n}
        if missing > 0:
            self._recorder.guard.lost("step", missing, why="more steps a second than can be kept")

    def _bound_names(self, steps: Sequence[StepNote]) -> None:
        """A program that makes up names (one for each step, say) must not fill memory with columns."""
        known = self._value_names
        for note in steps:
            values = note[5]
            if values.keys() <= known:
                continue
            for name in values.keys() - known:
                why = why_no_name(name)
                if why is None and len(known) >= MOST_VALUE_NAMES:
                    why = f"more than {MOST_VALUE_NAMES} names of values"
                if why is None:
                    known.add(name)
                    continue
                del values[name]
                self._recorder.guard.lost("value", why=why)

    def _number(self, section: str) -> int:
        n = self._counts.get(section, 0)
        self._counts[section] = n + 1
        return n


def _parts(steps: Sequence[StepNote]) -> Iterator[Sequence[StepNote]]:
    """Each with as many samples as one batch may tell, and at least one step. One part when there is none:
    something else may be to be told."""
    start = ids = 0
    for i, note in enumerate(steps):
        own = sum(batch.size or 0 for batch in note[10] or ())
        if i > start and ids + own > SLICE_IDS:
            yield steps[start:i]
            start, ids = i, 0
        ids += own
    yield steps[start:]
