"""Symptoms in, incidents out: one for each cause, with its root first, over its whole life."""

from __future__ import annotations

import secrets
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trilens.alert.incidents.case import MOST_SYMPTOMS, Case
from trilens.alert.incidents.causes import PLACED, Trouble, depth
from trilens.alert.incidents.joining import Relation, relation, root_of
from trilens.alert.incidents.losses import Loss, Losses, Share
from trilens.alert.incidents.told import told_again
from trilens.alert.incidents.whereabouts import Whereabouts
from trilens.model.errors import NotFound
from trilens.model.incident import MomentKind, SymptomKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from trilens.alert.incidents.case import SymptomKey
    from trilens.alert.incidents.losses import HourlyCosts
    from trilens.alert.incidents.told import Told
    from trilens.model.incident import Incident


SETTLE_MS: Final = 3 * 60_000  # all symptoms are over for so long: it is resolved
REOPEN_MS: Final = 15 * 60_000  # one that comes back within this time is the same
RESTORED_MS: Final = 10 * 60_000  # for so long after a start a symptom need not be told again
_COMPARED: Final = 200  # symptoms of an incident that a new one is compared with


def new_id(at_ms: int) -> str:
    """Short enough to be said, and in the order of time."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y%m%d-%H%M}-{secrets.token_hex(2)}"


class Incidents:
    """Knows no time but what it is told. Not thread-safe."""

    def __init__(self, costs: HourlyCosts | None = None, *, make_id: Callable[[int], str] = new_id) -> None:
        """`costs` is None where nobody knows prices."""
        self._costs = costs
        self._make_id = make_id
        self._cases: dict[str, Case] = {}  # open ones, and those that may open again
        self._index: dict[SymptomKey, str] = {}  # of every symptom that lasts, or whose incident is here
        self._outlasting: dict[
            SymptomKey, int
        ] = {}  # symptoms whose incident is over and forgotten, until when
        self._by_handle: defaultdict[str, set[str]] = defaultdict(set)
        self._news: dict[str, None] = {}  # ids, of which something worth telling has changed
        self._touched: dict[str, None] = {}  # anything

    def restore(self, incidents: Iterable[Incident], now_ms: int) -> None:
        """Those that were open when Trilens last ran, or were resolved lately."""
        nowhere = Whereabouts()
        for incident in incidents:
            if incident.merged_into is not None:
                continue
            case = Case(incident.id, incident.detected_ms, severity=incident.severity)
            case.onset = next((one for one in incident.timeline if one.kind is MomentKind.ONSET), None)
            case.moments = [one for one in incident.timeline if one.kind is not MomentKind.ONSET]
            case.resolved_ms, case.notified_ms = incident.resolved_ms, incident.notified_ms
            case.acknowledged_ms = incident.acknowledged_ms
            case.acknowledged_by = incident.acknowledged_by
            if incident.lost_quanta is not None and incident.currency is not None:
                lost = Loss(incident.lost_quanta, incident.currency)
                case.losses = Losses(lost, incident.lost_until_ms)
            self._cases[case.id] = case
            for symptom in incident.symptoms:
                until_ms = now_ms + RESTORED_MS if symptom.ended_ms is None else symptom.ended_ms
                self._put(case, told_again(symptom, incident.detected_ms, until_ms, nowhere))
            if incident.symptoms:
                case.root = incident.symptoms[0].kind, incident.symptoms[0].key

    def take(self, told: Iterable[Told], now_ms: int) -> None:
        """Causes before their effects, and what only joins after all others, whatever order they come in."""
        for one in sorted(told, key=_order):
            self._take(one, now_ms)
        for id in list(self._touched):
            if id in self._cases:
                self._find_root(self._cases[id], now_ms)

    def settle(self, now_ms: int) -> None:
        """What the passing of time brings about: symptoms that nobody tells of any more, incidents that are
        over, money that is lost."""
        for case in list(self._cases.values()):
            for told in [one for one in case.symptoms.values() if not one.is_over]:
                if told.valid_until_ms < now_ms:
                    self._end(case, told, min(told.valid_until_ms, now_ms), now_ms)
            if case.resolved_ms is None:
                self._resolve_if_over(case, now_ms)
                self._count_losses(case, now_ms)
            elif now_ms - case.resolved_ms > REOPEN_MS + SETTLE_MS:
                self._forget(case)
        for key in [key for key, until_ms in self._outlasting.items() if until_ms < now_ms]:
            del self._outlasting[key], self._index[key]

    def acknowledge(self, id: str, by: str, at_ms: int) -> Incident:
        """Raises NotFound where it is not open."""
        case = self._open_case(id)
        if case.acknowledged_ms is None:
            case.acknowledged_ms, case.acknowledged_by = at_ms, by
            case.note(at_ms, MomentKind.ACKNOWLEDGED, by)
            self._tell(case)
        return case.incident()

    def notified(self, id: str, to: str, at_ms: int) -> None:
        """That somebody was told of it; of one that is gone from memory it is too late to say."""
        case = self._cases.get(id)
        if case is not None:
            case.notified_ms = case.notified_ms or at_ms
            case.note(at_ms, MomentKind.NOTIFIED, to)
            self._touched[case.id] = None

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    def news(self) -> list[Incident]:
        """Those that have changed in a way that somebody may want to hear of, since this was last asked: they
        opened, symptoms joined or left, the root is another, they were acknowledged, they are over."""
        told, self._news = self._news, {}
        return [self._cases[id].incident() for id in told if id in self._cases]

    def touched(self) -> list[Incident]:
        """Those that have changed in any way since this was last asked."""
        told, self._touched = self._touched, {}
        return [self._cases[id].incident() for id in told if id in self._cases]

    def open(self) -> list[Incident]:
        return [case.incident() for case in self._cases.values() if case.resolved_ms is None]

    # One symptom.

    def _take(self, told: Told, now_ms: int) -> None:
        known_in = self._index.get(told.key)
        if known_in is not None:
            case = self._cases.get(known_in)
            if case is None:
                self._outlasting[told.key] = 0 if told.is_over else told.valid_until_ms
            else:
                self._update(case, told, now_ms)
            return
        if told.is_over and told.symptom.kind is not SymptomKind.EVENT:
            return
        joined = self._joined(told, now_ms)
        if joined:
            self._join(joined, told, now_ms)
        elif told.may_open and not _is_old_weakness(told, now_ms):
            self._begin(told, now_ms)

    def _update(self, case: Case, told: Told, now_ms: int) -> None:
        before = case.symptoms[told.key]
        if told.is_over and before.is_over:
            return
        if told.is_over:
            self._end(case, told, told.symptom.ended_ms or now_ms, now_ms)
        elif before.is_over and told.valid_until_ms <= before.valid_until_ms:
            return  # told late: it is the one that has ended
        else:
            grown = _grown(told, before, now_ms)
            self._put(case, grown)
            if grown.handles != before.handles:
                case = self._rejoined(case, grown, now_ms)
            if before.is_over and (told.may_open or case.resolved_ms is None):
                self._reopen(case, now_ms)
                case.note(now_ms, MomentKind.JOINED, f"again: {told.symptom.text}")
                self._tell(case)
            elif told.symptom != before.symptom:
                self._touched[case.id] = None

    def _end(self, case: Case, told: Told, ended_ms: int, now_ms: int) -> None:
        before = case.symptoms[told.key]
        ended = replace(before, symptom=replace(before.symptom, ended_ms=ended_ms))
        case.symptoms[told.key] = ended
        if case.resolved_ms is None:
            case.note(now_ms, MomentKind.LEFT, ended.symptom.text)
            self._tell(case)

    def _joined(self, told: Told, now_ms: int) -> list[tuple[Relation, Case]]:
        """The incidents that it belongs to: all whose cause it is, or the one that it follows from."""
        ids = {id for handle in told.handles for id in self._by_handle.get(handle, ())}
        found: list[tuple[Relation, Case]] = []
        cases = [self._cases[id] for id in ids if id in self._cases]
        for case in sorted(cases, key=lambda one: (one.detected_ms, one.id)):
            best = max(
                (relation(told, other, now_ms) for other in _first(case.symptoms.values())),
                default=Relation.NONE,
            )
            if best is not Relation.NONE:
                found.append((best, case))
        if any(one is Relation.SAME for one, _ in found):
            return [(one, case) for one, case in found if one is not Relation.EFFECT]
        effects = [pair for pair in found if pair[0] is Relation.EFFECT]
        if len(effects) > 1:
            nearest = min(effects, key=lambda pair: self._distance(pair[1], told))
            found = [pair for pair in found if pair[0] is not Relation.EFFECT or pair is nearest]
        return found

    def _distance(self, case: Case, told: Told) -> tuple[bool, int]:
        """Of several that it may follow from: the one that lasts, and began about when it did."""
        root = case.root_symptom()
        return case.resolved_ms is not None, abs(root.symptom.onset_ms - told.symptom.onset_ms)

    def _join(self, joined: Sequence[tuple[Relation, Case]], told: Told, now_ms: int) -> None:
        open_ones = [case for _, case in joined if case.resolved_ms is None]
        case = open_ones[0] if open_ones else joined[0][1]
        if not told.may_open and case.resolved_ms is not None:
            return
        self._reopen(case, now_ms)
        for other in open_ones[1:]:
            self._merge(case, other, now_ms)
        self._put(case, told)
        self._make_room(case)
        case.note(now_ms, MomentKind.JOINED, told.symptom.text)
        self._tell(case)

    def _rejoined(self, case: Case, told: Told, now_ms: int) -> Case:
        """Where it belongs, now that more is known of whom it is about: two incidents may be one."""
        related = [one for _, one in self._joined(told, now_ms) if one.resolved_ms is None]
        if case not in related or case.resolved_ms is not None:
            return case
        first, *others = related
        for other in others:
            self._merge(first, other, now_ms)
        return first

    def _make_room(self, case: Case) -> None:
        """What was over first goes, once there is too much of it: some incidents last for weeks."""
        over = [(told.symptom.ended_ms or 0, key) for key, told in case.symptoms.items() if told.is_over]
        gone: set[str] = set()
        for _, key in sorted(over)[: max(len(over) - MOST_SYMPTOMS, 0)]:
            if key != case.root:
                gone |= case.symptoms.pop(key).handles
                self._index.pop(key, None)
        if gone:
            # Once the case is forgotten nobody would find them, and they would lead to what is not there.
            self._let_go(case, gone.difference(*(told.handles for told in case.symptoms.values())))

    def _begin(self, told: Told, now_ms: int) -> None:
        case = Case(self._make_id(now_ms), now_ms)
        while case.id in self._cases:
            case.id = self._make_id(now_ms)
        self._cases[case.id] = case
        self._put(case, told)
        case.note(now_ms, MomentKind.DETECTED, told.symptom.text)
        self._tell(case)

    def _put(self, case: Case, told: Told) -> None:
        case.put(told)
        self._index[told.key] = case.id
        for handle in told.handles:
            self._by_handle[handle].add(case.id)

    # One incident.

    def _find_root(self, case: Case, now_ms: int) -> None:
        root = root_of(list(case.symptoms.values()))
        if root.key == case.root:
            return
        before, case.root = case.root, root.key
        known = case.symptoms.get(before) if before is not None else None
        if known is not None and known.trouble is not root.trouble:
            case.note(now_ms, MomentKind.ROOT, root.symptom.text)
        self._tell(case)

    def _merge(self, case: Case, other: Case, now_ms: int) -> None:
        for told in other.symptoms.values():
            self._put(case, told)
            case.note(now_ms, MomentKind.JOINED, told.symptom.text)
        case.losses.absorb(other.losses)
        case.notified_ms = case.notified_ms or other.notified_ms
        other.merged_into, other.resolved_ms = case.id, now_ms
        other.note(now_ms, MomentKind.RESOLVED, f"its cause is that of incident {case.id}, where it goes on")
        self._tell(other)
        self._let_go(other, _handles(other))

    def _reopen(self, case: Case, now_ms: int) -> None:
        if case.resolved_ms is not None:
            case.resolved_ms = None
            case.acknowledged_ms, case.acknowledged_by = None, ""
            self._tell(case)

    def _resolve_if_over(self, case: Case, now_ms: int) -> None:
        able = [one for one in case.symptoms.values() if one.may_open]
        holding = [one for one in able if one.trouble is not Trouble.WEAKNESS] or able
        holding = holding or list(case.symptoms.values())
        if any(not one.is_over for one in holding):
            return
        over_ms = max(one.symptom.ended_ms or 0 for one in holding)
        noticed_ms = max((one.t_ms for one in case.moments if one.kind is MomentKind.LEFT), default=over_ms)
        if now_ms - max(over_ms, noticed_ms) < SETTLE_MS:
            return
        self._count_losses(case, now_ms)
        case.resolved_ms = over_ms
        case.note(over_ms, MomentKind.RESOLVED, "all of it is over")
        self._tell(case)

    def _count_losses(self, case: Case, now_ms: int) -> None:
        if self._costs is None:
            return
        before = case.losses.loss
        case.losses.count(_shares(case.symptoms.values(), now_ms), self._costs)
        if case.losses.loss != before:
            self._touched[case.id] = None

    def _forget(self, case: Case) -> None:
        if case.id in self._touched or case.id in self._news:
            return  # not yet told
        del self._cases[case.id]
        for key, told in case.symptoms.items():
            if self._index.get(key) == case.id:
                if told.is_over:
                    del self._index[key]
                else:
                    self._outlasting[key] = told.valid_until_ms
        self._let_go(case, _handles(case))

    def _let_go(self, case: Case, handles: Iterable[str]) -> None:
        """Nothing joins it by these any more."""
        for handle in handles:
            ids = self._by_handle.get(handle, set())
            ids.discard(case.id)
            if not ids:
                self._by_handle.pop(handle, None)

    def _open_case(self, id: str) -> Case:
        case = self._cases.get(id)
        if case is None or case.resolved_ms is not None:
            raise NotFound(f"no incident {id!r} is open")
        return case

    def _tell(self, case: Case) -> None:
        self._news[case.id] = None
        self._touched[case.id] = None


def _order(told: Told) -> tuple[bool, int, int]:
    return not told.may_open, depth(told.trouble), told.symptom.onset_ms


def _handles(case: Case) -> set[str]:
    return {handle for told in case.symptoms.values() for handle in told.handles}


def _first(symptoms: Iterable[Told]) -> Iterator[Told]:
    return (one for number, one in enumerate(symptoms) if number < _COMPARED)


def _grown(told: Told, before: Told, now_ms: int) -> Told:
    """With what was once known of it: pods leave a broken node, and nobody holds a GPU that is lost."""
    subject = told.symptom.subject
    lacking = [name for name, value in subject._asdict().items() if value is None]
    before_it = before.symptom.subject
    subject = subject._replace(**{name: getattr(before_it, name) for name in lacking})
    since_ms = dict(before.since_ms)
    for one in told.hit - before.hit:  # it came, or only now anybody knows that it is there
        came_ms = told.since_ms.get(one)
        if came_ms is None and before.is_known_place and told.trouble in PLACED:
            came_ms = now_ms
        if came_ms is not None:
            since_ms[one] = came_ms
    return replace(
        told,
        symptom=replace(told.symptom, subject=subject),
        may_open=told.may_open or before.may_open,
        hit=told.hit | before.hit,
        losing=told.losing | before.losing,
        since_ms=since_ms,
        is_known_place=told.is_known_place or before.is_known_place,
        domains=told.domains | before.domains,
        handles=told.handles | before.handles,
    )


def _is_old_weakness(told: Told, now_ms: int) -> bool:
    """It may last for weeks: what was told with a fault that is over is no news after a restart."""
    return told.trouble is Trouble.WEAKNESS and now_ms - told.detected_ms > REOPEN_MS


def _shares(symptoms: Iterable[Told], now_ms: int) -> Iterator[Share]:
    for one in symptoms:
        for workload in one.losing:
            share = Share.of(one, workload, now_ms)
            if share is not None:
                yield share
