from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilens.settings.duration import duration_ms, format_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("0", 0),
        ("15s", 15_000),
        ("1h30m", 5_400_000),
        ("1y", 31_536_000_000),
        ("2w", 1_209_600_000),
        ("5ms", 5),
    ],
)
def test_reads_what_prometheus_writes(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "15", "s", "1m1h", "1.5h", "-5m", " 5m", "5M", "5m5m"])
def test_refuses_what_prometheus_refuses(text: str) -> None:
    with pytest.raises(ValueError, match="not a valid duration"):
        duration_ms(text)


@given(st.integers(0, 10**13))
def test_a_written_duration_reads_back(ms: int) -> None:
    assert duration_ms(format_duration(timedelta(milliseconds=ms))) == ms
