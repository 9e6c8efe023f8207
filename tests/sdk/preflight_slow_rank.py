"""`trilens preflight` as a rank of two runs it, but rank 1's processor is slow: for test_preflight.py."""

from __future__ import annotations

import os

from trilens.cli.main import main
from trilens.sdk.distributed.preflight.measure import Bench

if os.environ["RANK"] == "1":
    measured = Bench.compute
    Bench.compute = lambda bench: measured(bench) / 20  # type: ignore[method-assign]

main()
