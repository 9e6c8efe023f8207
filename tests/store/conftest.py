"""Engines for tests, in both sizes: empty ones that the tests of a module share, and new ones.

chDB holds one directory a process at a time, so a test that opens one of its own asks for a `location` or
`directory`, which closes the shared one; a test that needs a second process, or a crash, starts one (see
crash_child.py). Never fork: chDB does not bear it.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from sizes import CHOSEN, CHOSEN_FOR_TABLES, SIZES

from trilens.store.engine import Engine
from trilens.store.engine_settings import EngineOptions
from trilens.store.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

HERE = Path(__file__).parent
CLUSTER = "gpus"
OPTIONS = {"cluster": EngineOptions(cluster=CLUSTER)}


@pytest.fixture(scope="session")
def clickhouse_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An HTTP server that speaks as ClickHouse does."""
    with _front(tmp_path_factory.mktemp("clickhouse")) as url:
        yield url


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Another, which is a node of a cluster."""
    with _front(tmp_path_factory.mktemp("cluster") / "node", CLUSTER) as url:
        yield url


@contextmanager
def _front(*arguments: str | Path) -> Iterator[str]:
    command = [sys.executable, str(HERE / "http_front.py"), *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        port = front.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}"
        front.communicate(timeout=30)


@contextmanager
def new_database(server: str) -> Iterator[str]:
    """The URL of one on the server. It is dropped: threads look after tables that nobody uses, too."""
    name = f"test_{uuid.uuid4().hex}"
    yield f"{server}/{name}"
    drop = f"DROP DATABASE IF EXISTS {name} SYNC"
    httpx.post(server, content=drop, timeout=60, trust_env=False).raise_for_status()


_FRONTS = {"server": "clickhouse", "cluster": "cluster"}


class SharedEngines:
    """One of each kind for the tests of a module: to make the tables takes longer than most of them do."""

    def __init__(self, new_location: Callable[[str], AbstractContextManager[str | Path]]) -> None:
        self._new_location = new_location
        self._open: dict[str, tuple[Engine, ExitStack]] = {}

    def emptied(self, size: str) -> Engine:
        if size not in self._open:
            return self._opened(size)
        engine, _ = self._open[size]
        filled = "database = currentDatabase() AND total_rows > 0 AND name != 'schema_version'"
        found = engine.query_arrow(f"SELECT name FROM system.tables WHERE {filled}")
        for name in found["name"].to_pylist():
            engine.command(f"TRUNCATE TABLE {name}")
        return engine

    def close(self, size: str) -> None:
        if size in self._open:
            self._open.pop(size)[1].close()

    def _opened(self, size: str) -> Engine:
        with ExitStack() as stack:
            engine = stack.enter_context(
                Engine.open(stack.enter_context(self._new_location(size)), OPTIONS.get(size))
            )
            migrate(engine)
            self._open[size] = engine, stack.pop_all()
        return engine


@pytest.fixture(scope="module")
def shared_engines(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SharedEngines]:
    def new_location(size: str) -> AbstractContextManager[str | Path]:
        if size == "embedded":
            return nullcontext(tmp_path_factory.mktemp("engine") / "data")
        return new_database(request.getfixturevalue(f"{_FRONTS[size]}_url"))

    engines = SharedEngines(new_location)
    yield engines
    for size in (*SIZES, *OPTIONS):
        engines.close(size)


@pytest.fixture(params=CHOSEN)
def engine(request: pytest.FixtureRequest, shared_engines: SharedEngines) -> Engine:
    """Its tables are empty. A test that changes the tables themselves takes a `new_engine`."""
    return shared_engines.emptied(request.param)


@pytest.fixture(scope="module", params=CHOSEN_FOR_TABLES)
def tables(request: pytest.FixtureRequest, shared_engines: SharedEngines) -> Engine:
    """One for all tests of a module, which fill them once, or empty what they need empty."""
    return shared_engines.emptied(request.param)


@pytest.fixture
def on_cluster(shared_engines: SharedEngines) -> Engine:
    """Its tables are those of a cluster, and empty."""
    return shared_engines.emptied("cluster")


@pytest.fixture
def embedded(shared_engines: SharedEngines) -> Engine:
    """For what only the embedded engine does."""
    return shared_engines.emptied("embedded")


@pytest.fixture
def directory(shared_engines: SharedEngines, tmp_path: Path) -> Path:
    """Where an embedded engine may be opened."""
    shared_engines.close("embedded")
    return tmp_path / "data"


@pytest.fixture
def database(clickhouse_url: str) -> Iterator[str]:
    with new_database(clickhouse_url) as url:
        yield url


@pytest.fixture
def database_on_cluster(cluster_url: str) -> Iterator[str]:
    with new_database(cluster_url) as url:
        yield url


@pytest.fixture(params=SIZES)
def location(request: pytest.FixtureRequest) -> str | Path:
    """Where an engine may be opened: a directory, or a database of its own on the server."""
    found: str | Path = request.getfixturevalue("directory" if request.param == "embedded" else "database")
    return found


@pytest.fixture
def new_engine(location: str | Path) -> Iterator[Engine]:
    with Engine.open(location) as opened:
        migrate(opened)
        yield opened
