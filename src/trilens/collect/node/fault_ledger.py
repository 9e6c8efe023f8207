"""Every fault counted once, and kept for who asks: through restarts of the agent, also by kill -9.

Two files: how far the log was read and what was counted by then, written at times; and the journal, with each
fault since then and the place where it was read.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
import uuid
from collections import Counter, deque
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.collect.node.fault_journal import FaultJournal
from trilens.model.pci import PciAddress
from trilens.model.xid import FaultKind, KernelFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from trilens.collect.node.fault_journal import Entry

log = logging.getLogger(__name__)

_KEPT_EVENTS: Final = 5_000  # for who asks; a few kilobytes each
_TOLD_AT_ONCE: Final = 1_000  # of them; who asks on has the next
_LONGEST_JOURNAL: Final = 2 * _KEPT_EVENTS
_SAVE_EVERY_S: Final = 60.0  # how far reading got, when nothing happened
_FORMAT: Final = 1


class FaultKey(NamedTuple):
    kind: FaultKind
    pci: PciAddress | None
    code: int | None


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """A fault, when it happened, and on whom: as known at the moment it was read."""

    number: int  # counts up, over restarts too
    t_ms: int
    fault: KernelFault
    whom: Mapping[str, Any]
    id: str = ""  # of its line in the log, the same when counting begins anew; "" from before there were any


class FaultLedger:
    """Its methods may be called from any thread."""

    def __init__(self, file: Path, boot_id: str) -> None:
        self._file = file
        self._journal = FaultJournal(file.with_name(f"{file.name}.faults"))
        self._is_in_step = False  # whether the journal goes on where the file of the state ends
        self._boot_id = boot_id
        self._last_codes: dict[PciAddress, int] = {}  # of this boot
        self._lock = threading.Condition()  # notified of each fault
        self._ended = False
        self._totals: Counter[FaultKey] = Counter()
        self._events: deque[FaultEvent] = deque(maxlen=_KEPT_EVENTS)
        self._positions: dict[str, str] = {}
        self._unreadable = 0
        self._lost = 0
        self._number = 0
        self._asked = 0  # up to which number somebody has taken them
        self._dropped = 0  # to make room, before anybody asked
        self.id = uuid.uuid4().hex  # tells a reader that the numbers began anew
        self._saved_s = time.monotonic()
        self.problem: str | None = None  # why the file cannot be read or written
        self._load()

    def position(self, origin: str) -> str | None:
        return self._positions.get(origin)

    def passed(self, origin: str, position: str) -> None:
        """A line that says nothing of faults was read."""
        with self._lock:
            self._positions[origin] = position
            if time.monotonic() - self._saved_s >= _SAVE_EVERY_S:
                self._save()

    def record(
        self, origin: str, position: str, t_ms: int, fault: KernelFault, whom: Mapping[str, Any]
    ) -> None:
        with self._lock:
            if not self._is_in_step or self._journal.lines >= _LONGEST_JOURNAL:
                self._save()
            self._number += 1
            event = FaultEvent(self._number, t_ms, fault, whom, _line_id(origin, position, fault))
            self._make_room()
            self._events.append(event)
            self._count(event, origin, position)
            self._keep(event, origin, position)
            self._lock.notify_all()

    def record_unreadable(self, origin: str, position: str) -> None:
        with self._lock:
            self._unreadable += 1
            self._positions[origin] = position
            self._save()

    def record_lost(self, records: int) -> None:
        with self._lock:
            self._lost += records

    def totals(self) -> dict[FaultKey, int]:
        with self._lock:
            return dict(self._totals)

    @property
    def unreadable(self) -> int:
        return self._unreadable

    @property
    def lost(self) -> int:
        return self._lost

    @property
    def dropped(self) -> int:
        """Faults that were counted, and were gone before anybody asked for them."""
        return self._dropped

    def last_codes(self) -> dict[PciAddress, int]:
        """The newest Xid of each GPU that had any since boot; DCGM forgets at a reboot too."""
        with self._lock:
            return dict(self._last_codes)

    def events(self, after: int = 0, wait_s: float = 0.0) -> list[FaultEvent]:
        """The oldest of them; where there is none, the next that comes within so long. Who asks for what
        comes after a number has all up to it."""
        with self._lock:
            self._asked = max(self._asked, min(after, self._number))
            if wait_s > 0:
                self._lock.wait_for(lambda: self._ended or self._number > after, wait_s)
            return list(islice((event for event in self._events if event.number > after), _TOLD_AT_ONCE))

    def save(self) -> None:
        with self._lock:
            self._save()

    def end_waiting(self) -> None:
        """Nobody who waits for a fault is kept any longer."""
        with self._lock:
            self._ended = True
            self._lock.notify_all()

    def _count(self, event: FaultEvent, origin: str, position: str) -> None:
        fault = event.fault
        self._totals[FaultKey(fault.kind, fault.pci, fault.code)] += 1
        if fault.kind is FaultKind.XID and fault.pci is not None and fault.code is not None:
            self._last_codes[fault.pci] = fault.code
        self._positions[origin] = position

    def _make_room(self) -> None:
        if len(self._events) < _KEPT_EVENTS or self._events[0].number <= self._asked:
            return
        if self._dropped % _KEPT_EVENTS == 0:
            log.warning("nobody asks for faults, so the oldest are dropped", extra={"kept": _KEPT_EVENTS})
        self._dropped += 1

    def _keep(self, event: FaultEvent, origin: str, position: str) -> None:
        """On disk on return, or `problem` says why not."""
        if not self._is_in_step:
            return
        try:
            since = {"read_at": [origin, position], "asked": self._asked}
            self._journal.append({**_entry(event), "ledger": self.id, **since})
        except OSError as e:
            self._is_in_step = False
            self._complain(f"cannot write {self._journal.file}: {e.strerror}; a restart would count again")

    def _save(self) -> None:
        state = {
            "format": _FORMAT,
            "id": self.id,
            "boot_id": self._boot_id,
            "last_codes": {str(pci): code for pci, code in self._last_codes.items()},
            "positions": self._positions,
            "number": self._number,
            "asked": self._asked,
            "dropped": self._dropped,
            "unreadable": self._unreadable,
            "lost": self._lost,
            "totals": [[key.kind, _text(key.pci), key.code, n] for key, n in self._totals.items()],
        }
        self._saved_s = time.monotonic()
        draft = self._file.with_name(f"{self._file.name}.new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with draft.open("w", encoding="utf-8") as stream:
                json.dump(state, stream)
                stream.flush()
                os.fsync(stream.fileno())
            draft.replace(self._file)
            if not self._is_in_step or self._journal.lines >= _LONGEST_JOURNAL:
                self._journal.rewrite({**_entry(event), "ledger": self.id} for event in self._events)
                self._is_in_step = True
            self.problem = None
        except OSError as e:
            self._complain(f"cannot write {self._file}: {e.strerror}; a restart would count again")

    def _load(self) -> None:
        try:
            state = json.loads(self._file.read_text(encoding="utf-8"))
            journal = self._journal.read()
        except FileNotFoundError:
            return
        except (OSError, ValueError) as e:
            self._complain(f"cannot read {self._file}: {e}; counting begins anew")
            return
        try:
            if state["format"] != _FORMAT:
                raise ValueError(f"format {state['format']}")
            self._totals.update(
                {FaultKey(FaultKind(kind), _place(pci), code): n for kind, pci, code, n in state["totals"]}
            )
            # Before there was a journal, the last ones were in the state.
            self._events.extend(_event(entry) for entry in reversed(state.get("events", [])))
            places = ((PciAddress.parse(pci), code) for pci, code in state["last_codes"].items())
            self._last_codes = {pci: int(code) for pci, code in places if pci is not None}
            self._positions = dict(state["positions"])
            self._number = int(state["number"])
            self._asked, self._dropped = int(state.get("asked", 0)), int(state.get("dropped", 0))
            self._unreadable, self._lost = int(state["unreadable"]), int(state["lost"])
            self._replay(entry for entry in journal if entry["ledger"] == state["id"])
            if state["boot_id"] != self._boot_id:
                self._last_codes.clear()
            self.id = str(state["id"])  # last: numbers that begin anew must not go by the old name
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            self._totals.clear()
            self._events.clear()
            self._last_codes.clear()
            self._positions = {}
            self._number = self._asked = self._dropped = self._unreadable = self._lost = 0
            self._complain(f"cannot use {self._file}: {e!r}; counting begins anew")

    def _replay(self, entries: Iterable[Entry]) -> None:
        """What is not in the state yet is counted."""
        for entry in entries:
            event = _event(entry)
            if event.number > self._number:
                self._number, self._asked = event.number, int(entry["asked"])
                origin, position = entry["read_at"]
                self._make_room()
                self._count(event, origin, position)
            self._events.append(event)

    def _complain(self, problem: str) -> None:
        if self.problem != problem:
            log.warning(problem)
        self.problem = problem


def _text(pci: PciAddress | None) -> str | None:
    return None if pci is None else str(pci)


def _place(text: str | None) -> PciAddress | None:
    return None if text is None else PciAddress.parse(text)


def _entry(event: FaultEvent) -> Entry:
    return {
        "number": event.number,
        "t_ms": event.t_ms,
        "fault": asdict(event.fault) | {"pci": _text(event.fault.pci)},
        "whom": event.whom,
        "id": event.id,
    }


def _event(entry: Entry) -> FaultEvent:
    fields = dict(entry["fault"])
    fault = KernelFault(**{**fields, "kind": FaultKind(fields["kind"]), "pci": _place(fields["pci"])})
    number, t_ms = int(entry["number"]), int(entry["t_ms"])
    return FaultEvent(number, t_ms, fault, entry["whom"], str(entry.get("id", "")))


def _line_id(origin: str, position: str, fault: KernelFault) -> str:
    """With what the line says: after a rotation another one may lie at the same place of a file."""
    words = f"{origin}\0{position}\0{fault}"
    return hashlib.blake2b(words.encode(), digest_size=12).hexdigest()
