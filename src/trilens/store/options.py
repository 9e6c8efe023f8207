"""What a store is opened with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from trilens.store.retention import Retention

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StoreOptions:
    data_dir: Path = Path("trilens-data")
    url: str | None = None  # a ClickHouse server instead of the directory
    username: str | None = None
    password: str | None = None
    retention: timedelta = timedelta(days=15)
    retention_5m: timedelta = timedelta(days=90)
    retention_1h: timedelta = timedelta(days=400)
    retention_records: timedelta = timedelta(days=400)
    retention_steps: timedelta = timedelta(days=90)
    retention_ledger: timedelta = timedelta(days=1095)
    out_of_order: timedelta = timedelta(0)
    series_in_memory: timedelta = timedelta(hours=48)  # after a series' last sample
    recent_bytes: int = 640 * _MIB
    strips_bytes: int = 64 * _MIB
    memory_bytes: int = 1024 * _MIB

    @property
    def location(self) -> str | Path:
        return self.url or self.data_dir

    @property
    def kept_for(self) -> Retention:
        return Retention(
            self.retention,
            self.retention_5m,
            self.retention_1h,
            self.retention_records,
            self.retention_steps,
            self.retention_ledger,
        )
