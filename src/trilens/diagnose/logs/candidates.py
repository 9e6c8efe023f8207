"""What each process tells as the cause of its end, and what is not alike on all hosts."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from signal import SIGBUS, SIGKILL, SIGSEGV
from typing import TYPE_CHECKING, Final

from trilens.diagnose.logs.line import rank_number
from trilens.diagnose.logs.people import Who
from trilens.diagnose.logs.scene import Candidate, of_hit
from trilens.diagnose.logs.signs import Depth, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.diagnose.logs.scene import Scene

# Classes that say no more than that something failed: whatever else the process says is more.
GENERIC: Final = frozenset(("exception", "cuda-call-failed"))

_DIFFERS: Final = 0.85
_CAUGHT: Final = 0.75  # of the confidence is left
_MISSED: Final = 0.88  # of what a rank raised for which the others wait
# What the signal that ended a process tells of why.
_SIGNALS: Final[Mapping[int, tuple[str, float]]] = {
    SIGKILL: ("killed", 0.78),
    SIGSEGV: ("crashed", 0.75),
    SIGBUS: ("shared-memory", 0.7),
}


def of_kind(scene: Scene, kind: Kind) -> list[Candidate]:
    told = [of_hit(scene, hit, who) for hit, who in scene.hits if hit.sign.kind is kind]
    return _with_the_odd_one(scene, _held_against_who_waits(scene, told)) if kind is Kind.ROOT else told


def _held_against_who_waits(scene: Scene, told: list[Candidate]) -> list[Candidate]:
    """A rank that waits for the others after it has raised something, mostly has caught it and gone on. One
    for which the others wait has not."""
    waits: defaultdict[tuple[int | None, int], int] = defaultdict(int)  # by rank and log, the last line
    for hit, who in scene.hits:
        if hit.sign.cause == "collective-timeout" and who.rank is not None:
            waits[(who.rank, hit.speaker.source)] = max(waits[(who.rank, hit.speaker.source)], hit.number)
    waiting = {rank for rank, _ in waits}

    def held(one: Candidate) -> Candidate:
        if one.of.name not in GENERIC:
            return one
        if one.number < waits.get((one.who.rank, one.source), 0):
            return replace(one, sure=one.sure * _CAUGHT)
        is_missed = one.of.name == "exception" and one.who.rank is not None and waiting - {one.who.rank}
        return replace(one, sure=max(one.sure, _MISSED)) if is_missed else one

    return [held(one) for one in told]


def _with_the_odd_one(scene: Scene, told: list[Candidate]) -> list[Candidate]:
    """Each rank says that another one differs from it. The one that differs from most is it."""
    pairs = [one for one in told if {"rank", "other", "a", "b"} <= one.names.keys()]
    says: dict[str, str] = {}
    for one in pairs:
        says[one.names["rank"]] = one.names["a"]
        says[one.names["other"]] = one.names["b"]
    counted = Counter(says.values())
    odd = [rank_number(rank) for rank, value in says.items() if counted[value] == 1]
    if len(says) < 3 or len(odd) != 1 or odd[0] is None:
        return told
    who = Who(odd[0], scene.host_of(odd[0]))
    return [replace(one, who=who) if one in pairs else one for one in told]


def of_endings(scene: Scene) -> list[Candidate]:
    """Processes that a signal ended by which the reason is known."""
    told = []
    # A launcher kills what does not end when it is told to.
    forced = {hit.names.get("pid") for hit, _ in scene.hits if hit.sign.cause == "aborted"}
    for one in scene.found.endings:
        meant = _SIGNALS.get(one.ending.signal or 0)
        if meant is not None and str(one.ending.pid) not in forced:
            cause, sure = meant
            who = scene.people.of_ending(one.ending, one.speaker)
            told.append(
                Candidate(
                    scene.classes[cause],
                    who,
                    sure,
                    Kind.ROOT,
                    scene.clocks.moment(one.t_ms, who.host),
                    one.speaker.source,
                    one.number,
                    one.text,
                    {"signal": f"signal {one.ending.signal}"},
                )
            )
    return told


def own_causes(told: Sequence[Candidate]) -> list[Candidate]:
    """Of each process the one cause that it began with."""
    processes: defaultdict[object, list[Candidate]] = defaultdict(list)
    for one in told:
        known = one.who.rank if one.who.rank is not None else (one.who.host, one.source)
        processes[known].append(one)
    return [_own(sorted(own, key=lambda one: one.place)) for own in processes.values()]


def _own(told: Sequence[Candidate]) -> Candidate:
    own = told[0]
    for one in told[1:]:
        deeper = one.of.depth.order < own.of.depth.order and one.of.depth in (Depth.HARDWARE, Depth.NODE)
        plainer = own.of.name in GENERIC and one.of.name not in GENERIC and not one.of.may_follow
        surer = one.of.name == own.of.name and one.sure > own.sure
        explains = own.of.name in one.of.brings
        if deeper or plainer or surer or explains:
            own = one
    return own


def differences(scene: Scene) -> list[Candidate]:
    """What must be the same on all hosts, and is not."""
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for (source, host), told in scene.found.versions.items():
        for version in told:
            versions[version].add(host or scene.found.sources[source].name)
    networks: defaultdict[str, set[str]] = defaultdict(set)
    for host, network in scene.found.networks.items():
        networks[network].add(host)
    found = []
    if len(versions) > 1 and len(set().union(*versions.values())) > 1:
        found.append(_difference(scene, "nccl-version-mismatch", "versions", versions))
    if len(networks) > 1:
        found.append(_difference(scene, "different-networks", "networks", networks))
    return found


def _difference(scene: Scene, cause: str, name: str, places: Mapping[str, set[str]]) -> Candidate:
    rarest = min(places, key=lambda value: (len(places[value]), value))
    host = min(places[rarest])
    who = Who(None, host if host in scene.people.hosts else "")
    listed = ", ".join(f"{value} on {some(sorted(where))}" for value, where in sorted(places.items()))
    return Candidate(scene.classes[cause], who, _DIFFERS, Kind.WARNS, names={name: listed}, why=listed)


def some(names: Sequence[str]) -> str:
    """The first few of them."""
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
