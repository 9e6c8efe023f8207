"""Tests that are killed leave no server behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from servers import free_port, until

PROGRAM = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from servers import running
command = [sys.executable, "-m", "http.server", sys.argv[2], "--bind", "127.0.0.1"]
with running(command, f"http://127.0.0.1:{sys.argv[2]}/", log=Path(sys.argv[3])) as process:
    print(process.pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody tells a process that its parent died")
def test_a_server_ends_with_the_tests_that_began_it(tmp_path: Path) -> None:
    folder = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", PROGRAM, folder, str(free_port()), str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as tests:
        assert tests.stdout is not None
        server = Path("/proc", tests.stdout.readline().strip(), "stat")
        assert server.exists()
        tests.kill()
    until(lambda: is_gone(server), "the server goes on")


def is_gone(process: Path) -> bool:
    try:
        return process.read_text().rpartition(")")[2].split()[0] == "Z"  # nobody may be there to ask for it
    except (FileNotFoundError, ProcessLookupError):
        return True
