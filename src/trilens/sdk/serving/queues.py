"""How much waits: queues of the program that are looked at when somebody asks, and waits that it tells of."""

from __future__ import annotations

import threading
import weakref
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Final

from trilens.sdk.metrics import write_labels
from trilens.sdk.serving.figures import DURATION_S, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.sdk.guard import Guard
    from trilens.sdk.metrics import LabelPairs

MOST_QUEUES: Final = 100


class Queue:
    """What waits under one name: as many as the watched object holds, and those that entered and have not
    left. Any thread."""

    def __init__(self, labels: LabelPairs, watched: Callable[[], int | None] | None) -> None:
        self.labels = labels
        self._watched = watched
        self.begin_anew()

    def begin_anew(self) -> None:
        """Also in a forked child: who waits there waits in the parent."""
        self._lock = threading.Lock()
        self._entered = 0
        self._duration = Histogram(DURATION_S)

    def enter(self) -> float:
        """Hand to `leave` what this returns, and the wait is timed."""
        with self._lock:
            self._entered += 1
        return perf_counter()

    def leave(self, entered: float | None = None) -> None:
        now = perf_counter()
        with self._lock:
            self._entered = max(0, self._entered - 1)
            if isinstance(entered, float):
                self._duration.observe(max(0.0, now - entered))

    @contextmanager
    def wait(self) -> Iterator[None]:
        entered = self.enter()
        try:
            yield
        finally:
            self.leave(entered)

    def depth(self) -> int | None:
        """None once the program has let go of what is watched."""
        if self._watched is None:
            return self._entered
        held = self._watched()
        return None if held is None else self._entered + held

    def is_gone(self) -> bool:
        try:
            return self.depth() is None
        except Exception:  # noqa: BLE001 - the program's own function, which may work again
            return False

    def durations(self, name: str) -> list[str]:
        with self._lock:
            return [*self._duration.lines(name, self.labels)] if any(self._duration.counts) else []


class Queues:
    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        self._lock = threading.Lock()
        self._queues: dict[LabelPairs, Queue] = {}

    def add(self, watched: object, labels: LabelPairs) -> Queue:
        """The one of these labels, if there is one and nothing new is to be watched."""
        with self._lock:
            found = self._queues.get(labels)
            if found is not None and watched is None:
                return found
            queue = Queue(labels, self._size_of(watched))
            if len(self._queues) >= MOST_QUEUES:
                gone = [each for each, one in self._queues.items() if one.is_gone()]
                for each in gone:
                    del self._queues[each]
            if labels in self._queues or len(self._queues) < MOST_QUEUES:
                self._queues[labels] = queue
            else:
                self._guard.lost("queue", why=f"more than {MOST_QUEUES}")
            return queue

    def begin_anew(self, guard: Guard) -> None:
        """In a forked child: those that the program made before it are still there."""
        self._guard = guard
        self._lock = threading.Lock()
        for queue in self._queues.values():
            queue.begin_anew()

    def lines(self) -> Iterator[str]:
        queues = tuple(self._queues.values())
        depths = [(queue, self._guard.run("queue depth", queue.depth)) for queue in queues]
        if any(depth is not None for _, depth in depths):
            yield "# HELP inference_queue_depth Requests that wait."
            yield "# TYPE inference_queue_depth gauge"
        for queue, depth in depths:
            if depth is not None:
                yield f"inference_queue_depth{write_labels(queue.labels)} {depth}"
        durations = [line for queue in queues for line in queue.durations("inference_queue_duration_seconds")]
        if durations:
            yield "# HELP inference_queue_duration_seconds How long requests waited."
            yield "# TYPE inference_queue_duration_seconds histogram"
            yield from durations

    def _size_of(self, watched: object) -> Callable[[], int | None] | None:
        if watched is None:
            return None
        qsize = getattr(watched, "qsize", None)
        if callable(qsize):
            return _while_alive(watched, lambda queue: int(queue.qsize()))  # type: ignore[attr-defined]
        if hasattr(watched, "__len__"):
            return _while_alive(watched, len)  # type: ignore[arg-type]
        if callable(watched):
            return lambda: int(watched())
        self._guard.lost(
            "queue", why=f"{type(watched).__qualname__} has no qsize, no length and cannot be called"
        )
        return None


def _while_alive(watched: object, size: Callable[[object], int]) -> Callable[[], int | None]:
    """The SDK must not keep a queue alive that the program has let go of."""
    try:
        reference = weakref.ref(watched)
    except TypeError:  # a plain list has no weak references
        return lambda: size(watched)

    def ask() -> int | None:
        queue = reference()
        return None if queue is None else size(queue)

    return ask
