"""Texts that are made to look like a part of a statement come back from a real store as they were: the long
form of the test of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.torture.row import Outcome, Row
from servers import end_with_the_tests

if TYPE_CHECKING:
    from bench.torture.row import Wanted

_ROOT: Final = Path(__file__).resolve().parents[2]
_TEST: Final = "tests/fuzz/test_text_comes_back.py"
_LONGEST_S: Final = 3_600.0
_FAILED: Final = 1  # what pytest ends with; above that nothing was tried


def _run(wanted: Wanted) -> Outcome:
    """Once, however often it is asked for: it is the same each time."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "-p", "no:cacheprovider", _TEST]
    done = subprocess.run(
        command,
        cwd=_ROOT,
        env={**os.environ, "TRILENS_LONG": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_LONGEST_S,
        preexec_fn=end_with_the_tests,
    )
    (wanted.folder / "pytest.log").write_text(done.stdout, encoding="utf-8")
    if done.returncode > _FAILED:
        raise RuntimeError(done.stdout[-2_000:])
    return Outcome(done.returncode == 0, 1, done.stdout.strip().splitlines()[-1].strip("= "))


TEXT_COMES_BACK: Final = Row(
    "text-comes-back",
    "quotes, NULs and pieces of statements as names, labels and notes, of a real store",
    "each comes back as it was",
    1,
    "times",
    _run,
)
