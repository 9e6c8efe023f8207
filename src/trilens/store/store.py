"""The store as the rest of Trilens sees it: SampleSink, SeriesSource, catalog and records in one."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.model.errors import StoreError
from trilens.store import sql
from trilens.store.admission import NEVER
from trilens.store.backup import back_up
from trilens.store.catching_up import catch_up
from trilens.store.engine import UNAVAILABLE_NODES, Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.kept_records import KeptRecords
from trilens.store.migrations import migrate
from trilens.store.record_writer import RecordWriter
from trilens.store.retention import apply_retention
from trilens.store.rollups import RollupJob
from trilens.store.sample_parts import SampleParts
from trilens.store.upkeep import Upkeep
from trilens.store.writer import Writer

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from trilens.model.labels import Symbols
    from trilens.store.backup import Copies
    from trilens.store.backup_manifest import Manifest
    from trilens.store.disks import DiskSyncs, StoreDisk
    from trilens.store.horizon import Horizon
    from trilens.store.options import StoreOptions

log = logging.getLogger(__name__)

_SETTLED_S: Final = 5.0  # a disk that is full does not keep a backup from being made


@dataclass(frozen=True, slots=True)
class StoreHealth:
    ready: bool
    read_only_reason: str | None
    damage: tuple[str, ...]
    company: str | None = None  # another server that works with the same tables


@dataclass(frozen=True, slots=True)
class StoreSize:
    samples: int
    disk_bytes: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What is known without asking the engine."""

    series: int
    pending_samples: int
    waiting_s: float  # the oldest of these
    written_samples: int
    recent_bytes: int
    recent_since_ms: int | None  # from when on the recent window has all; None where nothing was cut from it
    engine_reads: int  # running in the engine now


class Store(KeptRecords):
    """Thread-safe. `Store.open`, use, `close`; what was appended before `close` is on disk after it."""

    def __init__(
        self,
        options: StoreOptions,
        engine: Engine,
        horizon: Horizon,
        writer: Writer,
        records: RecordWriter,
        *,
        upkeep: bool,
    ) -> None:
        super().__init__(engine, records)
        self._options = options
        self._engine = engine
        self._writer = writer
        self._records = records
        samples = SampleParts(options, engine, horizon, writer)
        self._index = samples.index
        self._window = samples.window
        self._residents = samples.residents
        self._reader = samples.reader
        self._upkeep = Upkeep(
            engine,
            self._residents,
            writer,
            RollupJob(engine, horizon),
            self.runs,
            self.ledger,
            self.imports,
            options.kept_for,
            samples.warmer.run,
        )
        if upkeep:
            self._upkeep.start()

        self.series = samples.residents.series
        self.series_of = samples.residents.series_of
        self.held = samples.residents.held
        self.append = samples.intake.append
        self.durable = samples.intake.durable
        self.describe = samples.intake.describe
        self.select = samples.reader.select
        self.grid = samples.reader.grid
        self.label_names = samples.catalog.label_names
        self.label_values = samples.catalog.label_values
        self.series_labels = samples.catalog.series_labels
        self.labels_in_memory = samples.catalog.labels_in_memory
        self.metadata = samples.catalog.metadata
        self.backfill = samples.past.write
        self.put_past = samples.past.put

    @classmethod
    def open(cls, options: StoreOptions, *, upkeep: bool = True) -> Store:
        """With `upkeep` False nothing happens in the background, and retention stays as it was set: for a
        directory at rest, whose server's settings are not known."""
        engine = Engine.open(
            options.location,
            EngineOptions(
                memory_bytes=options.memory_bytes,
                username=options.username,
                password=options.password,
                cluster=options.cluster,
                insert_quorum=options.insert_quorum,
                may_write=options.may_write,
                backup_dir=options.backup_dir,
            ),
        )
        with ExitStack() as undo:  # what was opened is closed again, threads too, when a later step fails
            undo.callback(engine.close)
            catch_up(engine)
            migrate(engine)
            if upkeep:
                apply_retention(engine, options.kept_for)
            horizon = RollupJob.restore(engine)
            writer = Writer(engine, horizon)
            undo.callback(writer.close)
            records = RecordWriter(engine)
            undo.callback(records.close)
            store = cls(options, engine, horizon, writer, records, upkeep=upkeep)
            undo.pop_all()
        return store

    @property
    def engine(self) -> Engine:
        """For who copies whole tables, and knows them."""
        return self._engine

    @property
    def symbols(self) -> Symbols:
        return self._index.state.symbols

    def health(self) -> StoreHealth:
        writer = self._writer.health()
        damage = tuple(str(d) for d in self._upkeep.damage)
        silence = self._engine.silence
        ready = writer.state in ("ok", "read-only") and silence is None
        return StoreHealth(ready, writer.reason or silence, damage, self._upkeep.company.found)

    @property
    def disks(self) -> tuple[StoreDisk, ...]:
        """Of the ClickHouse servers, as they were a minute ago; none while that is not known."""
        return self._upkeep.disks

    @property
    def disk_syncs(self) -> tuple[DiskSyncs, ...]:
        """As they were a minute ago; none while that is not known."""
        return self._upkeep.syncs

    def stats(self) -> StoreStats:
        writer, since_ms = self._writer.health(), self._window.complete_since()
        return StoreStats(
            series=len(self._index),
            pending_samples=writer.pending_rows,
            waiting_s=writer.waiting_s,
            written_samples=writer.written_rows,
            recent_bytes=self._window.memory()[0],
            recent_since_ms=since_ms if since_ms > NEVER else None,
            engine_reads=self._engine.queries_running,
        )

    def size(self) -> StoreSize:
        found = self._engine.query_arrow(
            "SELECT (SELECT count() FROM samples) AS samples, sum(bytes_on_disk) AS bytes "
            f"FROM {self._engine.system_table('parts')} "
            f"WHERE active AND database = {sql.text(self._engine.database)}",
            settings=UNAVAILABLE_NODES,
        )
        return StoreSize(int(found["samples"][0].as_py()), int(found["bytes"][0].as_py()))

    def roll_up(self) -> int:
        """Make the rollups that are due now, without waiting for the background to do it."""
        return self._upkeep.roll_up()

    def evict_series(self) -> int:
        """Let series without recent samples leave memory, without waiting for the background to do it."""
        return self._upkeep.evict_series()

    def records_settled(self, timeout_s: float) -> bool:
        """Waits until all records told before are on disk, for so long at the most; whether they are."""
        return self._records.settled(timeout_s)

    def back_up(self, copies: Copies, target: Path, like: Path | None, stop: threading.Event) -> Manifest:
        """Embedded only; see backup.py. With what is only on its way to disk, if the disk takes it."""
        self._records.settled(_SETTLED_S)
        with suppress(StoreError, TimeoutError):
            self._writer.durable().result(_SETTLED_S)
        return back_up(self._engine, self._options.data_dir, target, copies=copies, like=like, stop=stop)

    def close(self) -> None:
        self._upkeep.close()
        try:
            self._records.close()
            self._writer.close()
            self._upkeep.save_activity()
        finally:
            self._engine.close()
