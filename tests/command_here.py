"""The `trilens` command in the test's own process: starting one takes longer than most commands do."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest

from trilens.cli.main import main
from trilens_process import clean_environment


class Answer(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def trilens_here(*arguments: str, cwd: Path | None = None, **environ: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["trilens", *arguments]),
        patch.dict(os.environ, clean_environment(**environ), clear=True),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Answer(int(ended.value.code or 0), out.getvalue(), err.getvalue())
