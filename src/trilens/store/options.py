"""What a store is opened with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from trilens.store.retention import Retention

if TYPE_CHECKING:
    from collections.abc import Callable

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class StoreOptions:
    data_dir: Path = Path("trilens-data")
    url: str | None = None  # a ClickHouse server instead of the directory
    username: str | None = None
    password: str | None = None
    cluster: str | None = None  # of ClickHouse servers, of which `url` is one
    insert_quorum: str = "auto"
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
    may_write: Callable[[], bool] | None = None  # asked before each insert or change; None: always
    backup_dir: Path | None = None  # of the embedded engine; None: no backups are made

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
