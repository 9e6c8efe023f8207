"""Moments of different hosts made comparable, as far as that is possible."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from statistics import median
from typing import TYPE_CHECKING, Final

from trilens.diagnose.logs.line import NO_YEAR

if TYPE_CHECKING:
    from trilens.diagnose.logs.found import Found

_SKEW_MS: Final = 2_000  # clocks that are nearer than this are taken for the same
_MS_A_DAY: Final = 24 * 3_600 * 1_000


class Clocks:
    def __init__(self, found: Found) -> None:
        times = [hit.t_ms for hit in found.hits.values() if hit.t_ms is not None]
        years = {year for t_ms in times if (year := _year(t_ms)) != NO_YEAR}
        # Lines without a year are of the same one as those with it.
        self._year = min(years) if years else None
        self.offsets = _offsets(found)

    def moment(self, t_ms: int | None, host: str) -> int | None:
        if t_ms is None:
            return None
        if self._year is not None and _year(t_ms) == NO_YEAR:
            at = datetime.fromtimestamp(t_ms / 1000, UTC)
            try:
                moved = at.replace(year=self._year)
            except ValueError:  # a 29th of February
                moved = at.replace(year=self._year, day=28)
            t_ms += round((moved - at).total_seconds() * 1000)
        return t_ms - self.offsets.get(host, 0)

    def known_moment(self, t_ms: int | None) -> int | None:
        """With its year, or not at all: what is shown as a time must be one."""
        return None if t_ms is None or _year(t_ms) == NO_YEAR else t_ms

    def same(self, one: str, other: str) -> bool:
        """Whether two hosts' times can be compared to the second."""
        return one == other or (one in self.offsets and other in self.offsets)


def _year(t_ms: int) -> int:
    return datetime.fromtimestamp(t_ms / 1000, UTC).year


def _offsets(found: Found) -> dict[str, int]:
    """By how much the clock of each host is ahead. All ranks of a communicator are done setting it up at the
    same moment: what they take for that moment tells."""
    by_comm: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for (comm, host), t_ms in found.completed.items():
        by_comm[comm][host] = t_ms
    offsets: defaultdict[str, list[float]] = defaultdict(list)
    for times in by_comm.values():
        if len(times) < 2:
            continue
        middle = median(times.values())
        for host, t_ms in times.items():
            offsets[host].append(t_ms - middle)
    settled = {host: round(median(told)) for host, told in offsets.items()}
    return {
        host: offset if _SKEW_MS < abs(offset) < _MS_A_DAY * 400 else 0 for host, offset in settled.items()
    }
