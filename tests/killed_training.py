"""A program that trains until it is killed, and tells what is on its disk."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from servers import end_with_the_tests
from trilens_process import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Tells on its output when the records of a step are written: from then on a kill must not lose it.
PROGRAM = """
import sys, time
import trilens
from trilens.sdk.outbox import Outbox

put = Outbox.put

def told(outbox, sections):
    put(outbox, sections)
    if "steps" in sections:
        print(max(sections["steps"]["step"]), time.time_ns(), flush=True)

Outbox.put = told
run = trilens.init("killed", run_id=sys.argv[1], metrics=False)
while True:
    for batch in run.data([["a", "b"]], dataset="letters"):
        with run.step():
            run.log(loss=1.0)
    time.sleep(0.15)
"""


@contextmanager
def program(server: str, spool: Path, log: Path, run: str = "run-1") -> Iterator[subprocess.Popen[str]]:
    environment = clean_environment(TRILENS_SERVER=server, TRILENS_SPOOL=str(spool), TRILENS_INTERVAL_S="0.1")
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, run],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=end_with_the_tests,
        )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
