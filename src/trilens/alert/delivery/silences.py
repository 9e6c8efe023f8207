"""Silences: nobody is told of what their matchers take, from one moment to another."""

from __future__ import annotations

import threading
import uuid
from typing import TYPE_CHECKING, Final

import msgspec

from trilens.alert.delivery.matching import read_matchers, take
from trilens.model.errors import NotFound, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.alert.delivery.matching import Matchers
    from trilens.alert.delivery.outbox import Outbox

_KEPT_MS: Final = 5 * 86_400_000  # after its end, so that people see what there was
_MOST: Final = 10_000
_SHARE: Final = 1_000  # of one author, so that nobody leaves others without any


class Silence(msgspec.Struct, frozen=True):
    id: str
    matchers: tuple[str, ...]  # all of them hold
    from_ms: int
    to_ms: int
    author: str
    comment: str
    created_ms: int

    def state(self, now_ms: int) -> str:
        return "pending" if now_ms < self.from_ms else "active" if now_ms < self.to_ms else "expired"


class Silences:
    """Thread-safe; kept on disk."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._lock = threading.Lock()
        self._known: dict[str, tuple[Silence, Matchers]] = {}
        for body in outbox.silences():
            silence = msgspec.json.decode(body, type=Silence)
            self._known[silence.id] = (silence, read_matchers(silence.matchers))

    def every(self) -> list[Silence]:
        """The latest first."""
        with self._lock:
            found = [silence for silence, _ in self._known.values()]
        return sorted(found, key=lambda one: (-one.to_ms, one.id))

    def add(
        self, matchers: Sequence[str], from_ms: int, to_ms: int, author: str, comment: str, now_ms: int
    ) -> Silence:
        """Raises RequestError."""
        try:
            read = read_matchers(matchers)
        except ValueError as e:
            raise RequestError(f"invalid matcher: {e}") from e
        if not read or all(take((matcher,), {}) for matcher in read):
            hint = 'name at least one that means something, such as workload="llm-7b"'
            raise RequestError("this silence would take everything", hint=hint)
        if to_ms <= from_ms:
            raise RequestError("a silence ends after it begins")
        if to_ms <= now_ms:
            raise RequestError("this silence is over already")
        for what, text in (("an author", author), ("a comment", comment)):
            if not text.strip():
                raise RequestError(f"a silence needs {what}: whoever misses an alert asks")
        silence = Silence(uuid.uuid4().hex[:12], tuple(matchers), from_ms, to_ms, author, comment, now_ms)
        with self._lock:
            self._let_go(now_ms)
            self._make_room(author, now_ms)
            self._outbox.put_silence(silence.id, msgspec.json.encode(silence))
            self._known[silence.id] = (silence, read)
        return silence

    def expire(self, name: str, now_ms: int) -> Silence:
        """It is over now. Raises NotFound."""
        with self._lock:
            if name not in self._known:
                raise NotFound(f"there is no silence {name!r}")
            silence, read = self._known[name]
            if silence.to_ms > now_ms:
                begins_ms = min(silence.from_ms, now_ms)
                silence = msgspec.structs.replace(silence, from_ms=begins_ms, to_ms=now_ms)
                self._outbox.put_silence(name, msgspec.json.encode(silence))
                self._known[name] = (silence, read)
        return silence

    def active(self, now_ms: int) -> list[tuple[Silence, Matchers]]:
        with self._lock:
            return [one for one in self._known.values() if one[0].state(now_ms) == "active"]

    def _let_go(self, now_ms: int) -> None:
        for name, (silence, _) in list(self._known.items()):
            if silence.to_ms < now_ms - _KEPT_MS:
                self._drop(name)

    def _make_room(self, author: str, now_ms: int) -> None:
        """For one more, where of those that are over the oldest can go. Raises RequestError."""
        every = [silence for silence, _ in self._known.values()]
        own = [silence for silence in every if silence.author == author]
        if len(own) >= _SHARE:  # his own go first: what others had remains to be seen
            over = self._drop_oldest(own, now_ms)
            if over is None:
                raise RequestError(f"{author} has {_SHARE:,} silences already", hint="end some of them")
            every.remove(over)
        if len(every) >= _MOST and self._drop_oldest(every, now_ms) is None:
            raise RequestError(f"there are {_MOST:,} silences already", hint="end some of them")

    def _drop_oldest(self, among: Sequence[Silence], now_ms: int) -> Silence | None:
        """None where all of them last or are to come."""
        over = [silence for silence in among if silence.state(now_ms) == "expired"]
        oldest = min(over, key=lambda one: one.to_ms, default=None)
        if oldest is not None:
            self._drop(oldest.id)
        return oldest

    def _drop(self, name: str) -> None:
        self._outbox.drop_silence(name)
        del self._known[name]
