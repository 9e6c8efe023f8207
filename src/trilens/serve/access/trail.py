"""Who did what, when, from where, and who was not let do it: kept, and told in the log."""

from __future__ import annotations

import logging
import threading
import uuid
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.model.audit import AuditEntry, AuditKind
from trilens.model.errors import StoreError
from trilens.serve.access.refusals import Refusals
from trilens.serve.questions import clock_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.serve.access.callers import Caller

log = logging.getLogger("trilens.audit")

_TOGETHER_MS: Final = 60_000  # refusals of one kind within it are one entry
_LONGEST: Final = 300
_KEPT_S: Final = 10.0


class Records(Protocol):
    def put(self, entry: AuditEntry) -> None: ...

    def settled(self, timeout_s: float) -> bool: ...


class Deed(NamedTuple):
    """What was asked, and how it ended."""

    method: str
    route: str
    object: str
    status: int
    detail: str = ""


class AuditTrail:
    """Thread-safe. However many are turned away, a minute has so many entries at the most: a flood fills
    neither the disk nor the log."""

    def __init__(self, records: Records | None = None, now_ms: Callable[[], int] = clock_ms) -> None:
        self._records = records
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._refused = Refusals()
        self._since_ms = 0

    def note(self, kind: AuditKind, who: str, how: str, caller: Caller, deed: Deed) -> None:
        entry = AuditEntry(
            uuid.uuid4().hex,
            self._now_ms(),
            kind,
            who[:_LONGEST],
            how[:_LONGEST],
            caller.peer,
            caller.client,
            deed.method,
            deed.route,
            deed.object[:_LONGEST],
            deed.status,
            deed.detail[:_LONGEST],
        )
        if kind is AuditKind.REFUSAL:
            self._refuse(entry, caller.site)
        else:
            self._tell(entry)

    def settle(self) -> None:
        """Waits until what was noted is on disk. Raises StoreError."""
        if self._records is not None and not self._records.settled(_KEPT_S):
            raise StoreError("this is not on disk, and may not be: see the server's log")

    def look(self) -> None:
        """Tells how many refusals there were in the last minute, once it is over."""
        with self._lock:
            if self._now_ms() - self._since_ms >= _TOGETHER_MS:
                self._end_minute(self._now_ms())

    def close(self) -> None:
        with self._lock:
            self._end_minute(self._now_ms())

    def _refuse(self, entry: AuditEntry, site: str) -> None:
        with self._lock:
            if entry.t_ms - self._since_ms >= _TOGETHER_MS:
                self._end_minute(entry.t_ms)
            first = self._refused.add(entry, site)
            if first is not None:
                self._tell(first)

    def _end_minute(self, now_ms: int) -> None:
        for entry in self._refused.end():
            self._tell(entry)
        self._since_ms = now_ms

    def _tell(self, entry: AuditEntry) -> None:
        if self._records is not None:
            self._records.put(entry)
        told = {
            "kind": entry.kind.value,
            "who": entry.who or "nobody known",
            "how": entry.how,
            "peer": entry.peer,
            "client": entry.client,
            "method": entry.method,
            "route": entry.route,
            "object": entry.object,
            "status": entry.status,
            "detail": entry.detail,
            "count": entry.count if entry.count > 1 else "",
        }
        log.info("audit", extra={name: one for name, one in told.items() if one != ""})
