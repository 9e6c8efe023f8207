"""What every part of the SDK tells things to: the steps of one run in one process, and what belongs to them.

The program's thread only takes notes here: a clock, a few dictionaries, one append a step. Everything that
costs more (ranges, digests, columns, JSON, metrics) is done by the background thread, which takes the
finished steps away about once a second. Nothing in here raises into the program.

A step's time runs from the wait for its data, when that was told before `begin_step`, to `end_step`. The time
of a phase is its own: an inner phase is taken out of the one around it, so that the phases of a step add up
to no more than the step.
"""

from __future__ import annotations

import threading
from collections import deque
from time import monotonic_ns, sleep, time_ns
from typing import TYPE_CHECKING, Final

from trilens.sdk.guard import describe
from trilens.sdk.metrics import Metrics
from trilens.sdk.step_note import Discarding
from trilens.sdk.values import as_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.sdk.guard import Guard
    from trilens.sdk.identity import Identity
    from trilens.sdk.options import Options
    from trilens.sdk.step_note import Batch, DeviceClock, Later, StepNote

KEPT_STEPS: Final = 4_096  # until the background thread has taken them; more are lost, and counted
WAKE_STEPS: Final = 1_023  # so many steps (a power of two less one) do not wait for its next look
MOST_STEPS: Final = 2**53  # what JSON tells exactly
WAITING_STEPS: Final = 64  # finished, but the device has not computed all that belongs to them
KEPT_NOTES: Final = 256
MAX_ARTIFACT_BYTES: Final = 1024 * 1024
_STALLED_NS: Final = 10_000_000_000
LONGEST_ACTIVITY_NS: Final = 1_800_000_000_000  # a checkpoint or validation that lasts longer hangs
_NUMBERS: Final = frozenset({float})
_NONE_LATER: Final[list[Later]] = []


