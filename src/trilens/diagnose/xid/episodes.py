"""Which Xid is the root, and which only follow it: by the catalogue, per GPU and node, within minutes."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.model.xid import (
    CLEANUP,
    FOLLOWERS,
    GRAVEST_FIRST,
    NVLINK_XIDS,
    XIDS,
    Asks,
    Cordon,
    FaultKind,
    cordon_for,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.diagnose.xid.kernel_log import Seen

WINDOW_MS: Final = 120_000  # a GPU that hangs says so with the next timeouts, six seconds and more apart
_AT_ONCE_MS: Final = 2_000  # lines of one moment come in any order, and syslog counts whole seconds
_BROKEN_MS: Final = 3_600_000  # a GPU that needs a reset goes on saying so to whoever tries it
_LOOKED_BACK: Final = 256  # faults: more in two minutes are the same ones over and over
_LOOKED_ON: Final = 32  # within a moment

_BREAKS: Final = (Asks.NODE_OUT, Asks.GPU_RESET)

_SURE: Final = 0.95
_EITHER: Final = 0.75  # each may follow the other: which came first decides
_DOUBTED: Final = 0.6  # by the order of lines alone, or with the other end of a link unseen
_UNKNOWN: Final = 0.4
_ALONE: Final = 0.3  # one that only follows, without what it follows


class Follower(NamedTuple):
    seen: Seen
    confidence: float  # that it only follows


@dataclass(slots=True)
class Episode:
    root: Seen
    by_order_alone: bool = False  # lines without times
    followers: list[Follower] = field(default_factory=list)

    @property
    def is_alone(self) -> bool:
        """Nothing but what only follows: what it follows is not in the log."""
        return _only_follows(self.root)

    @property
    def deciding(self) -> Seen:
        """Which says what is to be done: the root, or what follows and is graver."""
        broken = [one.seen for one in self.followers if one.seen.explained.asks in _BREAKS]
        return min([self.root, *broken], key=lambda one: GRAVEST_FIRST.index(one.explained.asks))

    @property
    def asks(self) -> Asks:
        return self.deciding.explained.asks

    @property
    def cordon(self) -> Cordon:
        return cordon_for(self.asks)

    @property
    def confidence(self) -> float:
        """That the root is the root."""
        if self.is_alone:
            return _ALONE
        if not self.root.explained.is_documented:
            return _UNKNOWN
        if self.by_order_alone or self.blames_peer:
            return _DOUBTED
        return _EITHER if any(_is_in_table(self.root, one.seen) for one in self.followers) else _SURE

    @property
    def blames_peer(self) -> bool:
        """It says itself that the other end of its link began, and that one says nothing here."""
        return self.root.explained.sub is not None and self.root.explained.sub.blames_peer


def episodes(seen: Iterable[Seen]) -> list[Episode]:
    """In the order in which they began."""
    ordered = sorted(seen, key=lambda one: (one.at_ms is None, one.at_ms or 0, one.order))
    lines = _Lines(ordered)
    causes = {one.order: lines.cause_of(at) for at, one in enumerate(ordered)}
    known: dict[int, tuple[Seen, float]] = {}
    roots = [(one, *_root(one, causes, known)) for one in ordered]
    found = {
        one.order: Episode(one, one.at_ms is None and len(ordered) > 1)
        for one, root, _ in roots
        if root is one
    }
    for one, root, sure in roots:
        if root is not one:
            found[root.order].followers.append(Follower(one, sure))
    return list(found.values())


class _Lines:
    """Faults in their order, those that may be a cause apart: a storm of the others must not hide them."""

    def __init__(self, ordered: Sequence[Seen]) -> None:
        self._ordered = ordered
        self._causes = [one for one in ordered if not _only_follows(one)]
        self._before = list(accumulate((not _only_follows(one) for one in ordered), initial=0))

    def cause_of(self, at: int) -> tuple[Seen, float] | None:
        """The likeliest of those that it may follow; of equals the first."""
        effect, place = self._ordered[at], self._before[at]
        codes = _codes_before(effect)
        before = [
            one
            for one in self._causes[max(0, place - _LOOKED_BACK) : place]
            if codes is None or one.fault.code in codes or one.fault.kind is FaultKind.SXID
        ]
        likely = [(one, sure) for one in before if _is_near(effect, one) and (sure := _follows(effect, one))]
        likely += [
            (one, sure)
            for one in self._causes[place : place + _LOOKED_ON]
            if _is_at_once(effect, one) and (sure := _follows(effect, one)) and not _follows(one, effect)
        ]
        if not likely and _only_follows(effect):  # with others of its kind, at least
            others = self._ordered[max(0, at - _LOOKED_ON) : at]
            likely = [(one, _ALONE) for one in others if _is_near(effect, one) and _are_alike(effect, one)]
        return max(likely, key=lambda found: (found[1], -found[0].order), default=None)


def _root(
    one: Seen, causes: dict[int, tuple[Seen, float] | None], known: dict[int, tuple[Seen, float]]
) -> tuple[Seen, float]:
    """How sure that is goes by its weakest step. `known` is what was found for others, and grows."""
    root, sure, way = one, 1.0, [one]
    while (cause := causes[root.order]) is not None:
        root, sure = cause[0], min(sure, cause[1])
        if root.order in known:
            root, sure = known[root.order][0], min(sure, known[root.order][1])
            break
        if root in way:  # lines of one moment that each may follow the other: the first is it
            root = min(way[way.index(root) :], key=lambda passed: passed.order)
            break
        way.append(root)
    known[one.order] = (root, sure)
    return root, sure


def _only_follows(one: Seen) -> bool:
    return one.fault.kind is FaultKind.XID and one.fault.code in FOLLOWERS


def _codes_before(effect: Seen) -> frozenset[int] | None:
    """What it may follow at all; None is anything."""
    fault, meaning = effect.fault, XIDS.get(effect.fault.code or 0)
    if fault.kind is FaultKind.NVLINK or (meaning is not None and meaning.follows_any):
        return None
    known = meaning.follows if meaning is not None else frozenset()
    own: frozenset[int] = frozenset()
    if fault.code is not None and effect.explained.asks in _BREAKS:
        own = frozenset({fault.code})  # again
    return known | own | (NVLINK_XIDS if fault.code in NVLINK_XIDS else frozenset())


def _is_near(effect: Seen, cause: Seen) -> bool:
    if (effect.node, effect.clock) != (cause.node, cause.clock):
        return False
    if effect.at_ms is None or cause.last_ms is None:
        return effect.at_ms is None and cause.at_ms is None
    return effect.at_ms - cause.last_ms <= (_BROKEN_MS if _is_again(effect, cause) else WINDOW_MS)


def _is_again(effect: Seen, cause: Seen) -> bool:
    """The same of the same GPU, told to another program."""
    of, by = effect.fault, cause.fault
    same = (of.kind, of.code, of.pci) == (by.kind, by.code, by.pci)
    both_break = effect.explained.asks in _BREAKS and cause.explained.asks in _BREAKS
    return same and both_break and of.kind is FaultKind.XID and of.pci is not None


def _is_at_once(effect: Seen, later: Seen) -> bool:
    if (
        effect.at_ms is None
        or later.at_ms is None
        or (effect.node, effect.clock) != (later.node, later.clock)
    ):
        return False
    return later.at_ms - effect.at_ms <= _AT_ONCE_MS


def _follows(effect: Seen, cause: Seen) -> float:
    """How sure it is that the one only follows the other; 0 where nothing says so."""
    of, by = effect.fault, cause.fault
    if effect is cause or _only_follows(cause):
        return 0
    if _is_again(effect, cause):
        return 0.9
    if of.kind is FaultKind.NVLINK:
        return 0.7 if by.kind is FaultKind.SXID or by.code in NVLINK_XIDS else 0
    meaning = XIDS.get(of.code or 0)
    if of.kind is not FaultKind.XID or meaning is None:
        return 0
    if by.kind is FaultKind.SXID:
        return 0.8 if meaning.follows_sxids else 0.6 if of.code == CLEANUP else 0
    if by.kind is not FaultKind.XID:
        return 0
    if of.pci is not None and of.pci == by.pci:
        return 0.95 if meaning.follows_any else 0.9 if _is_in_table(effect, cause) else 0
    return _follows_elsewhere(effect, cause)


def _is_in_table(effect: Seen, cause: Seen) -> bool:
    of, by = effect.fault, cause.fault
    meaning = XIDS.get(of.code or 0)
    both = of.kind is by.kind is FaultKind.XID and of.pci == by.pci
    return both and meaning is not None and by.code in meaning.follows


def _follows_elsewhere(effect: Seen, cause: Seen) -> float:
    """Of two GPUs of a node: a program that has both, or a link between them."""
    of, by = effect.fault, cause.fault
    if effect.at_ms is None:
        return 0  # that they are near each other in a file says nothing of two GPUs
    if of.code == CLEANUP:
        if of.pid is not None and of.pid == by.pid:
            return 0.9
        return 0.6 if cause.explained.asks in _BREAKS and (of.pid is None or by.pid is None) else 0
    if of.code in NVLINK_XIDS and by.code in NVLINK_XIDS:
        sub, other = effect.explained.sub, cause.explained.sub
        return 0.8 if sub and sub.blames_peer and not (other and other.blames_peer) else 0
    links_or_lost = by.code in NVLINK_XIDS or cause.explained.asks is Asks.NODE_OUT
    return 0.7 if of.code in NVLINK_XIDS and links_or_lost and by.code in XIDS[of.code].follows else 0


def _are_alike(one: Seen, other: Seen) -> bool:
    return _only_follows(other) and one.fault.pci is not None and one.fault.pci == other.fault.pci
