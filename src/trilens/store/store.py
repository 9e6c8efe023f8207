"""The store as the rest of Trilens sees it: a SampleSink, a SeriesSource and a catalog in one."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trilens.store.admission import Admission
from trilens.store.catalog import Catalog
from trilens.store.engine import Engine, EngineOptions
from trilens.store.history import History
from trilens.store.index import SeriesIndex
from trilens.store.inserts import MetricRow
from trilens.store.intake import MAX_AHEAD_MS, Intake
from trilens.store.migrations import migrate
from trilens.store.reader import Reader
from trilens.store.retention import Retention, apply_retention
from trilens.store.rollups import RollupJob
from trilens.store.rows import load_metadata
from trilens.store.upkeep import Upkeep
from trilens.store.warm import Warmer, restore
from trilens.store.window import RecentWindow
from trilens.store.writer import Writer

if TYPE_CHECKING:
    from trilens.model.labels import Symbols
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


class Store:
    """Thread-safe. `Store.open`, use, `close`; what was appended before `close` is on disk after it."""

    def __init__(self, options: StoreOptions, engine: Engine, *, upkeep: bool) -> None:
        self._engine = engine
        self._index = SeriesIndex()
        self._window = RecentWindow(options.recent_bytes)
        self._admission = Admission(int(options.out_of_order.total_seconds() * 1000))
        horizon = RollupJob.restore(engine)
        self._writer = Writer(engine, horizon)
        self._intake = Intake(self._index, self._window, self._writer, self._admission)
        self._reader = Reader(engine, self._index, self._window, self._admission, self._writer, horizon)
        self._catalog = Catalog(self._index, self._reader, self._intake)
        restore(engine, self._index, self._intake, self._admission)
        self._admission.heal(int(time.time() * 1000) + MAX_AHEAD_MS)
        self._intake.restore_descriptions(MetricRow(*row) for row in load_metadata(engine))
        held = np.arange(len(self._index), dtype=np.int32)
        self._window.cut(held, self._admission.newest_t[held])
        warmer = Warmer(engine, self._index, self._window, held)
        self._rollups = RollupJob(engine, horizon)
        self._upkeep = Upkeep(
            engine, self._index, self._admission, self._rollups, options.retention, warmer.run
        )
        self._history = History(engine, horizon, self._index, self._intake, self._admission)
        if upkeep:
            self._upkeep.start()

        self.series = self._intake.series
        self.append = self._intake.append
        self.durable = self._intake.durable
        self.describe = self._intake.describe
        self.select = self._reader.select
        self.grid = self._reader.grid
        self.label_names = self._catalog.label_names
        self.label_values = self._catalog.label_values
        self.series_labels = self._catalog.series_labels
        self.metadata = self._catalog.metadata
        self.backfill = self._history.backfill

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
        try:
            migrate(engine)
            if upkeep:
                keep = Retention(options.retention, options.retention_5m, options.retention_1h)
                apply_retention(engine, keep)
            return cls(options, engine, upkeep=upkeep)
        except BaseException:
            engine.close()
            raise

    @property
    def symbols(self) -> Symbols:
        return self._index.symbols

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
        )

    def roll_up(self) -> int:
        """Make the rollups that are due now, without waiting for the background to do it."""
        return self._upkeep.roll_up()

    def close(self) -> None:
        self._upkeep.close()
        try:
            self._writer.close()
            self._upkeep.save_activity()
        finally:
            self._engine.close()
