"""What a detector remembers of each job from one look to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Generic, TypeVar

from trilens.detect.subjects import job_key

if TYPE_CHECKING:
    from trilens.detect.scene import JobView
    from trilens.detect.subjects import JobKey

FORGET_MS: Final = 60 * 60_000

T = TypeVar("T")


class JobMemory(Generic[T]):
    """A job that was not asked about for an hour is forgotten: its name may be another's by then."""

    def __init__(self) -> None:
        self._known: dict[JobKey, T] = {}
        self._asked_ms: dict[JobKey, int] = {}
        self._swept_ms = 0

    def __len__(self) -> int:
        return len(self._known)

    def get(self, job: JobView, now_ms: int) -> T | None:
        if now_ms - self._swept_ms > FORGET_MS:
            self._sweep(now_ms)
        key = job_key(job)
        if now_ms - self._asked_ms.get(key, 0) > FORGET_MS:
            return None
        self._asked_ms[key] = now_ms
        return self._known[key]

    def put(self, job: JobView, now_ms: int, known: T) -> T:
        key = job_key(job)
        self._known[key], self._asked_ms[key] = known, now_ms
        return known

    def _sweep(self, now_ms: int) -> None:
        self._swept_ms = now_ms
        self._asked_ms = {key: ms for key, ms in self._asked_ms.items() if now_ms - ms <= FORGET_MS}
        self._known = {key: self._known[key] for key in self._asked_ms}
