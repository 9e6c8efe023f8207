"""A server that crashes ends, so that whoever watches it starts it again, and says where it was."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from trilens_process import server

if TYPE_CHECKING:
    from pathlib import Path


def test_a_crash_ends_it_at_once_with_where_each_thread_was(tmp_path: Path) -> None:
    with server(tmp_path) as (_, process):
        process.send_signal(signal.SIGSEGV)
        assert process.wait(60) == -signal.SIGSEGV
    told = (tmp_path / "log").read_text()
    assert "Fatal Python error: Segmentation fault" in told
    assert "most recent call first" in told
