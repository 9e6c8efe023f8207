"""A server whose loop does not turn any more says where it is."""

from __future__ import annotations

import subprocess
import sys
from itertools import takewhile

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


def test_a_loop_that_is_stuck_tells_where() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = list(takewhile(lambda line: "a_defect" not in line, process.stderr))
        process.kill()
    assert any("Timeout" in line for line in told)
