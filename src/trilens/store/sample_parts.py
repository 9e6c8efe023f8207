"""What takes samples in, keeps the latest of them and reads them back, put together."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trilens.model.series import MAX_AHEAD_MS
from trilens.store.admission import Admission
from trilens.store.archive import Archive
from trilens.store.backfill import Backfill
from trilens.store.catalog import Catalog
from trilens.store.index import SeriesIndex
from trilens.store.inserts import MetricRow
from trilens.store.intake import Intake
from trilens.store.reader import Reader
from trilens.store.recall import Recall
from trilens.store.residents import Residents
from trilens.store.rows import load_metadata
from trilens.store.strips import StripReader, Strips
from trilens.store.warm import Warmer, restore
from trilens.store.window import RecentWindow

if TYPE_CHECKING:
    from trilens.store.engine import Engine
    from trilens.store.horizon import Horizon
    from trilens.store.options import StoreOptions
    from trilens.store.writer import Writer


class SampleParts:
    """With all that memory held before a start, read back from disk; the window is filled by `warmer`."""

    def __init__(self, options: StoreOptions, engine: Engine, horizon: Horizon, writer: Writer) -> None:
        keep_ms = int(options.series_in_memory.total_seconds() * 1000)
        archive = Archive(engine)
        strips = Strips(options.strips_bytes)
        admission = Admission(int(options.out_of_order.total_seconds() * 1000))
        self.index = SeriesIndex()
        self.window = RecentWindow(options.recent_bytes)
        self.residents = Residents(self.index, self.window, admission, keep_ms)
        self.intake = Intake(self.index, self.residents, self.window, writer, admission, strips)
        self.reader = Reader(
            engine,
            self.index,
            Recall(self.index, self.residents, archive),
            self.window,
            admission,
            writer,
            StripReader(strips, self.residents, admission, writer),
            horizon,
        )
        self.catalog = Catalog(self.index, archive, self.reader, self.intake)
        self.past = Backfill(engine, horizon, self.residents, self.intake, strips)
        self.warmer = Warmer(engine, self.index, self.window)
        latest_ms = int(time.time() * 1000) + MAX_AHEAD_MS
        restore(engine, self.index, self.residents, keep_ms, latest_ms)
        admission.heal(latest_ms)
        self.intake.restore_descriptions(MetricRow(*row) for row in load_metadata(engine))
