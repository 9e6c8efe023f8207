"""Who is not in the collective in which the others wait, by what the ranks' flight recorders say."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.flight_recorder import GroupStanding
from trilens.model.rank_names import ranks_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.detect.scene import JobView, RankView

_NOTE: Final = "collectives"


class Absent(NamedTuple):
    ranks: tuple[RankView, ...]
    said: str
    waiting: int  # ranks that wait for them


class _Stands(NamedTuple):
    rank: RankView
    at: GroupStanding


def absent(job: JobView, since_ms: int) -> Absent | None:
    """Of the group in which most ranks wait. What was told before `since_ms` tells of something else."""
    groups: defaultdict[tuple[str, int | None, int], list[_Stands]] = defaultdict(list)
    for rank in job.ranks:
        for standing in _told(rank, since_ms):
            groups[standing.group, standing.first, standing.size].append(_Stands(rank, standing))
    found = [
        one
        for (_, _, size), stands in groups.items()  # a dump over gloo does not say how large a group is
        if (one := _absent_from(stands, size or len(job.ranks))) is not None
    ]
    return max(found, key=lambda one: one.waiting, default=None)


def _told(rank: RankView, since_ms: int) -> Iterator[GroupStanding]:
    """By its last dump."""
    for note in reversed(rank.notes):
        if note.kind == _NOTE and note.t_ms >= since_ms:
            groups = note.data.get("groups")
            for told in groups if isinstance(groups, list | tuple) else ():
                standing = GroupStanding.of(told) if isinstance(told, dict) else None
                if standing is not None:
                    yield standing
            return


def _absent_from(stands: Sequence[_Stands], size: int) -> Absent | None:
    at = Counter(one.at.pending for one in stands if one.at.pending is not None)
    if not at or 2 * len(stands) <= size:
        return None  # nobody waits; or most have not told yet, and may be the ones
    number = at.most_common(1)[0][0]
    waiting = [one for one in stands if one.at.pending == number]
    operation = Counter(one.at.operation for one in waiting).most_common(1)[0][0]
    where = f"{operation or 'collective'} {number} of {stands[0].at.description or stands[0].at.group}"
    # Programs run ahead of their GPUs: who has put it in is in it, whatever else he has put in since.
    for late, how in (
        ([one for one in stands if one.at.entered < number], "not entered"),
        ([one for one in stands if one.at.pending is not None and one.at.pending < number], "not come to"),
        ([one for one in waiting if one.at.operation != operation], "entered another one than"),
    ):
        if 0 < 2 * len(late) <= len(stands):
            names = ranks_name([one.rank.rank for one in late])
            has = "has" if len(late) == 1 else "have"
            others = len(waiting) - sum(one in waiting for one in late)
            said = f"flight recorders: {names} {has} {how} {where}, in which {others} wait"
            return Absent(tuple(one.rank for one in late), said, others)
    return None
