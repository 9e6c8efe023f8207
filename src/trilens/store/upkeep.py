"""What has to happen from time to time: rollups, saving activity, looking for damage."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

import numpy as np

from trilens.model.errors import TrilensError
from trilens.store.activity import Activity, save_activity, save_progress
from trilens.store.admission import NEVER
from trilens.store.damage import find_damage

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from trilens.store.admission import Admission
    from trilens.store.damage import Damage
    from trilens.store.engine import Engine
    from trilens.store.index import SeriesIndex
    from trilens.store.rollups import RollupJob

log = logging.getLogger(__name__)

_TURN_S = 60.0
_ACTIVITY_TURNS = 5


class Upkeep:
    """One thread. Each piece of work may fail and is tried again at the next turn."""

    def __init__(
        self,
        engine: Engine,
        index: SeriesIndex,
        admission: Admission,
        rollups: RollupJob,
        retention: timedelta,
        at_start: Callable[[threading.Event], None],
    ) -> None:
        self._engine = engine
        self._index = index
        self._admission = admission
        self._rollups = rollups
        self._retention_ms = int(retention.total_seconds() * 1000)
        self._at_start = at_start
        self._saved_t = np.zeros(0, dtype=np.int64)  # newest time of each series as last saved
        self._stop = threading.Event()
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

    def save_activity(self) -> None:
        """Call only when all that was taken is on disk, or at a moment when the rest will be."""
        count = len(self._index)
        settled = self._admission.settled_ms  # looked at first: what comes meanwhile lies above it
        newest = self._admission.newest_t[:count].copy()
        before = np.full(count, NEVER)
        before[: len(self._saved_t)] = self._saved_t
        changed = np.flatnonzero(newest > before).astype(np.int32)
        if len(changed):
            times, values = self._admission.newest(changed)
            seen = Activity(self._index.ids[changed], self._admission.oldest_t[changed], times, values)
            save_activity(self._engine, seen)
            save_progress(self._engine, settled)
        self._saved_t = newest

    def roll_up(self) -> int:
        now_ms = int(time.time() * 1000)
        return self._rollups.run(now_ms, now_ms - self._retention_ms, self._stop)

    def _work(self) -> None:
        self._try(lambda: self._at_start(self._stop))
        turn = 0
        while not self._stop.wait(_TURN_S):
            turn += 1
            self._try(self.look_for_damage)
            if turn % _ACTIVITY_TURNS == 0:
                self._try(self.save_activity)
            self._try(self.roll_up)

    def _try(self, work: Callable[[], object]) -> None:
        try:
            work()
        except TrilensError as e:
            if not self._stop.is_set():
                log.warning("upkeep will be tried again: %s", e)
        except Exception:
            log.exception("upkeep failed in a way that was not foreseen, and will be tried again")
