"""What all logs say together: the cause, the rank it began with, and what only follows from it.

1. Each process has one cause of its own: the first it tells, unless a later one is deeper (candidates.py).
2. What another class brings is explained by it; what the end of another rank brings too, by that.
3. Of what is left the earliest is the cause, as far as clocks can tell, and else the deepest.
4. Where nothing is left, what ranks wait for tells which of them is behind, or which left (absence.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.diagnose.logs.absence import leavers, waiting
from trilens.diagnose.logs.candidates import GENERIC, differences, of_endings, of_kind, own_causes, some
from trilens.diagnose.logs.log_verdict import UNKNOWN, Follower, LogVerdict, Told
from trilens.diagnose.logs.reading import read_logs
from trilens.diagnose.logs.scene import Scene, of_hit
from trilens.diagnose.logs.signs import Depth, Kind, filled
from trilens.model.verdict import Layer, Missing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.diagnose.logs.people import Who
    from trilens.diagnose.logs.reading import LogSource
    from trilens.diagnose.logs.scene import Candidate

_SAME_MOMENT_MS: Final = 2_000  # on clocks that can be compared
_APART_MS: Final = 60_000  # on clocks of which nothing is known, what lies further apart came first
_SEVERAL: Final = 0.8  # of the confidence is left where another cause would do as well
_WARNED: Final = 0.7  # ... of a warning after which nothing failed
_RANKS_AWAY: Final = 0.8  # ... where a log that is not here may say more
_SURE: Final = 0.9  # nothing more is asked for from here on
_SHOWN: Final = 40  # lines of the order of events
_TIMEOUT: Final = "collective-timeout"
# What texts say where the line does not name it.
_UNNAMED: Final = {
    "doing": "",
    "error": "an error",
    "frame": "its last frame",
    "networks": "their logs show which",
    "op": "one",
    "other": "another",
    "peer": "another node",
    "reason": "by whom, the log does not say",
    "seq": "unknown",
    "signal": "by a signal",
    "versions": "their logs show which",
    "waited": "after its time-out",
}


def judge_logs(sources: Iterable[LogSource]) -> LogVerdict:
    scene = Scene(read_logs(sources))
    left = _causes(scene)
    if not left:
        return _nothing(scene)
    first, others = _first(scene, left)
    return _told(scene, first, others)


def _causes(scene: Scene) -> list[Candidate]:
    """All that nothing else explains."""
    roots = own_causes([*of_kind(scene, Kind.ROOT), *of_endings(scene)])
    several = len(scene.people.hosts) > 1
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
    told = [of_hit(scene, hit, who) for hit, who in scene.hits]
    best = max((one.sure for one in told), default=0)
    return [one for one in told if one.sure == best]


def _told(scene: Scene, first: Candidate, others: Sequence[Candidate]) -> LogVerdict:
    confidence = first.sure
    missing: list[Missing] = []
    if others:
        confidence *= _SEVERAL
    away = _away(scene)
    if away is not None:
        missing.append(away)
    # A peer that is not heard may have ended before: that is where the cause would be.
    unheard = "peer" in first.names and first.names["peer"] not in scene.people.hosts
    doubtful = first.of.may_follow and first.of.name != "rank-left"  # whose own log is away, mostly
    if (doubtful and (away or unheard)) or (away and (first.of.depth is Depth.OUTCOME or not first.number)):
        confidence *= _RANKS_AWAY
    if confidence < _SURE:
        missing += first.of.needs
    missing += _blind_spots(scene, confidence, several=bool(others))
    names = {
        "who": str(first.who),
        **_UNNAMED,
        **{name: value for name, value in first.names.items() if value},
    }
    return LogVerdict(
        first.of.name,
        first.of.family,
        first.of.layer,
        _sentence(filled(first.of.text, names)),
        round(confidence, 3),
        tuple(filled(line, names) for line in first.of.fix),
        first.who,
        scene.clocks.known_moment(first.t_ms),
        scene.found.sources[first.source].name if first.number else "",
        first.number,
        first.text,
        first.why,
        tuple(dict.fromkeys(missing)),
        tuple(_as_told(scene, one) for one in others),
        _followers(scene, first),
        _order(scene),
        {host: offset for host, offset in scene.clocks.offsets.items() if offset},
        len(scene.people.present),
        sum(scene.found.lines),
    )


def _nothing(scene: Scene) -> LogVerdict:
    lines = sum(scene.found.lines)
    away = _away(scene)
    missing = [*([away] if away else []), *_blind_spots(scene, 0.0, several=False)]
    logs = len(scene.found.sources)
    read = f"{lines} {'line' if lines == 1 else 'lines'} of {logs} {'log' if logs == 1 else 'logs'}"
    return LogVerdict(
        UNKNOWN,
        UNKNOWN,
        Layer.UNKNOWN,
        f"Nothing in {read} tells of a cause." if lines else "The logs are empty.",
        0.0,
        missing=tuple(missing),
        ranks=len(scene.people.present),
        lines=lines,
    )


def _away(scene: Scene) -> Missing | None:
    expected = scene.people.expected
    away = sorted(expected - scene.people.present)
    if not away:
        return None
    what = f"the logs of {len(away)} of {len(expected)} ranks: {_ranges(away)}"
    return Missing(what, "hand in the logs of all ranks; one may have the cause")


def _blind_spots(scene: Scene, confidence: float, *, several: bool) -> list[Missing]:
    found = scene.found
    told = []
    if not found.nccl_lines and confidence < _SURE:
        remedy = "NCCL_DEBUG=INFO (at least WARN) in the environment of all ranks"
        told.append(Missing("what NCCL itself says", remedy))
    if found.old_async_name:
        what = "errors of NCCL may not be handled: NCCL_ASYNC_ERROR_HANDLING is an old name"
        told.append(Missing(what, "set TORCH_NCCL_ASYNC_ERROR_HANDLING instead"))
    if confidence < _SURE and (cut := [source.name for source in found.sources if source.is_cut]):
        told.append(Missing(f"the beginning of {some(cut)}", "hand in the whole log"))
    if several and any(hit.t_ms is None for hit, _ in scene.hits):
        remedy = "logs with times: kubectl logs --timestamps; NCCL_DEBUG_TIMESTAMP_LEVELS=ALL (NCCL 2.26)"
        told.append(Missing("which came first: lines have no times", remedy))
    if found.dropped:
        told.append(Missing(f"{found.dropped} more lines with signs", "hand in a shorter part of the logs"))
    return told


def _followers(scene: Scene, first: Candidate) -> tuple[Follower, ...]:
    ranks: defaultdict[str, set[int]] = defaultdict(set)
    lines: Counter[str] = Counter()
    for hit, who in scene.hits:
        if hit.sign.cause != first.of.name:
            lines[hit.sign.cause] += hit.count
            if who.rank is not None:
                ranks[hit.sign.cause].add(who.rank)
    return tuple(Follower(cause, tuple(sorted(ranks[cause])), count) for cause, count in lines.most_common())


def _order(scene: Scene) -> tuple[Told, ...]:
    """The first line of each class on each rank, as it happened."""
    first: dict[tuple[str, Who], Told] = {}
    for hit, who in scene.hits:
        file = scene.found.sources[hit.speaker.source].name
        moment = scene.moment(hit)
        one = Told(hit.sign.cause, who, moment, file, hit.number, hit.text, hit.sign.kind, hit.count)
        known = first.get((one.cause, who))
        if known is None or (known.file == one.file and one.number < known.number):
            first[(one.cause, who)] = one
    # A line without a time came before the next one of its log that has one.
    moments: dict[Told, int | None] = {}
    following: dict[str, int | None] = {}
    for one in sorted(first.values(), key=lambda one: -one.number):
        following[one.file] = moments[one] = one.t_ms if one.t_ms is not None else following.get(one.file)
    ordered = sorted(moments, key=lambda one: (moments[one] is None, moments[one] or 0, one.file, one.number))
    return tuple(ordered[:_SHOWN])


def _as_told(scene: Scene, one: Candidate) -> Told:
    file = scene.found.sources[one.source].name if one.number else ""
    return Told(one.of.name, one.who, one.t_ms, file, one.number, one.text or one.why, one.kind)


def _ranges(numbers: Sequence[int]) -> str:
    """0-3, 7: as people write it."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ", ".join(str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in parts)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
