"""Sets of time as lists of (from, to), in order and apart from each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

Times = list[tuple[int, int]]


def joined(times: Iterable[tuple[int, int]]) -> Times:
    """Any intervals as a set; those that are empty are left out."""
    found: Times = []
    for begin, end in sorted(times):
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            if end > found[-1][1]:
                found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def both(one: Times, other: Times) -> Times:
    found: Times = []
    i = j = 0
    while i < len(one) and j < len(other):
        begin, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if begin < end:
            found.append((begin, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def without(one: Times, other: Times) -> Times:
    found: Times = []
    for begin, end in one:
        at = begin
        for gap_begin, gap_end in other:
            if gap_end <= at:
                continue
            if gap_begin >= end:
                break
            if gap_begin > at:
                found.append((at, gap_begin))
            at = gap_end
        if at < end:
            found.append((at, end))
    return found
