"""Which rank is not where the others wait for it, and which one left: where no rank says what went wrong."""

from __future__ import annotations

from collections import Counter, defaultdict
from signal import SIGABRT
from typing import TYPE_CHECKING, Final

from trilens.diagnose.logs.line import rank_number
from trilens.diagnose.logs.people import Who
from trilens.diagnose.logs.scene import Candidate
from trilens.diagnose.logs.signs import Kind
from trilens.diagnose.logs.watchdog import Wait, who_is_behind

if TYPE_CHECKING:
    from trilens.diagnose.logs.found import Hit
    from trilens.diagnose.logs.scene import Scene
    from trilens.diagnose.logs.watchdog import Behind

_P2P_HINT: Final = 0.55
_FIRST_COLLECTIVES: Final = 3
_NOT_WAITING: Final = 0.72
_LEFT: Final = 0.55
_EXITED: Final = 0.45
_LEAST_STACKS: Final = 3
_TIMEOUT: Final = "collective-timeout"


def waiting(scene: Scene) -> Candidate | None:
    """What the watchdogs of all ranks say together, or the stacks that they left."""
    behind = _behind(scene)
    stacks = _not_waiting(scene)
    if behind is None or (behind.cause == _TIMEOUT and stacks is not None):
        return stacks
    hit = _line_of(scene, behind)
    if hit is None:
        return None
    rank = behind.ranks[0] if len(behind.ranks) == 1 else None
    speaker = scene.people.who(hit.speaker)
    cause, sure = behind.cause, behind.sure
    if cause == _TIMEOUT and _looks_like_p2p(scene, behind.wait):
        cause, sure = "p2p-broken", _P2P_HINT
    seconds = (behind.wait.timeout_ms or 0) // 1000
    names = {
        "op": behind.wait.op or "a collective",
        "seq": str(behind.wait.seq) if behind.wait.seq is not None else "unknown",
        "waited": f"{seconds} s" if seconds else "the time-out of its group",
        "doing": _doing(scene, rank),
    }
    return Candidate(
        scene.classes[cause],
        Who(rank, scene.host_of(rank)) if rank is not None else Who(None, speaker.host),
        sure,
        Kind.FOLLOWS,
        scene.moment(hit),
        hit.speaker.source,
        hit.number,
        hit.text,
        names,
        why=behind.why,
    )


def _behind(scene: Scene) -> Behind | None:
    people = scene.people
    waits: dict[int, tuple[Wait, ...]] = {}
    by_source: defaultdict[int, set[int]] = defaultdict(set)
    for speaker, by_group in scene.found.waits.items():
        rank = people.who(speaker).rank
        if rank is not None:
            waits[rank] = tuple(by_group.values())
            by_source[speaker.source].add(rank)
    # Where many ranks write to one log, one that is not in it is silent. Where each has its own, its log is
    # not here, and nothing is known of it.
    shared = any(len(ranks) > 1 for ranks in by_source.values())
    return who_is_behind(waits, people.expected if shared else people.present)


def _line_of(scene: Scene, behind: Behind) -> Hit | None:
    """The line that tells of the wait: of a rank that is behind, else of any."""
    told = [(hit, who) for hit, who in scene.hits if hit.sign.cause == _TIMEOUT]
    own = [hit for hit, who in told if who.rank in behind.ranks]
    return next(iter(own or [hit for hit, _ in told]), None)


def _looks_like_p2p(scene: Scene, wait: Wait) -> bool:
    """All ranks of one host hang in one of the first collectives, and talk to each other directly."""
    first = wait.seq is not None and wait.seq <= _FIRST_COLLECTIVES
    return first and scene.found.uses_p2p and len(scene.people.hosts) == 1


