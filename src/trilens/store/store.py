"""The store as the rest of Trilens sees it: SampleSink, SeriesSource, catalog and records in one."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.model.series import MAX_AHEAD_MS
from trilens.store.admission import Admission
from trilens.store.archive import Archive
from trilens.store.backfill import Backfill
from trilens.store.catalog import Catalog
from trilens.store.engine import Engine, EngineOptions
from trilens.store.events import EventRecords
from trilens.store.findings import FindingRecords
from trilens.store.fixes import FixRecords
from trilens.store.gpus import GpuRecords
from trilens.store.imports import ImportRecords
from trilens.store.incidents import IncidentRecords
from trilens.store.index import SeriesIndex
from trilens.store.inserts import MetricRow
from trilens.store.intake import Intake
from trilens.store.ledger import Ledger
from trilens.store.ledger_facts import LedgerFacts
from trilens.store.machines import MachineRecords
from trilens.store.migrations import migrate
from trilens.store.reader import Reader
from trilens.store.recall import Recall
from trilens.store.record_writer import RecordWriter
from trilens.store.residents import Residents
from trilens.store.retention import apply_retention
from trilens.store.rollups import RollupJob
from trilens.store.rows import load_metadata
from trilens.store.runs import RunRecords
from trilens.store.step_grids import StepGrids
from trilens.store.strips import StripReader, Strips
from trilens.store.tracked_runs import TrackedRunRecords
from trilens.store.upkeep import Upkeep
from trilens.store.warm import Warmer, restore
from trilens.store.window import RecentWindow
from trilens.store.workloads import WorkloadRecords
from trilens.store.writer import Writer

if TYPE_CHECKING:
    from trilens.model.labels import Symbols
    from trilens.store.horizon import Horizon
    from trilens.store.options import StoreOptions

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoreHealth:
    ready: bool
    read_only_reason: str | None
    damage: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoreStats:
    series: int
    samples: int
    disk_bytes: int
    pending_samples: int
    written_samples: int
    recent_bytes: int
    engine_reads: int  # running in the engine now


class Store:
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
        self._engine = engine
        self._records = records
        self.workloads = WorkloadRecords(engine, records)
        self.gpus = GpuRecords(engine, records)
        self.events = EventRecords(engine, records)
        self.findings = FindingRecords(engine, records)
        self.incidents = IncidentRecords(engine, records)
        self.fixes = FixRecords(engine, records)
        self.runs = RunRecords(engine)
        self.step_grids = StepGrids(engine)
        self.machines = MachineRecords(engine, records)
        self.imports = ImportRecords(engine)
        self.ledger = Ledger(engine)
        self.ledger_facts = LedgerFacts(engine, self.runs, self.machines, self.imports)
        self.tracked_runs = TrackedRunRecords(engine, records)
        self._index = SeriesIndex()
        self._window = RecentWindow(options.recent_bytes)
        self._admission = Admission(int(options.out_of_order.total_seconds() * 1000))
        self._writer = writer
        archive = Archive(engine)
        keep_ms = int(options.series_in_memory.total_seconds() * 1000)
        self._residents = Residents(self._index, self._window, self._admission, keep_ms)
        strips = Strips(options.strips_bytes)
        self._intake = Intake(
            self._index, self._residents, self._window, self._writer, self._admission, strips
        )
        recall = Recall(self._index, self._residents, archive)
        self._reader = Reader(
            engine,
            self._index,
            recall,
            self._window,
            self._admission,
            self._writer,
            StripReader(strips, self._residents, self._admission, self._writer),
            horizon,
        )
        self._catalog = Catalog(self._index, archive, self._reader, self._intake)
        latest_ms = int(time.time() * 1000) + MAX_AHEAD_MS
        restore(engine, self._index, self._residents, keep_ms, latest_ms)
        self._admission.heal(latest_ms)
        self._intake.restore_descriptions(MetricRow(*row) for row in load_metadata(engine))
        warmer = Warmer(engine, self._index, self._window)
        self._rollups = RollupJob(engine, horizon)
        self._upkeep = Upkeep(
            engine,
            self._residents,
            self._writer,
            self._rollups,
            self.runs,
            self.ledger,
            self.imports,
            options.kept_for,
            warmer.run,
        )
        if upkeep:
            self._upkeep.start()

        self.series = self._residents.series
        self.series_of = self._residents.series_of
        self.held = self._residents.held
        self.append = self._intake.append
        self.durable = self._intake.durable
        self.describe = self._intake.describe
        self.select = self._reader.select
        self.grid = self._reader.grid
        self.label_names = self._catalog.label_names
        self.label_values = self._catalog.label_values
        self.series_labels = self._catalog.series_labels
        self.labels_in_memory = self._catalog.labels_in_memory
        self.metadata = self._catalog.metadata
        past = Backfill(engine, horizon, self._residents, self._intake, strips)
        self.backfill = past.write
        self.put_past = past.put

    @classmethod
    def open(cls, options: StoreOptions, *, upkeep: bool = True) -> Store:
        """With `upkeep` False nothing happens in the background, and retention stays as it was set: for a
        directory at rest, whose server's settings are not known."""
        engine = Engine.open(
            options.location,
            EngineOptions(
                memory_bytes=options.memory_bytes, username=options.username, password=options.password
            ),
        )
        with ExitStack() as undo:  # what was opened is closed again, threads too, when a later step fails
            undo.callback(engine.close)
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
        return StoreHealth(writer.state in ("ok", "read-only"), writer.reason, damage)

    def stats(self) -> StoreStats:
        found = self._engine.query_arrow(
            "SELECT sumIf(rows, table = 'samples') AS samples, sum(bytes_on_disk) AS bytes "
            "FROM system.parts WHERE active AND database = currentDatabase()"
        )
        writer = self._writer.health()
        return StoreStats(
            series=len(self._index),
            samples=int(found["samples"][0].as_py()),
            disk_bytes=int(found["bytes"][0].as_py()),
            pending_samples=writer.pending_rows,
            written_samples=writer.written_rows,
            recent_bytes=self._window.memory()[0],
            engine_reads=self._engine.queries_running,
        )

    def roll_up(self) -> int:
        """Make the rollups that are due now, without waiting for the background to do it."""
        return self._upkeep.roll_up()

    def evict_series(self) -> int:
        """Let series without recent samples leave memory, without waiting for the background to do it."""
        return self._upkeep.evict_series()

    def records_settled(self, timeout_s: float) -> bool:
        """Waits until all records told before are on disk, for so long at the most; whether they are."""
        return self._records.settled(timeout_s)

    def close(self) -> None:
        self._upkeep.close()
        try:
            self._records.close()
            self._writer.close()
            self._upkeep.save_activity()
        finally:
            self._engine.close()
