"""No thread of the SDK imports anything: a child that is forked meanwhile would wait for it for ever."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from records_server import RecordsServer, Reply, listening

if TYPE_CHECKING:
    from pathlib import Path

TRAINS = """
import sys, trilens
run = trilens.init(name="r")
before = set(sys.modules)
with run.step():
    run.log({"loss": 1.0})
sys.stdin.readline()
print(sorted(set(sys.modules) - before))
"""
SERVES = """
import sys
from trilens import serving
serving.address()
before = set(sys.modules)
sys.stdin.readline()
print(sorted(set(sys.modules) - before))
"""


@pytest.mark.parametrize("program", [TRAINS, SERVES], ids=["training", "serving"])
def test_what_threads_need_is_loaded_before_they_begin(program: str, tmp_path: Path) -> None:
    server = RecordsServer()
    server.bad_replies.append(Reply(200))
    with listening(server) as url:
        environment = {**os.environ, "TRILENS_SERVER": url, "TRILENS_SPOOL": str(tmp_path)}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        command = [sys.executable, "-c", program]
        with subprocess.Popen(command, text=True, env=environment, **pipes) as running:
            server.wait_until(lambda: bool(server.requests))
            told, _ = running.communicate("go on\n", timeout=30)
    assert told == "[]\n"