def _not_waiting(scene: Scene) -> Candidate | None:
    """A rank whose stack is not where the others wait."""
    told = {scene.people.who(speaker): (speaker, one) for speaker, one in scene.found.stacks.items()}
    busy = {who: one for who, one in told.items() if not one[1].waits}
    if len(told) < _LEAST_STACKS or not busy or len(busy) > len(told) / 3:
        return None
    who, (speaker, stack) = min(busy.items(), key=lambda one: one[0].rank or 0)
    return Candidate(
        scene.classes["rank-behind"],
        who,
        _NOT_WAITING,
        Kind.FOLLOWS,
        None,
        speaker.source,
        1,
        str(stack.frame or ""),
        {"doing": f"; it was in {stack.frame}" if stack.frame else ""},
        why=f"{len(told) - len(busy)} ranks wait for the others, {who} does not",
    )


def _doing(scene: Scene, rank: int | None) -> str:
    for speaker, stack in scene.found.stacks.items():
        if rank is not None and scene.people.who(speaker).rank == rank and stack.frame is not None:
            return f"; it was in {stack.frame}"
    return ""


def leavers(scene: Scene) -> list[Candidate]:
    """A rank that alone does not complain of another, else a process that ended without a reason, else one of
    which others say that it left."""
    if (silent := _silent(scene)) is not None:
        return [silent]
    speaking = {who.rank for _, who in scene.hits if who.rank is not None}
    for told in scene.found.endings:
        who = scene.people.of_ending(told.ending, told.speaker)
        if told.ending.signal in (None, SIGABRT) and told.ending.code and who.rank not in speaking:
            why = f"{who} was the first that ended, with exit code {told.ending.code}"
            moment = scene.clocks.moment(told.t_ms, who.host)
            place = (told.speaker.source, told.number, told.text)
            return [
                Candidate(
                    scene.classes["rank-left"], who, _EXITED, Kind.FOLLOWS, moment, *place, names={}, why=why
                )
            ]
    named: defaultdict[Who, list[Hit]] = defaultdict(list)
    for hit, teller in scene.hits:
        left = _named(scene, hit, teller) if hit.sign.cause == "peer-closed" else None
        if left is not None and left != teller:
            named[left].append(hit)
    votes = Counter({who: len(hits) for who, hits in named.items()}).most_common(2)
    if not votes or (len(votes) > 1 and votes[0][1] == votes[1][1]):  # nobody, or they blame each other
        return []
    who, number = votes[0]
    hit = named[who][0]
    return [
        Candidate(
            scene.classes["rank-left"],
            who,
            _LEFT if number > 1 or who.rank is not None else _EXITED,
            Kind.FOLLOWS,
            scene.moment(hit),
            hit.speaker.source,
            hit.number,
            hit.text,
            dict(hit.names),
            why=f"{number} {'rank says' if number == 1 else 'ranks say'} that {who} left",
        )
    ]


def _silent(scene: Scene) -> Candidate | None:
    """Of ranks that write to one log: all but one say that somebody closed the connection."""
    complains: defaultdict[int, set[int]] = defaultdict(set)  # by log
    for hit, who in scene.hits:
        if hit.sign.cause == "peer-closed" and who.rank is not None:
            complains[hit.speaker.source].add(who.rank)
    if len(complains) != 1:
        return None
    source, ranks = next(iter(complains.items()))
    silent = sorted(scene.people.expected - ranks)
    if len(ranks) < 2 or len(silent) != 1:
        return None
    hit = next(hit for hit, who in scene.hits if hit.sign.cause == "peer-closed" and who.rank in ranks)
    return Candidate(
        scene.classes["rank-left"],
        Who(silent[0], scene.host_of(silent[0])),
        _LEFT,
        Kind.FOLLOWS,
        scene.moment(hit),
        source,
        hit.number,
        hit.text,
        why=f"{len(ranks)} ranks lost a connection, and rank {silent[0]} says nothing",
    )


def _named(scene: Scene, hit: Hit, teller: Who) -> Who | None:
    """Whom a line says to have left."""
    local = rank_number(hit.names.get("local"))
    if local is not None and teller.host:
        return Who(scene.people.on_host(teller.host, local), teller.host)
    if "peer" in hit.names:
        return Who(None, scene.people.host_at(hit.names["peer"]))
    return None
