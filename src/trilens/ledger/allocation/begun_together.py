"""GPUs of a workload that go idle, hang or end within a minute do so together: one episode, not one each."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.ledger import causes
from trilens.ledger.lives.stalls import first_together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.allocation.holding_time import Line
    from trilens.ledger.allocation.holdings import Holding
    from trilens.ledger.span import Span

# Of which each GPU tells by itself. Stalls know already that ranks stopped together.
_EACH_BY_ITSELF: Final = frozenset(
    {
        causes.LOADING,
        causes.RESTARTING,
        causes.ENDED,
        causes.NEVER_USED,
        causes.IDLE,
        causes.HUNG,
        causes.NO_REQUESTS,
    }
)


def begun_together(lines: Sequence[Line], holdings: Sequence[Holding]) -> list[Line]:
    """In the same order, with spans that began together since the first of them."""
    kinds: defaultdict[object, int] = defaultdict(lambda: len(kinds))
    found: list[tuple[int, int, int, int]] = []  # line, span, what it is, since when
    for at, line in enumerate(lines):
        for place, span in enumerate(line.spans):
            if span.since_ms is not None and (what := _what(span)) is not None:
                kind = kinds[holdings[line.holding].member.workload, line.run, what]
                found.append((at, place, kind, span.since_ms))
    leaders = first_together([kind for *_, kind, _ in found], [1000 * since_ms for *_, since_ms in found])
    together = [*lines]
    for (at, place, _, since_ms), leader in zip(found, leaders, strict=True):
        first_ms = found[leader][3]
        if first_ms != since_ms:
            spans = [*together[at].spans]
            spans[place] = spans[place]._replace(since_ms=first_ms)
            together[at] = together[at]._replace(spans=spans)
    return together


def _what(span: Span) -> tuple[str, str] | None:
    (bucket, cause, _), *others = span.parts
    return (bucket, cause) if not others and cause in _EACH_BY_ITSELF else None
