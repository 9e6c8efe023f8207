"""The thread that makes records and metrics of what the program's thread noted, about once a second.

Python runs one thread at a time: whatever this one does in one go, the program may have to wait for. So it
works in small slices, and lets the program in between.
"""

from __future__ import annotations

import threading
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

from trilens.sdk.sections import artifact_fields, batches_section, steps_section

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.sdk.recorder import Recorder, StepNote
    from trilens.sdk.training_metrics import TrainingMetrics

SLICE: Final = 128  # steps in a batch: about a millisecond of work
MOST_VALUE_NAMES: Final = 2_000  # in the records of one process: each is a column
_TICK_NS: Final = 500_000_000  # the thread is woken more often when there are many steps


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
        self._next_n = 0
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
        self._thread.join(timeout=2.0)
        self._turn(end)

    def _loop(self) -> None:
        wake = self._recorder.wake
        while not self._stopping:
            wake.wait(self._recorder.options.interval_s)
            wake.clear()
            self._recorder.guard.run("records", self._turn)

    def _turn(self, end: dict[str, Any] | None = None) -> None:
        with self._turn_lock:
            if end is not None or monotonic_ns() - self._ticked_ns > _TICK_NS:
                self._ticked_ns = monotonic_ns()
                self._recorder.tick()
            more = True
            while more:
                steps = self._recorder.take_steps(SLICE, all_of_them=end is not None)
                more = len(steps) == SLICE
                sections = self._recorder.guard.run("records", self._sections, steps)
                if sections is None:
                    sections = {}
                    self._recorder.guard.lost("step", len(steps), why="they could not be made into records")
                if end is not None and not more:
                    sections["end"] = end
                if sections and self._outbox is not None:
                    self._recorder.guard.run("records", self._outbox.put, sections)

    def _sections(self, steps: Sequence[StepNote]) -> dict[str, Any]:
        recorder = self._recorder
        sections: dict[str, Any] = {}
        if self._facts is not None:
            sections["facts"], self._facts = self._facts, None
        told = [(note[0], note[1], note[10]) for note in steps if note[10]]
        while recorder.aborted:
            told.append(recorder.aborted.popleft())
        if steps:
            self._count_missing(steps)
            self._metrics.add_steps(steps)
            self._bound_names(steps)
            sections["steps"] = steps_section(steps, time_ns() - monotonic_ns())
        if told:
            sections["batches"] = batches_section(told, recorder.guard)
        for section, records in recorder.take_records().items():
            if section == "artifacts":
                records = [artifact_fields(fields) for fields in records]
            sections[section] = [{"n": self._number(section), **fields} for fields in records]
        return sections

    def _count_missing(self, steps: Sequence[StepNote]) -> None:
        """The queue drops its oldest when it is full: seen here by the gap in the count."""
        aborted = {n for n, _, _ in self._recorder.aborted}
        first = steps[0][0]
        missing = first - self._next_n - sum(1 for n in aborted if self._next_n <= n < first)
        self._next_n = steps[-1][0] + 1
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
                if len(known) < MOST_VALUE_NAMES:
                    known.add(name)
                else:
                    del values[name]
                    self._recorder.guard.lost("value", why=f"more than {MOST_VALUE_NAMES} names of values")

    def _number(self, section: str) -> int:
        n = self._counts.get(section, 0)
        self._counts[section] = n + 1
        return n
