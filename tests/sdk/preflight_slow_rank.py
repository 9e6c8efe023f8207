"""`trilens preflight` on two ranks and two nodes, rank 1's processor being slow: for test_preflight.py.

Rank 1 is forked from rank 0, because loading PyTorch takes longer than the preflight. What a rank prints goes
to a file of its number in the folder of the first argument, and the exit code of rank 1 beside it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch  # noqa: F401 - before the fork

from trilens.cli.main import main
from trilens.sdk.distributed.preflight.measure import Bench

folder = Path(sys.argv.pop(1))
second = os.fork()
rank = "0" if second else "1"
os.environ.update(RANK=rank, LOCAL_RANK="0", WORLD_SIZE="2", NODE_NAME=f"node-{rank}")
if rank == "1":
    measured = Bench.compute
    Bench.compute = lambda bench: measured(bench) / 20  # type: ignore[method-assign]
sys.stdout = (folder / rank).open("w")
try:
    main()
finally:
    if second:
        code = os.waitstatus_to_exitcode(os.waitpid(second, 0)[1])
        (folder / "exit code of rank 1").write_text(str(code))
