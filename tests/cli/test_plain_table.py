"""A table on a narrow terminal, and in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from trilens.cli.plain_table import print_table

if TYPE_CHECKING:
    import pytest

TITLES = ["node", "uuid", "workload", "why", "doubts"]
ROWS = [
    ["h100-0001", "GPU-c0d05848-6394-ce37", "llm-pretrain-1", "waits for quota that another job has", ""],
    ["h100-0002", "GPU-5503f6fa-7674-6fd6", "sweep-12", "", ""],
]


def printed(
    width: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    if width is not None:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
    print_table(TITLES, ROWS, may_go=("uuid",), folds=("why",))
    return capsys.readouterr().out.splitlines()


def test_a_pipe_gets_every_column_on_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    lines = printed(None, monkeypatch, capsys)
    assert lines[0].split() == TITLES
    assert [line.split()[:3] for line in lines[1:]] == [row[:3] for row in ROWS]
    assert len(lines) == 3


def test_where_there_is_room_a_terminal_does_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(120, monkeypatch, capsys) == printed(None, monkeypatch, capsys)


def test_an_empty_column_goes_first_and_nobody_misses_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(88, monkeypatch, capsys)
    assert lines[0].split() == TITLES[:-1]
    assert "not shown" not in lines[-1]


def test_then_one_that_may_go_and_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert printed(60, monkeypatch, capsys) == [
        "node       workload        why",
        "h100-0001  llm-pretrain-1  waits for quota that another job",
        "                           has",
        "h100-0002  sweep-12",
        "not shown, for want of width: uuid (a pipe and --json have all)",
    ]


def test_only_sentences_are_folded_while_that_helps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = printed(42, monkeypatch, capsys)
    assert max(map(len, lines[:-1])) <= 42
    assert lines[1].startswith("h100-0001  llm-pretrain-1  waits for")


def test_of_two_columns_of_sentences_no_word_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    row = ["InferenceFirstTokenSlow", "demo/serving/autocomplete-6", "one in twenty takes 612.5ms or longer"]
    print_table(["alert", "of", "summary"], [row, ["x", "y", "z"]], folds=("of", "summary"))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    for start, end, told in ((25, 42, row[1]), (42, 60, row[2])):
        assert "".join(line[start:end] for line in lines[1:-1]).replace(" ", "") == told.replace(" ", "")
