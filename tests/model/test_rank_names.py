"""Ranks in sentences."""

from __future__ import annotations

import pytest

from trilens.model.rank_names import rank_spans, ranks_name


@pytest.mark.parametrize(
    ("ranks", "named"),
    [
        ([3], "rank 3"),
        ([5, 0, 2], "ranks 0, 2, 5"),
        ([0, 1], "ranks 0, 1"),
        (range(7), "ranks 0-6"),
        ({0, 1, 2, *range(4, 255)}, "ranks 0-2, 4-254"),
        (range(0, 40, 2), "ranks 0, 2, 4, 6, 8, 10, 12, 14 and more, 20 in all"),
    ],
)
def test_they_are_named_shortly(ranks: list[int], named: str) -> None:
    assert ranks_name(ranks) == named
    assert named.endswith(rank_spans(ranks))
