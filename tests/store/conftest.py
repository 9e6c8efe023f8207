"""An engine for every test, in both sizes.

chDB holds one directory a process at a time, so `engine` opens it for one test and closes it after; a test
that needs a second process, or a crash, starts one (see crash_child.py). Never fork: chDB does not bear it.
"""

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trilens.store.engine import Engine
from trilens.store.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def clickhouse_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An HTTP server that speaks as ClickHouse does."""
    command = [sys.executable, str(HERE / "http_front.py"), str(tmp_path_factory.mktemp("clickhouse"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        port = front.stdout.readline().strip()
        yield f"http://127.0.0.1:{port}"
        front.communicate(timeout=30)


@pytest.fixture(params=["embedded", "server"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str | Path:
    """Where a fresh engine may be opened: a directory, or a database of its own on the server."""
    if request.param == "embedded":
        return tmp_path / "data"
    url = request.getfixturevalue("clickhouse_url")
    return f"{url}/test_{uuid.uuid4().hex}"


@pytest.fixture
def engine(location: str | Path) -> Iterator[Engine]:
    with Engine.open(location) as opened:
        migrate(opened)
        yield opened


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Engine]:
    """For what only the embedded engine does."""
    with Engine.open(tmp_path / "data") as opened:
        migrate(opened)
        yield opened
