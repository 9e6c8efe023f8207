"""A query that nobody waits for any more does not wait either: not for the disk, not for other queries."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from trilens.model.errors import QueryCancelled, StoreError
from trilens.model.labels import make_labels
from trilens.model.query import QueryGuard
from trilens.store import store as store_module
from trilens.store.kill import Killer
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from pathlib import Path

NOW = 1_700_000_000_000


def test_a_cancelled_query_does_not_wait_for_the_writer(tmp_path: Path) -> None:
    guard = QueryGuard(timeout_s=600)
    outcome: list[type[BaseException]] = []
    with closing(Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False)) as store:

        def settle() -> None:
            with pytest.raises(QueryCancelled) as caught:
                store._reader._settle(NOW, guard)
            outcome.append(caught.type)

        with store._engine._write_lock:  # the disk takes its time
            ref = store.series(make_labels({"__name__": "power"}))
            store.append(np.array([ref]).astype(np.int32), np.array([NOW]), np.ones(1))
            reading = threading.Thread(target=settle)
            reading.start()
            guard.cancel()
            reading.join(timeout=30)
            assert outcome == [QueryCancelled]  # although nothing was written meanwhile


class SlowToDie:
    """A link to an engine in which a query called `immortal` outlives every attempt to kill it."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.killed: dict[str, threading.Event] = {"immortal": threading.Event(), "mortal": threading.Event()}

    def command(self, sql: str) -> None:
        self.commands.append(sql)
        for tag, killed in self.killed.items():
            if f"'{tag}'" in sql:
                killed.set()

    def query(self, sql: str) -> Any: ...
    def insert(self, table: str, rows: Any) -> None: ...
    def close(self) -> None: ...


def test_a_query_that_does_not_die_keeps_no_other_alive() -> None:
    link = SlowToDie()
    killer = Killer(link)
    with killer.watching("immortal") as immortal:
        immortal.kill()
        assert link.killed["immortal"].wait(30)
        with killer.watching("mortal") as mortal:
            mortal.kill()
            assert link.killed["mortal"].wait(30)
    killer.close()


def test_a_store_that_fails_to_open_leaves_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("the index does not load")

    before = set(threading.enumerate())
    with monkeypatch.context() as patch:
        patch.setattr(store_module, "Upkeep", broken)
        with pytest.raises(StoreError, match="does not load"):
            Store.open(StoreOptions(data_dir=tmp_path / "data"))
    assert set(threading.enumerate()) == before
    Store.open(StoreOptions(data_dir=tmp_path / "data"), upkeep=False).close()  # and the directory is free
