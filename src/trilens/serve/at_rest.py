"""Queries of a data directory that no server has open, and backfills into one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from trilens.collect.backfill import BackfillReceiver
from trilens.model.errors import ConfigError
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.serve.params import Params
from trilens.serve.queries import body_of, range_of
from trilens.serve.storage import open_store
from trilens.settings.storage import StorageSettings
from trilens.store.engine import ENGINE_DIR

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path


def answer_at_rest(directory: Path, params: Mapping[str, str]) -> bytes:
    """The body that /api/v1/query or, with a `start`, query_range would answer."""
    if not directory.is_dir():
        raise ConfigError(f"no such data directory: {directory}")
    if not (directory / ENGINE_DIR).is_dir():  # opening would make one, wherever this is
        raise ConfigError(f"{directory} holds no Trilens data")
    given = Params(list(params.items()))
    store = open_store(StorageSettings(data_dir=directory), upkeep=False)
    try:
        engine, guard = Engine(store), QueryGuard()
        if params.get("start"):
            return body_of(engine.range(params["query"], *range_of(given), guard))
        return body_of(engine.instant(params["query"], given.time_ms("time"), guard))
    finally:
        store.close()


@contextmanager
def backfill_at_rest(directory: Path) -> Iterator[BackfillReceiver]:
    """Into a directory that may be a new one: a server can be started on it afterwards."""
    if directory.exists() and not (directory / ENGINE_DIR).is_dir() and any(directory.iterdir()):
        raise ConfigError(f"{directory} holds other things, and no Trilens data")
    store = open_store(StorageSettings(data_dir=directory), upkeep=False)
    try:
        yield BackfillReceiver(store)
    finally:
        store.close()
