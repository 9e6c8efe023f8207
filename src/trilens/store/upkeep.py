"""What has to happen from time to time: rollups, the ledger's days, letting series go, finding damage."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from trilens.model.errors import TrilensError
from trilens.store.activity import joined, save_activity, save_activity_until, with_saved_past
from trilens.store.archive import Archive
from trilens.store.company import Company
from trilens.store.damage import find_damage
from trilens.store.disks import find_disks, find_syncs
from trilens.store.records import delete_expired_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.store.damage import Damage
    from trilens.store.disks import DiskSyncs, StoreDisk
    from trilens.store.engine import Engine
    from trilens.store.imports import ImportRecords
    from trilens.store.ledger import Ledger
    from trilens.store.residents import Residents
    from trilens.store.retention import Retention
    from trilens.store.rollups import RollupJob
    from trilens.store.runs import RunRecords
    from trilens.store.writer import Writer

log = logging.getLogger(__name__)

_TURN_S = 60.0
_ACTIVITY_TURNS = 5
_EXPIRY_TURNS = 24 * 60


class Upkeep:
    """One thread. Each piece of work may fail and is tried again at the next turn."""

    def __init__(
        self,
        engine: Engine,
        residents: Residents,
        writer: Writer,
        rollups: RollupJob,
        runs: RunRecords,
        ledger: Ledger,
        imports: ImportRecords,
        retention: Retention,
        at_start: Callable[[threading.Event], None],
    ) -> None:
        self._engine = engine
        self._archive = Archive(engine)
        self._residents = residents
        self._writer = writer
        self._rollups = rollups
        self._runs = runs
        self._ledger = ledger
        self._imports = imports
        self._retention = retention
        self._at_start = at_start
        self._stop = threading.Event()
        self.company = Company(engine)
        self.disks: tuple[StoreDisk, ...] = ()
        self.syncs: tuple[DiskSyncs, ...] = ()
        self.damage: tuple[Damage, ...] = ()
        self.look_for_damage()
        self._thread = threading.Thread(target=self._work, name="store-upkeep", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def look_for_damage(self) -> None:
        found = tuple(find_damage(self._engine))
        for damage in found:
            if damage not in self.damage:
                log.error("%s", damage)
        self.damage = found

    def look_at_disks(self) -> None:
        self.disks, self.syncs = (), ()  # what is not known is not told
        self.disks = find_disks(self._engine)
        self.syncs = find_syncs(self._engine)

    def save_activity(self) -> None:
        """Call only when all that was taken is on disk, or at a moment when the rest will be."""
        unsaved = self._residents.unsaved()
        seen = unsaved.seen
        if not len(seen.ids):
            return
        if unsaved.past_unknown.any():
            past = with_saved_past(self._engine, seen.take(unsaved.past_unknown))
            self._residents.note_past(unsaved, past)
            seen = joined(seen, past)
        save_activity(self._engine, seen)
        save_activity_until(self._engine, unsaved.settled_ms)
        self._residents.note_saved(unsaved)

    def evict_series(self) -> int:
        """Let series without recent samples leave memory; returns how many did."""
        self.save_activity()  # what is not on disk stays
        return self._residents.evict(self._writer.oldest_pending_ms)

    def delete_expired_series(self) -> int:
        """Delete from disk what is known of series of which no sample is left; returns how many rows."""
        before = int(time.time() * 1000) - int(self._retention.longest.total_seconds() * 1000)
        oldest = self._archive.oldest_sample()
        if oldest is not None:  # tables drop whole parts, so they may have more than they must keep
            before = min(before, oldest)
        self.save_activity()
        self._residents.write_labels_again(before)
        return self._archive.delete_before(before)

    def delete_expired_records(self) -> int:
        """Delete from disk the records of what was over long ago; returns how many rows."""
        now_ms = int(time.time() * 1000)
        before = now_ms - int(self._retention.records.total_seconds() * 1000)
        steps_before = now_ms - int(self._retention.steps.total_seconds() * 1000)
        return delete_expired_records(self._engine, before) + self._runs.delete_expired(before, steps_before)

    def delete_expired_ledger(self) -> int:
        """Delete from disk the hours, and what was imported for them, of long ago; returns how many rows."""
        before = int(time.time() * 1000) - int(self._retention.ledger.total_seconds() * 1000)
        return self._ledger.delete_before(before) + self._imports.delete_before(before)

    def roll_up(self) -> int:
        now_ms = int(time.time() * 1000)
        raw_ms = int(self._retention.raw.total_seconds() * 1000)
        return self._rollups.run(now_ms, now_ms - raw_ms, self._stop)

    def _work(self) -> None:
        self._try(self.company.look)
        self._try(self.look_at_disks)
        self._try(lambda: self._at_start(self._stop))
        turn = 0
        while not self._stop.wait(_TURN_S):
            turn += 1
            self._try(self.company.look)
            self._try(self.look_at_disks)
            self._try(self.look_for_damage)
            if turn % _ACTIVITY_TURNS == 0:
                self._try(self.evict_series)
            if turn % _EXPIRY_TURNS == 1:
                self._try(self.delete_expired_series)
                self._try(self.delete_expired_records)
                self._try(self.delete_expired_ledger)
            self._try(self._runs.delete_late)
            self._try(self._ledger.settle)
            self._try(self.roll_up)

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except TrilensError as e:
            if not self._stop.is_set():
                log.warning("upkeep will be tried again: %s", e)
        except Exception:
            log.exception("upkeep failed in a way that was not foreseen, and will be tried again")
