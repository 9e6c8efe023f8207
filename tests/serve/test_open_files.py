"""The limit of open files that a server gives itself, each tried in a process of its own."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

TRIED = """
import resource, sys
from trilens.serve.logs import configure_logs
from trilens.serve.open_files import may_open_many
from trilens.settings.load import load_settings
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
configure_logs(load_settings(environ={}).server)
may_open_many(2048)
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def tried(soft: int, hard: int) -> tuple[str, str]:
    """What the limits are then, and what is said."""
    done = subprocess.run(
        [sys.executable, "-c", TRIED, str(soft), str(hard)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip(), done.stderr


@pytest.fixture(autouse=True)
def enough_is_allowed() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4096:
        pytest.skip("this process may not open as many files itself")


def test_a_server_takes_as_many_as_it_may_have() -> None:
    assert tried(1024, 4096) == ("4096 4096", "")


def test_too_few_for_its_connections_are_told_of() -> None:
    limits, said = tried(512, 1024)
    assert limits == "1024 1024"
    assert "fewer files open than it may need" in said
    assert "LimitNOFILE" in said
