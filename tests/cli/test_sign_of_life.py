"""A long answer shows that something goes on: on a terminal only, on stderr, and only where it is long."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from trilens.cli import progress

if TYPE_CHECKING:
    import pytest


def test_a_terminal_sees_that_something_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rich.progress import Progress

    begun = threading.Event()
    start = Progress.start

    def noticed(shown: Progress) -> None:
        start(shown)
        begun.set()

    monkeypatch.setattr(Progress, "start", noticed)
    monkeypatch.setattr(progress, "_PATIENCE_S", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.waiting("looking into llm"):
        assert begun.wait(30)
    said = capsys.readouterr()
    assert "looking into llm" in said.err
    assert said.out == ""


def test_what_is_quick_and_what_goes_to_a_file_shows_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.waiting("a pipe"):
        pass
    monkeypatch.setattr(progress, "_PATIENCE_S", 600.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress.waiting("quick"):
        pass
    said = capsys.readouterr()
    assert "pipe" not in said.err
    assert "quick" not in said.err
