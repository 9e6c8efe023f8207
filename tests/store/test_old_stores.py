"""Stores that older Trilens left behind open with today's, with all that was in them, and take more.

tests/store/kept has one for each schema that ever was on main; tools/kept-stores says how they were made.
"""

from __future__ import annotations

import json
import tarfile
import time
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.matcher import Matcher
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest
from trilens.store.engine import Engine
from trilens.store.migrations import MIGRATIONS, current_version, migrate
from trilens.store.options import StoreOptions
from trilens.store.store import Store
from trilens.store.workloads import Span

KEPT = Path(__file__).with_name("kept")
NAMES = sorted((path.name for path in KEPT.glob("v*.tar.xz")), key=lambda name: int(name[1:].split(".")[0]))
FOREVER = timedelta(days=20_000)  # as these stores were made; the engine counts to the year 2106
ON_THEIR_WAY = {3, 5, 8, 11}  # they came together with the next
SERIES, SAMPLES = 4, 30  # as tools/fill_old_store.py writes them


@pytest.fixture(params=NAMES)
def kept(request: pytest.FixtureRequest, directory: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of one, and what was in it."""
    folder = directory.parent / "kept"
    with tarfile.open(KEPT / request.param) as archive:
        archive.extractall(folder, filter="data")
    contents: dict[str, Any] = json.loads((folder / "contents.json").read_text())
    return folder / "data", contents


def opened(directory: Path) -> Store:
    names = [field.name for field in fields(StoreOptions) if field.name.startswith("retention")]
    return Store.open(StoreOptions(data_dir=directory, **dict.fromkeys(names, FOREVER)))


def read_kept(store: Store) -> dict[str, list[float]]:
    request = SelectRequest((Matcher(METRIC_NAME, "=", "kept"),), 0, int(time.time() * 1000) + 1)
    found = store.select(request, QueryGuard())
    block = found.samples
    return {
        found.labels.labels(i)["i"]: block.v[block.offsets[i] : block.offsets[i + 1]].tolist()
        for i in range(SERIES)
    }


def test_every_row_is_there_after_the_migrations(kept: tuple[Path, dict[str, Any]]) -> None:
    directory, contents = kept
    with Engine.open(directory) as engine:
        assert current_version(engine) == contents["version"]
        assert migrate(engine) == MIGRATIONS[-1].version
        for name, table in contents["tables"].items():
            if name == "schema_version":
                continue
            summed = f"toString(groupBitXor(cityHash64({table['row']})))"
            (found,) = engine.query_arrow(
                f"SELECT count() AS all_rows, {summed} AS all_hashes FROM {name} {table['final']}"
            ).to_pylist()
            assert (name, found["all_rows"], found["all_hashes"]) == (name, table["rows"], table["hash"])


def test_it_is_read_and_written_like_any_other(kept: tuple[Path, dict[str, Any]]) -> None:
    directory, contents = kept
    rows = {name: table["rows"] for name, table in contents["tables"].items()}
    now_ms = int(time.time() * 1000)
    store = opened(directory)
    try:
        assert read_kept(store) == {str(i): [float(i + k) for k in range(SAMPLES)] for i in range(SERIES)}
        assert bool(rows.get("workloads")) == bool(store.workloads.during(Span(0, now_ms)))
        assert bool(rows.get("gpus")) == bool(store.gpus.gpus_at(seen_ms(store)))
        assert bool(rows.get("runs")) == bool(store.runs.runs())
        hours = store.ledger.hours(0, now_ms)
        assert rows.get("ledger_hours", 0) >= len(hours)
        assert bool(rows.get("ledger_hours")) == bool(hours)
        new = store.series(make_labels({METRIC_NAME: "kept", "i": "0"}))
        store.append(np.array([new], np.int32), np.array([now_ms]), np.array([99.0]))
        store.durable().result(60)
        assert read_kept(store)["0"][-1] == 99.0
    finally:
        store.close()
    store = opened(directory)
    try:
        assert read_kept(store)["0"][-2:] == [float(SAMPLES - 1), 99.0]
    finally:
        store.close()


def seen_ms(store: Store) -> int:
    """When GPUs were last seen there."""
    found = store.engine.query_arrow("SELECT max(from_ms) AS t FROM gpus")
    return int(found["t"][0].as_py() or 0)


def test_each_schema_that_ever_was_on_main_has_one() -> None:
    on_main = [one.version for one in MIGRATIONS if one.version not in ON_THEIR_WAY]
    assert [f"v{version}.tar.xz" for version in on_main] == NAMES, "tools/kept-stores makes one"
