"""What all logs say together: the cause, the rank it began with, and what only follows from it.

1. Each process has one cause of its own: the first it tells, unless a later one is deeper (candidates.py).
2. What another class brings is explained by it; what the end of another rank brings too, by that.
3. Of what is left the earliest is the cause, as far as clocks can tell, and else the deepest.
4. Where nothing is left, what ranks wait for tells which of them is behind, or which left (absence.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.diagnose.logs.absence import leavers, waiting
from trilens.diagnose.logs.candidates import GENERIC, differences, of_endings, of_kind, own_causes
from trilens.diagnose.logs.reading import read_logs
from trilens.diagnose.logs.scene import Scene
from trilens.diagnose.logs.signs import Depth, Kind
from trilens.diagnose.logs.telling import no_cause, verdict_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.diagnose.logs.log_verdict import LogVerdict
    from trilens.diagnose.logs.reading import LogSource
    from trilens.diagnose.logs.scene import Candidate

_SAME_MOMENT_MS: Final = 2_000  # on clocks that can be compared
_APART_MS: Final = 60_000  # on clocks of which nothing is known, what lies further apart came first
_WARNED: Final = 0.7  # of the confidence is left of a warning after which nothing failed
_TIMEOUT: Final = "collective-timeout"


def judge_logs(sources: Iterable[LogSource]) -> LogVerdict:
    scene = Scene(read_logs(sources))
    left = _causes(scene)
    if not left:
        return no_cause(scene)
    first, others = _first(scene, left)
    return verdict_on(scene, first, others)


def _causes(scene: Scene) -> list[Candidate]:
    """All that nothing else explains."""
    roots = own_causes([*of_kind(scene, Kind.ROOT), *of_endings(scene)])
    # Ranks that talk over the network, and of which some are not here, are on several hosts.
    several = len(scene.people.hosts) > 1 or (scene.found.uses_net and bool(scene.people.away))
    warned = [one for one in of_kind(scene, Kind.WARNS) if several or not one.of.between_hosts]
    warned += differences(scene)
    waits = waiting(scene)
    there = {one.of.name for one in roots} | {one.of.name for one in of_kind(scene, Kind.FOLLOWS)}
    if waits is not None:
        there.add(waits.of.name)
    left = _unexplained(scene, [*roots, *(one for one in warned if one.of.brings & there)])
    sure = [one for one in left if one.of.depth is not Depth.OUTCOME and not one.of.may_follow]
    if not sure and waits is not None and (not left or waits.of.name != _TIMEOUT):
        left.append(waits)
    # A failed call that nobody explains is less than any other thing that is known.
    left = [one for one in left if one.of.depth is not Depth.OUTCOME] or left
    alone = [replace(one, sure=one.sure * _WARNED) for one in warned]
    return left or alone or leavers(scene) or _outcomes(scene)


def _unexplained(scene: Scene, told: Sequence[Candidate]) -> list[Candidate]:
    left = [
        one for one in told if not any(one.of.name in other.of.brings for other in told if other is not one)
    ] or list(told)
    first = [one for one in left if not one.of.may_follow and one.of.depth is not Depth.OUTCOME]
    if not first:
        return left
    # What may follow from another rank's end does, unless it was clearly there before.
    return [
        one
        for one in left
        if one in first or (one.of.may_follow and all(_before(scene, one, other) for other in first))
    ]


def _before(scene: Scene, one: Candidate, other: Candidate) -> bool:
    """Whether it was clearly there first."""
    if one.source == other.source and (one.who == other.who or one.t_ms is None or other.t_ms is None):
        return one.number < other.number
    if one.t_ms is None or other.t_ms is None:
        return False
    apart = _SAME_MOMENT_MS if scene.clocks.same(one.who.host, other.who.host) else _APART_MS
    return one.t_ms + apart < other.t_ms


def _first(scene: Scene, left: Sequence[Candidate]) -> tuple[Candidate, list[Candidate]]:
    votes = Counter(one.of.name for one in left)
    contenders = [one for one in left if not any(_beats(scene, other, one) for other in left)] or left
    first = min(
        contenders,
        key=lambda one: (
            one.of.depth.order,
            one.of.name in GENERIC,
            -votes[one.of.name],
            one.who.rank is None,
            -one.sure,
            one.t_ms or 0,
            one.who.rank or 0,
            one.place,
        ),
    )
    # What another log says of the same, without a rank or with the same one, makes it surer.
    same = [one for one in left if one.of is first.of and one.who.rank in (None, first.who.rank)]
    first = replace(first, sure=max(one.sure for one in same))
    return first, [one for one in contenders if one.of.name != first.of.name]


def _beats(scene: Scene, other: Candidate, one: Candidate) -> bool:
    """By being there first. Of two lines of one class it does not count that the one without a rank is."""
    unnamed = other.who.rank is None and one.who.rank is not None
    return not (other.of.name == one.of.name and unnamed) and _before(scene, other, one)


def _outcomes(scene: Scene) -> list[Candidate]:
    """What is left to say where only what follows from something is there."""
    told = of_kind(scene, Kind.FOLLOWS)
    best = max((one.sure for one in told), default=0)
    return [one for one in told if one.sure == best]
