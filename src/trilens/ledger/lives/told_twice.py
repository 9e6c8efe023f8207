"""A rank of which two programs tell at the same time: the one that began first tells the steps of both."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.ledger.allocation.doubts import RUN_TOLD_TWICE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.ledger.lives.told_lives import ToldLives
    from trilens.ledger.span import Span
    from trilens.model.ledger_facts import LifeKey
    from trilens.model.run import RunId

_FOREVER_US: Final = 1 << 62


def told_once(told: ToldLives, spans: dict[LifeKey, list[Span]]) -> dict[LifeKey, list[Span]]:
    """Only while both tell of steps: one that hangs beside its successor is not what is meant."""
    of_rank: defaultdict[tuple[RunId, int], list[int]] = defaultdict(list)
    for at, key in enumerate(told.keys):
        of_rank[key.run, key.rank].append(at)
    last_end = told.last_end
    for lives in of_rank.values():
        if len(lives) < 2:
            continue
        in_order = sorted(lives, key=lambda at: (told.started_us[at], told.keys[at].attempt))
        times = [_telling(told, at, int(last_end[at])) for at in in_order]
        for later in range(1, len(in_order)):
            for first in range(later):
                from_ms = max(times[first][0], times[later][0]) // 1000
                to_ms = min(times[first][1], times[later][1]) // 1000
                if from_ms < to_ms:
                    _put_over(spans, told.keys[in_order[first]], told.keys[in_order[later]], from_ms, to_ms)
                    break
    return spans


def _telling(told: ToldLives, at: int, last_end_us: int) -> tuple[int, int]:
    """From its first step to its last one, as far as they are known."""
    if told.before[at] >= 0:
        first_us = 0
    elif told.end_row[at] > told.first_row[at]:
        first_us = int(told.begin_us[told.first_row[at]])
    else:
        first_us = int(told.after_start[at]) if told.after[at] >= 0 else _FOREVER_US
    return first_us, _FOREVER_US if told.after[at] >= 0 else last_end_us


def _put_over(
    spans: dict[LifeKey, list[Span]], first: LifeKey, later: LifeKey, from_ms: int, to_ms: int
) -> None:
    of_first, of_later = spans[first], spans[later]
    if not of_first or not of_later:
        return
    from_ms = max(from_ms, of_first[0].from_ms, of_later[0].from_ms)
    to_ms = min(to_ms, of_first[-1].to_ms, of_later[-1].to_ms)
    if from_ms >= to_ms:
        return
    shared = [
        one._replace(doubts=tuple(sorted({*one.doubts, RUN_TOLD_TWICE})))
        for one in _between(of_first, from_ms, to_ms)
    ]
    for key in (first, later):
        spans[key] = [*_between(spans[key], 0, from_ms), *shared, *_between(spans[key], to_ms, _FOREVER_US)]


def _between(spans: Sequence[Span], from_ms: int, to_ms: int) -> Iterator[Span]:
    for one in spans:
        begin, end = max(one.from_ms, from_ms), min(one.to_ms, to_ms)
        if begin < end:
            yield one.within(begin, end)