class Recorder:
    """`note`, `artifact`, `gauge`, `count`, `record`, `on_tick` and `at_finish` may be called by any thread,
    the rest by the one thread that trains."""

    __slots__ = (
        "__weakref__",
        "_activities",
        "_asides",
        "_asks",
        "_batches",
        "_device_phases",
        "_early_ns",
        "_epoch",
        "_finish_calls",
        "_laters",
        "_lock",
        "_mark_ns",
        "_n",
        "_next",
        "_outer",
        "_phases",
        "_records",
        "_samples",
        "_start_ns",
        "_ticks",
        "_tokens",
        "_values",
        "_waiting",
        "aborted",
        "activity",
        "clock_offset_us",
        "device_clock",
        "done",
        "failed_in",
        "flops_per_step",
        "flops_per_token",
        "gpus",
        "guard",
        "identity",
        "in_step",
        "last_step_ended_ns",
        "metrics",
        "options",
        "peak_flops_per_second",
        "phase",
        "run_id",
        "silent",
        "step",
        "steps_done",
        "wake",
    )

    # Of the step in progress, or of the next.
    _phases: dict[str, int]  # ns
    _values: dict[str, float]
    _device_phases: dict[str, int]  # us
    _samples: int | None
    _tokens: int | None
    _epoch: int | None
    _batches: list[Batch] | None
    _laters: list[Later] | None
    _early_ns: int | None  # when the first phase before the step began

    def __init__(self, run_id: str, identity: Identity, options: Options, guard: Guard) -> None:
        self.run_id = run_id
        self.identity = identity
        self.options = options
        self.guard = guard
        self.metrics = Metrics(guard)
        self.done: deque[StepNote] | Discarding = deque(maxlen=KEPT_STEPS)
        self.aborted: deque[tuple[int, int, list[Batch]]] = deque(maxlen=KEPT_NOTES)
        self.step: int | None = None  # in progress, or the last one
        self.phase: str | None = None
        self.in_step = False
        # The exception that left a phase (no reference: it would keep its frames alive), and that phase.
        self.failed_in: tuple[int, str, str] | None = None
        self.wake = threading.Event()  # tells the background thread that there is much to take
        self.steps_done = 0
        self.last_step_ended_ns: int | None = None  # of the monotonic clock
        self.silent = False  # in a forked child, and after the end
        self.activity: str | None = None  # what goes on between steps: checkpoint, validation
        # What other parts of the SDK find out, for heartbeats and metrics. None is "unknown".
        self.gpus: tuple[str, ...] = ()  # UUIDs of those this process uses
        self.clock_offset_us: int | None = None  # to rank 0's
        self.flops_per_step: float | None = None  # of this rank
        self.flops_per_token: float | None = None
        self.peak_flops_per_second: float | None = None  # of the GPUs of this rank together
        self.device_clock: DeviceClock | None = None
        self._n = 0
        self._next = 0
        # For what is rare; a step takes it only when something waits. Nothing is logged while it is held. A
        # handler of the program's for a signal may run inside it, and call the SDK.
        self._lock = threading.RLock()
        self._waiting: deque[StepNote] = deque()
        self._activities: dict[str, None] = {}  # in the order in which they began
        self._asides: deque[Later] = deque()
        self._asks: int | None = None  # the thread that may ask the device
        self._records: dict[str, list[dict[str, object]]] = {}
        self._ticks: list[Callable[[], None]] = []
        self._finish_calls: list[Callable[[], None]] = []
        self._outer: list[str] = []
        self._mark_ns = self._start_ns = 0
        self._clear()

    @property
    def rank(self) -> int:
        return self.identity.rank

    @property
    def world_size(self) -> int:
        return self.identity.world_size

    @property
    def n(self) -> int:
        """Which step of this process is in progress, or comes next; those that an exception ended count."""
        return self._n

    # -- the program's thread --------------------------------------------------------------------------------

    def begin_step(self, step: int | None = None) -> None:
        if self.in_step:
            self.guard.lost("step end", why=f"step {self.step} was not ended before the next one began")
            self.end_step()
        if step is None:
            step = self._next
        elif step.__class__ is not int or not 0 <= step <= MOST_STEPS:
            step = self.step_number(step)
        self.step = step
        self.in_step = True
        now = monotonic_ns()
        self._start_ns = now if self._early_ns is None else self._early_ns
        self._mark_ns = now

    def end_step(self, samples: int | None = None, tokens: int | None = None) -> None:
        now = monotonic_ns()
        step = self.step
        if not self.in_step or step is None:
            self.guard.lost("step", why="a step was ended that had not begun")
            return
        if self.phase is not None:
            self._close_phases(now)
        self.in_step = False
        note: StepNote = (
            self._n,
            step,
            self._start_ns,
            now,
            self._phases,
            self._values,
            self._device_phases,
            self._samples if samples is None else self.whole(samples),
            self._tokens if tokens is None else self.whole(tokens),
            self._epoch,
            self._batches,
            self._laters,
        )
        self._n += 1
        self._next = step + 1
        self.steps_done += 1
        self.last_step_ended_ns = now
        if self._laters is None and not self._waiting and not self._asides:
            self.done.append(note)
            if not self._n & WAKE_STEPS:
                self.wake.set()
        else:
            with self._lock:
                self._waiting.append(note)
            self.settle()
        self._clear()

    def abort_step(self, error: BaseException | None) -> None:
        """An exception left the step: it is not among the finished ones, but the samples it saw are told."""
        if not self.in_step:
            return
        step, phase = self.step or 0, None
        if error is not None and self.failed_in is not None and self.failed_in[:2] == told_apart(error):
            phase = self.failed_in[2]
        self._close_phases(monotonic_ns())
        self.in_step = False
        self.aborted.append((self._n, step, self._batches or []))
        if error is not None and isinstance(error, Exception):
            where = f" in {phase}" if phase else ""
            self.note("exception", f"step {step} ended{where} by {describe(error)}", step=step)
        self._n += 1
        self._next = step + 1
        self._clear()

    def enter_phase(self, name: str) -> None:
        now = monotonic_ns()
        outer = self.phase
        if outer is not None:
            self._phases[outer] = self._phases.get(outer, 0) + now - self._mark_ns
            self._outer.append(outer)
        elif not self.in_step and self._early_ns is None:
            self._early_ns = now
        self.phase = name
        self._mark_ns = now
        if self.device_clock is not None:
            self.device_clock.phase_changed(outer, name)

    def leave_phase(self, name: str) -> None:
        now = monotonic_ns()
        if self.phase != name:  # its step has ended already, or phases that overlap
            if name not in self._outer:
                return
            while self.phase != name:
                self._leave(now)
        self._leave(now)

    def add_phase(self, name: str, host_ns: int) -> None:
        """Time that has just passed, told afterwards: of the step in progress, or of the next."""
        now = monotonic_ns()
        self._phases[name] = self._phases.get(name, 0) + host_ns
        if self.phase is not None:  # it passed inside that phase, which must not count it too
            self._mark_ns = min(self._mark_ns + host_ns, now)
        elif not self.in_step and self._early_ns is None:
            self._early_ns = now - host_ns

    def add_later(self, later: Later) -> None:
        self._asks = threading.get_ident()
        if self._laters is None:
            self._laters = [later]
        else:
            self._laters.append(later)

    def add_aside(self, later: Later) -> None:
        """It belongs to no step, and keeps for itself what it reads."""
        self._asks = threading.get_ident()
        with self._lock:
            self._asides.append(later)

    def add_batch(self, batch: Batch) -> None:
        if self._batches is None:
            self._batches = [batch]
        else:
            self._batches.append(batch)

    def add_samples(self, samples: int | None = None, tokens: int | None = None) -> None:
        """Of the step in progress, or of the next; `end_step` may say better."""
        if samples is not None:
            self._samples = (self.whole(samples) or 0) + (self._samples or 0)
        if tokens is not None:
            self._tokens = (self.whole(tokens) or 0) + (self._tokens or 0)

    def set_epoch(self, epoch: int | None) -> None:
        self._epoch = None if epoch is None else self.whole(epoch, "epoch")

    def log(self, values: Mapping[str, object]) -> None:
        """Of the step in progress; between two steps, of the one that has just ended."""
        try:
            mine = {str(name): value for name, value in values.items()}
        except Exception as error:  # noqa: BLE001 - whatever a program may hand over
            self.guard.lost("value", why=f"log takes names with values: {describe(error)}")
            return
        self.keep(mine)

    def keep(self, values: dict[str, object]) -> None:
        """As `log`; the dictionary is the recorder's from now on."""
        numbers: dict[str, float]
        laters: list[Later] = _NONE_LATER
        if _NUMBERS.issuperset(map(type, values.values())):
            numbers = values  # type: ignore[assignment]
        else:
            numbers, laters = as_numbers(values, self.guard)
        if not self.in_step:
            self._log_between(numbers, laters)
            return
        for later in laters:
            self.add_later(later)
        if self._values:
            self._values.update(numbers)
        else:
            self._values = numbers

    def step_number(self, step: object) -> int:
        """Whatever a program gives as one; the next when it is none."""
        try:
            number = int(step)  # type: ignore[call-overload]
            if not 0 <= number <= MOST_STEPS:
                raise ValueError(f"{number} is not between 0 and {MOST_STEPS}")
            return number  # type: ignore[no-any-return]
        except Exception as error:  # noqa: BLE001 - whatever a program may hand over
            self.guard.lost("step number", why=describe(error))
            return self._next

    def whole(self, count: object, kind: str = "count of samples") -> int | None:
        """Whatever a program gives as one; None when it is none."""
        if count.__class__ is int and 0 <= count <= MOST_STEPS:
            return count
        try:
            number = int(count)  # type: ignore[call-overload]
            if not 0 <= number <= MOST_STEPS:
                raise ValueError(f"{number:.6g} is not between 0 and {MOST_STEPS}")
            return number  # type: ignore[no-any-return]
        except Exception as error:  # noqa: BLE001 - whatever a program may hand over
            self.guard.lost(kind, why=describe(error))
            return None

    def resume_at(self, step: int) -> None:
        """The next step, unless `begin_step` says another."""
        self._next = step

    def begin_activity(self, name: str) -> None:
        """A checkpoint or a validation, by any thread: one may be written beside the other."""
        with self._lock:
            self._activities[name] = None
            self.activity = name
        self.settle_here()

    def end_activity(self, name: str) -> None:
        with self._lock:
            self._activities.pop(name, None)
            self.activity = next(reversed(self._activities), None)
        self.settle_here()

    def settle(self) -> None:
        """Reads what the device has computed by now, oldest step first."""
        lost: list[str] = []
        with self._lock:
            waiting, asides = self._waiting, self._asides
            while waiting and (_ready(waiting[0]) or len(waiting) > WAITING_STEPS):
                lost += self._hand_over(waiting.popleft())
            while asides and _all_ready((asides[0],)):
                try:
                    asides.popleft().read()
                except Exception as error:  # noqa: BLE001 - of a device that failed
                    lost.append(describe(error))
        self._count_lost(lost)

    def settle_all(self, timeout_s: float) -> None:
        """At the end: the last steps' values are worth a short wait."""
        until = monotonic_ns() + int(timeout_s * 1e9)
        self.settle()
        while (self._waiting or self._asides) and monotonic_ns() < until:
            sleep(0.001)
            self.settle()

    # -- any thread ------------------------------------------------------------------------------------------

    def note(
        self,
        kind: str,
        text: str,
        *,
        data: Mapping[str, object] | None = None,
        step: int | None = None,
    ) -> None:
        fields: dict[str, object] = {"t_ms": time_ns() // 1_000_000, "kind": kind, "text": text}
        if step is not None:
            fields["step"] = step
        if data:
            fields["data"] = dict(data)
        self.record("notes", fields)

    def artifact(self, kind: str, name: str, content: bytes) -> None:
        """A file of evidence. What is longer than the server takes is cut, and counted."""
        if len(content) > MAX_ARTIFACT_BYTES:
            self.guard.lost("artifact bytes", len(content) - MAX_ARTIFACT_BYTES, why=f"{name} is too long")
            content = content[:MAX_ARTIFACT_BYTES]
        fields = {"t_ms": time_ns() // 1_000_000, "kind": kind, "name": name, "content": content}
        self.record("artifacts", fields)

    def record(self, section: str, fields: dict[str, object]) -> None:
        """Something rare for a section of the protocol: checkpoints, validations, notes, artifacts."""
        if self.silent:
            return
        with self._lock:
            waiting = self._records.setdefault(section, [])
            full = len(waiting) >= KEPT_NOTES
            if not full:
                waiting.append(fields)
        if full:
            self.guard.lost(section, why="more than are taken in a second")

    def gauge(self, name: str, help: str, value: float, labels: Mapping[str, str] | None = None) -> None:
        self.metrics.gauge(name, help, value, labels)

    def count(self, name: str, help: str, by: float = 1, labels: Mapping[str, str] | None = None) -> None:
        self.metrics.count(name, help, by, labels)

    def on_tick(self, call: Callable[[], None]) -> None:
        """In the background thread, about once a second."""
        self._ticks.append(call)

    def at_finish(self, call: Callable[[], None]) -> None:
        """In the thread that finishes the run, before the last records go out."""
        self._finish_calls.append(call)

    # -- the background thread -------------------------------------------------------------------------------

    def tick(self) -> None:
        for call in tuple(self._ticks):
            self.guard.run("background work", call)

    def run_finish_calls(self) -> None:
        while self._finish_calls:
            self.guard.run("finish", self._finish_calls.pop())

    def take_records(self) -> dict[str, list[dict[str, object]]]:
        with self._lock:
            taken, self._records = self._records, {}
        return taken

    def take_steps(self, most: int, *, all_of_them: bool = False) -> list[StepNote]:
        """The oldest finished ones. The last one stays a moment: what is logged after it belongs to it."""
        lost: list[str] = []
        taken: list[StepNote] = []
        with self._lock:
            if all_of_them or self._has_stalled():
                while self._waiting:  # only the program's own thread may ask the device
                    lost += self._hand_over(self._waiting.popleft(), ask=False)
            done = self.done
            if not isinstance(done, Discarding):
                left = 0 if all_of_them or self._is_past(1_000_000_000) else 1
                taken = [done.popleft() for _ in range(min(most, len(done) - left))]
        self._count_lost(lost)
        return taken

    def fall_silent(self, refuse: Callable[[], None] | None = None) -> None:
        """From now on nothing is kept; `refuse` is called for what comes nevertheless."""
        self.silent = True
        # Of a forked child: another thread may have held them at the fork.
        self._lock = threading.RLock()
        self.wake = threading.Event()
        self._waiting.clear()
        self._asides.clear()
        self._records.clear()
        self._ticks.clear()
        self._finish_calls.clear()
        self.device_clock = None  # CUDA does not work in a forked child
        self.done = Discarding(refuse)

    # -- inside ----------------------------------------------------------------------------------------------

    def _clear(self) -> None:
        self._phases = {}
        self._values = {}
        self._device_phases = {}
        self._samples = self._tokens = self._epoch = None
        self._batches = self._laters = self._early_ns = None

    def settle_here(self) -> None:
        """As `settle`, in any thread: nothing where it is not the one that may ask the device."""
        if threading.get_ident() == self._asks:
            self.settle()

    def _count_lost(self, why: list[str]) -> None:
        if why:
            self.guard.lost("device value", len(why), why=why[0])

    def _leave(self, now: int) -> None:
        name = self.phase
        if name is not None:
            self._phases[name] = self._phases.get(name, 0) + now - self._mark_ns
        self._mark_ns = now
        self.phase = self._outer.pop() if self._outer else None
        if self.device_clock is not None:
            self.device_clock.phase_changed(name, self.phase)

    def _close_phases(self, now: int) -> None:
        while self.phase is not None:
            self._leave(now)

    def _log_between(self, numbers: dict[str, float], laters: list[Later]) -> None:
        if self.silent:
            self.done.append((0, 0, 0, 0, {}, numbers, {}, None, None, None, None, None))
            return
        with self._lock:
            last = self._waiting or self.done
            newest = last[-1] if isinstance(last, deque) and last else None
            if newest is not None and newest[0] == self._n - 1:
                newest[5].update(numbers)
                if laters:  # it waits for them, though it may have been through already
                    last.pop()  # type: ignore[union-attr]
                    self._waiting.append((*newest[:11], [*(newest[11] or ()), *laters]))
                return
        self._values.update(numbers)  # of the next step
        for later in laters:
            self.add_later(later)

    def _hand_over(self, note: StepNote, *, ask: bool = True) -> list[str]:
        """With the lock held. Answers why values of it are lost, one for each."""
        lost: list[str] = []
        for later in note[11] or ():
            try:
                if not (ask and later.ready()):
                    lost.append("the device had not computed it long after the step")
                    continue
                reading = later.read()
            except Exception as error:  # noqa: BLE001 - of a device that failed
                lost.append(describe(error))
                continue
            note[5].update(reading.values)
            for name, us in reading.device_phases_us.items():
                note[6][name] = note[6].get(name, 0) + us
        self.done.append(note)
        return lost

    def _has_stalled(self) -> bool:
        """Whether steps have stopped, so that nobody will ask for what the device computes. At the end of a
        checkpoint or a validation that the program told of, it will."""
        if not self._waiting:
            return False
        if self.activity is not None:
            return self._is_past(LONGEST_ACTIVITY_NS)
        _, _, start_ns, end_ns, *_ = self._waiting[-1]
        return self._is_past(max(_STALLED_NS, 3 * (end_ns - start_ns)))

    def _is_past(self, ns: int) -> bool:
        return self.last_step_ended_ns is not None and monotonic_ns() - self.last_step_ended_ns > ns


def told_apart(error: BaseException) -> tuple[int, str]:
    """An id alone may be another exception's once this one is gone."""
    return id(error), describe(error)


def _ready(note: StepNote) -> bool:
    return _all_ready(note[11] or ())


def _all_ready(laters: Sequence[Later]) -> bool:
    try:
        return all(later.ready() for later in reversed(laters))  # the last to be ready first
    except Exception:  # noqa: BLE001 - reading it will say what is wrong
        return True
