"""Text with a time on every line: what is read, and what is refused with its line."""

from __future__ import annotations

import pytest

from trilens.collect.exposition import parse_backfill
from trilens.model.errors import ExpositionError

NEWEST = 1_800_000_000_000
MS = 1_700_000_000_000


def read(text: str, *, openmetrics: bool = True, first_line: int = 1):
    piece = parse_backfill(text.encode(), openmetrics=openmetrics, first_line=first_line, newest_ms=NEWEST)
    rows = zip(piece.owner.tolist(), piece.t_ms.tolist(), piece.values.tolist(), strict=True)
    return [(dict(piece.series[owner]), t, v) for owner, t, v in rows], piece


def test_times_and_values_of_both_formats() -> None:
    rows, piece = read(
        '# TYPE a gauge\n# HELP a What.\na{x="1 2"} 1 10\na{x="1 2"} 2.5 10.25\na NaN 0\n# EOF\n'
    )
    labels = {"__name__": "a", "x": "1 2"}
    assert rows[:2] == [(labels, 10_000, 1.0), (labels, 10_250, 2.5)]
    assert rows[2][2] != rows[2][2]
    assert piece.families == (("a", "gauge", "What.", ""),)
    text = f'\n# remark\na{{x="1 2",}} 1 {MS}\n a{{x="1 2",}} +Inf {MS + 1}\n'
    rows, _ = read(text, openmetrics=False)
    assert rows == [(labels, MS, 1.0), (labels, MS + 1, float("inf"))]
    assert read("")[0] == []


def test_one_series_however_its_labels_are_ordered() -> None:
    rows, piece = read('a{x="1",y="2"} 1 1\na{y="2",x="1"} 2 2\n')
    assert len(piece.series) == 1
    assert [t for _, t, _ in rows] == [1000, 2000]


def test_unusual_numbers_are_read_as_elsewhere() -> None:
    rows, _ = read("a 1 1\na +2. 2e0\na -.5 3.\na +Inf 4\n")
    assert [(t, v) for _, t, v in rows] == [(1000, 1.0), (2000, 2.0), (3000, -0.5), (4000, float("inf"))]


def test_buckets_have_one_spelling_when_the_type_is_repeated() -> None:
    rows, _ = read('# TYPE h histogram\nh_bucket{le="1"} 3 1\n')
    assert rows[0][0]["le"] == "1.0"


@pytest.mark.parametrize(
    ("text", "openmetrics", "line", "message"),
    [
        ("a 1 1\na 2\n", True, 2, "no timestamp"),
        ("a 1\n", False, 1, "no timestamp"),
        ("a 1 100000000001\na 1 \n", False, 2, "no timestamp"),
        ("a 1 1\na x 2\n", True, 2, "expected a value, got ' x 2'"),
        ("a 1 1\na 1 x\n", True, 2, "unexpected text after the sample"),
        ("a 1 1\na 1 inf\n", True, 2, "unexpected text"),
        ("a 1 1\na 1 1.5\n", False, 2, "unexpected text"),
        ("a 1 1\na 1 0x5\n", False, 2, "unexpected text"),
        ("a 1 1\n\na 1 2\n", True, 2, "no blank lines"),
        ("a 1 1\n# EOF\na 1 2\n", True, 3, "text after # EOF"),
        ("a 1 1\na 1 1700000000000\n", True, 2, "in the future; this format counts seconds"),
        ("a 1 1800000000001\n", False, 1, "in the future; this format counts milliseconds"),
        ("a 1 -1\n", True, 1, "before 1970"),
        ("a 1 1700000000000\na 1 1700000000\n", False, 2, "before 1973; this format counts milliseconds"),
        ("# TYPE a gauge\n# TYPE a counter\n", True, 2, "a second # TYPE"),
    ],
)
def test_a_bad_line_is_named(text: str, openmetrics: bool, line: int, message: str) -> None:
    for first_line in (1, 1001):
        with pytest.raises(ExpositionError) as refused:
            read(text, openmetrics=openmetrics, first_line=first_line)
        assert refused.value.line == first_line + line - 1
        assert message in str(refused.value)
