"""The thread that talks to the other ranks of a job: through the job's store, over a connection of its own.

It tells where this rank is, and measures how far its clock is from rank 0's. It issues no collective: those
belong to the program's threads.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from trilens.sdk.distributed.clock import ClockOffset, ClockServer, measure
from trilens.sdk.distributed.process_group import job_store, own_connection, torch_distributed
from trilens.sdk.distributed.whereabouts import Whereabouts, last_seen, tell_where
from trilens.sdk.guard import describe

if TYPE_CHECKING:
    from trilens.sdk.distributed.process_group import Store
    from trilens.sdk.recorder import Recorder

_LOOK_S: Final = 0.5
_TELL_S: Final = 5.0
ALL_HAVE_TOLD_S: Final = 2 * _TELL_S  # since when all have stopped: what they told is where they are
_MEASURE_S: Final = 600.0  # clocks of machines without NTP drift by milliseconds in that time
_AGAIN_S: Final = 30.0  # after a measurement that failed
_MOST_RANKS: Final = 4096  # whose whereabouts are read one by one


class Peers:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._stop = threading.Event()
        self._store: Store | None = None
        self._world_size = 0
        self._clock_server: ClockServer | None = None
        self._tell_at_s = 0.0
        self._measure_at_s = 0.0
        self.clock: ClockOffset | None = None
        self._thread: threading.Thread | None = None

    def look(self) -> None:
        """From the background thread: begins once the program has set up its process group."""
        if self._thread is None and torch_distributed() is not None:
            self._thread = threading.Thread(target=self._loop, name="trilens-peers", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)

    def whereabouts(self) -> list[Whereabouts]:
        """Of all ranks that told, this one among them; empty where they cannot be asked."""
        store = self._store
        if store is None or self._world_size > _MOST_RANKS:
            return []
        return self._recorder.guard.run("whereabouts", last_seen, store, range(self._world_size)) or []

    def _loop(self) -> None:
        try:
            store, rank = self._connect()
            while not self._stop.wait(_LOOK_S):
                self._turn(store, rank)
        except Exception as error:  # noqa: BLE001 - mostly that the store is gone, with rank 0 or its launcher
            if not self._stop.is_set() and torch_distributed() is not None:
                self._recorder.guard.say("peers", f"the other ranks cannot be asked: {describe(error)}")
        finally:
            self._store = None

    def _connect(self) -> tuple[Store, int]:
        dist = torch_distributed()
        if dist is None:
            raise RuntimeError("there is no process group any more")
        store = job_store(dist)
        self._world_size = dist.get_world_size()
        self._store = None if store is None else own_connection(store, self._world_size)
        if self._store is None:
            raise RuntimeError("no connection of our own to the job's store")
        return self._store, dist.get_rank()

    def _turn(self, store: Store, rank: int) -> None:
        recorder = self._recorder
        now_s = time.monotonic()
        if now_s >= self._tell_at_s:
            self._tell_at_s = now_s + _TELL_S
            tell_where(store, rank, recorder.step, recorder.phase or recorder.activity)
        if rank == 0:
            if self._clock_server is None:
                self._clock_server = ClockServer(store, machine_id())
                self._tell_clock(ClockOffset(0, 0))
            self._clock_server.look()
        elif now_s >= self._measure_at_s:
            measured = measure(store, machine_id())
            self._measure_at_s = time.monotonic() + (_AGAIN_S if measured is None else _MEASURE_S)
            if measured is not None:
                self._tell_clock(measured)

    def _tell_clock(self, clock: ClockOffset) -> None:
        self.clock = clock
        self._recorder.clock_offset_us = clock.offset_us
        self._recorder.gauge(
            "trilens_clock_offset_seconds",
            "What to add to this rank's clock to have rank 0's.",
            clock.offset_us / 1e6,
        )
        self._recorder.gauge(
            "trilens_clock_offset_uncertainty_seconds",
            "How far the clock offset may be from the truth, to either side.",
            clock.uncertainty_us / 1e6,
        )


def machine_id() -> str:
    """Of the running kernel: containers on one machine share its clock."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        import uuid

        return f"{uuid.getnode():x}"
