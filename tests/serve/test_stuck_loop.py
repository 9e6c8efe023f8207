"""A server whose loop does not turn any more says where it is."""

from __future__ import annotations

import subprocess
import sys
import threading
from itertools import takewhile
from typing import TYPE_CHECKING

from trilens.serve.stuck_loop import StuckLoop

if TYPE_CHECKING:
    import pytest

PROGRAM = """
import asyncio, threading, types
from trilens.serve import run

def a_defect():
    threading.Event().wait()

async def ticks(_counter):
    asyncio.get_running_loop().call_soon(a_defect)
    return False

run._STUCK_S = 1
server = types.SimpleNamespace(on_tick=ticks, _stopping=asyncio.Event())
asyncio.run(run._Server.main_loop(server))
"""

# Frames and code come and go in many threads while every one of them is looked at, again and again.
BUSY = """
import sys, threading, time
from trilens.serve.stuck_loop import StuckLoop

def down(n):
    return n and down(n - 1)

def given(n):
    if n:
        yield from given(n - 1)
    yield n

def busy():
    while not over.is_set():
        exec(compile("def f(n): return [*given(n)]\\nf(20)", "made", "exec"), {"given": given})
        down(200)

def short():
    while not over.is_set():
        thread = threading.Thread(target=down, args=(50,))
        thread.start()
        thread.join()

sys.setswitchinterval(0.0005)
over = threading.Event()
for work in [busy] * 30 + [short] * 10:
    threading.Thread(target=work, daemon=True).start()
with StuckLoop(0.002) as stuck:
    for _ in range(60):
        time.sleep(0.02)
        stuck.turned()
over.set()
"""


def test_a_loop_that_is_stuck_tells_where() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = list(takewhile(lambda line: "a_defect" not in line, process.stderr))
        process.kill()
    assert any("its loop has not turned" in line for line in told)


def test_one_that_turns_tells_nothing_and_ends_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    with StuckLoop(after_s=3600) as stuck:
        stuck.turned()
    assert capfd.readouterr().err == ""
    assert "trilens-stuck-loop" not in {thread.name for thread in threading.enumerate()}


def test_threads_that_run_meanwhile_survive_the_look() -> None:
    """faulthandler's own timer, which does not wait for them, kills such a process within seconds."""
    with subprocess.Popen([sys.executable, "-c", BUSY], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        looks = sum(b"in busy" in line for line in process.stderr)
    assert process.returncode == 0
    assert looks > 0
