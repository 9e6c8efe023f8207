"""Who is told of an incident, and how often: an ordered list of routes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from trilens.alert.delivery.matching import take

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo

    from trilens.alert.delivery.matching import Matchers
    from trilens.settings.quiet import QuietTime


class Timing(NamedTuple):
    wait_ms: int  # before the first message
    interval_ms: int  # between two
    repeat_ms: int
    quiet: tuple[QuietTime, ...] = ()
    zone: tzinfo = UTC

    def is_quiet(self, now_ms: int) -> bool:
        if not self.quiet:
            return False
        moment = datetime.fromtimestamp(now_ms / 1000, self.zone)
        return any(one.covers(moment) for one in self.quiet)


class Route(NamedTuple):
    matchers: Matchers
    to: tuple[str, ...]
    timing: Timing
    keeps_on: bool = False


def receivers_of(routes: Sequence[Route], symptoms: Sequence[Mapping[str, str]]) -> dict[str, Timing]:
    """All that one of its symptoms leads to; the first route that names a receiver says how often."""
    found: dict[str, Timing] = {}
    for labels in symptoms:
        for route in routes:
            if take(route.matchers, labels):
                for receiver in route.to:
                    found.setdefault(receiver, route.timing)
                if not route.keeps_on:
                    break
    return found
