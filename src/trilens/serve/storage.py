"""The store as the settings want it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.serve.lean import keep_pandas_out
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.settings.storage import StorageSettings


def open_store(
    storage: StorageSettings, *, upkeep: bool = True, may_write: Callable[[], bool] | None = None
) -> Store:
    """`may_write` is asked before anything is written; None: always."""
    keep_pandas_out()
    return Store.open(
        StoreOptions(
            data_dir=storage.data_dir,
            url=storage.url,
            username=storage.username,
            password=storage.read_password(),
            cluster=storage.cluster,
            insert_quorum=storage.insert_quorum,
            may_write=may_write,
            retention=storage.retention,
            retention_5m=storage.retention_5m,
            retention_1h=storage.retention_1h,
            retention_records=storage.retention_records,
            retention_steps=storage.retention_steps,
            retention_ledger=storage.retention_ledger,
            out_of_order=storage.out_of_order_time_window,
            series_in_memory=storage.series_in_memory,
            recent_bytes=int(storage.recent_memory),
            strips_bytes=int(storage.recent_memory) // 10,
            memory_bytes=int(storage.memory_limit),
            backup_dir=storage.backups,
        ),
        upkeep=upkeep,
    )
