"""The `trilens` command in the test's own process: starting one takes longer than most commands do."""

from __future__ import annotations

import contextlib
import io
import sys
from typing import NamedTuple

import pytest

from trilens.cli.main import main


class Answer(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def trilens_here(*arguments: str) -> Answer:
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        patch.setattr(sys, "argv", ["trilens", *arguments])
        main()
    return Answer(int(ended.value.code or 0), out.getvalue(), err.getvalue())
