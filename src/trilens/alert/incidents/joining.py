"""Whether two symptoms have one cause: by what they are, by whom they are about, and by when they began."""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from trilens.alert.incidents.causes import (
    ALONE,
    DOMAIN_MS,
    PINNED,
    PLACED,
    SAME_MS,
    SHARED,
    WIDE,
    Trouble,
    dated_late_ms,
    depth,
    follows,
    shows_after_ms,
)
from trilens.model.incident import SymptomKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.alert.incidents.told import Told
    from trilens.alert.incidents.whereabouts import Domain


_KINDS: Final = (SymptomKind.FINDING, SymptomKind.ALERT, SymptomKind.EVENT)


class Relation(IntEnum):
    """What a symptom is to another one, the weakest first."""

    NONE = 0
    EFFECT = 1  # it follows from the other
    PEER = 2  # the same fault elsewhere in one rack, switch or NVLink domain
    CAUSE = 3
    SAME = 4  # the same thing, told otherwise


def relation(one: Told, other: Told, now_ms: int) -> Relation:
    if is_same(one, other, now_ms):
        return Relation.SAME
    if causes(one, other, now_ms):
        return Relation.CAUSE
    if shared_domain(one, other) is not None:
        return Relation.PEER
    return Relation.EFFECT if causes(other, one, now_ms) else Relation.NONE


def causes(cause: Told, effect: Told, now_ms: int) -> bool:
    if not (follows(cause.trouble, effect.trouble) and is_in_time(cause, effect)):
        return False
    over_ms = cause.symptom.ended_ms if cause.symptom.ended_ms is not None else now_ms
    return effect.symptom.onset_ms <= over_ms + shows_after_ms(effect.trouble) and _reaches(cause, effect)


def is_in_time(cause: Told, effect: Told) -> bool:
    """It may have been there before its effect, as far as both are dated, and began before that was over."""
    onset_ms, ended_ms = cause.symptom.onset_ms, effect.symptom.ended_ms
    if ended_ms is not None and effect.symptom.kind is not SymptomKind.EVENT and onset_ms > ended_ms:
        return False
    return onset_ms <= effect.symptom.onset_ms + dated_late_ms(cause.trouble)


def is_same(one: Told, other: Told, now_ms: int) -> bool:
    if one.trouble is not other.trouble or one.trouble in ALONE or not _overlap(one, other, now_ms):
        return False
    if _on_one_gpu(one, other):
        return True
    if one.trouble in PLACED:
        return _on_one_place(one, other)
    if one.trouble is Trouble.QUOTA and one.namespace:
        return _in_one_namespace(one, other)
    return _of_one_job(one, other) or (not one.hit and not other.hit and _on_one_place(one, other))


def shared_domain(one: Told, other: Told) -> Domain | None:
    """Where both stand, if both have what hits several places of one domain at a time."""
    if abs(one.symptom.onset_ms - other.symptom.onset_ms) > DOMAIN_MS:
        return None
    if not any(one.trouble in group and other.trouble in group for group in SHARED):
        return None
    return min(one.domains & other.domains, default=None)


def root_of(symptoms: Sequence[Told]) -> Told:
    """That which follows from none of the others; of several such, the one from which most of them follow.
    Where all follow from each other, the deepest."""
    able = [one for one in symptoms if one.may_open] or symptoms
    by_trouble: defaultdict[Trouble, list[Told]] = defaultdict(list)
    for one in able:
        by_trouble[one.trouble].append(one)
    first = [min(those, key=lambda one: one.symptom.onset_ms) for those in by_trouble.values()]
    free = [
        one.trouble
        for one in first
        if not any(
            other is not one and follows(other.trouble, one.trouble) and is_in_time(other, one)
            for other in first
        )
    ]

    def place(trouble: Trouble) -> tuple[int, bool, int]:
        is_over = all(one.is_over for one in by_trouble[trouble])
        return -_explained(trouble, by_trouble), is_over, depth(trouble)

    root = min(free, key=place) if free else min(by_trouble, key=depth)
    return min(by_trouble[root], key=_rank)


def _explained(trouble: Trouble, others: Iterable[Trouble]) -> int:
    return sum(follows(trouble, other) for other in others)


def in_order(symptoms: Iterable[Told], root: Told) -> list[Told]:
    """The root first, then what follows from it, by depth and by when it began."""
    return sorted(symptoms, key=lambda one: (one is not root, depth(one.trouble), _rank(one)))


def _rank(one: Told) -> tuple[int, int, int, str]:
    """A finding knows more than an alert, and one that names workload and place more than others; of two, the
    first is nearer to the cause."""
    symptom = one.symptom
    unnamed = (symptom.subject.workload is None) + (symptom.subject.node is None)
    return _KINDS.index(symptom.kind), unnamed, symptom.onset_ms, symptom.key


def _overlap(one: Told, other: Told, now_ms: int) -> bool:
    (a, a_end), (b, b_end) = _span(one, now_ms), _span(other, now_ms)
    return a <= b_end + SAME_MS and b <= a_end + SAME_MS


def _span(one: Told, now_ms: int) -> tuple[int, int]:
    ended_ms = one.symptom.ended_ms
    return one.symptom.onset_ms, ended_ms if ended_ms is not None else now_ms


def _reaches(cause: Told, effect: Told) -> bool:
    if effect.trouble in PLACED:
        return _on_one_place(cause, effect)
    if cause.trouble is Trouble.QUOTA and cause.namespace:
        return _in_one_namespace(cause, effect)
    if effect.trouble in PINNED and cause.trouble not in WIDE and _are_apart(cause, effect):
        return False
    if _of_one_run(cause, effect) or _was_hit(effect, cause):
        return True
    return _on_one_gpu(cause, effect) or (not effect.hit and _on_one_place(cause, effect))


def _on_one_place(one: Told, other: Told) -> bool:
    return _on_one_gpu(one, other) or _on_one_node(one, other)


def _on_one_gpu(one: Told, other: Told) -> bool:
    return one.symptom.subject.gpu is not None and one.symptom.subject.gpu == other.symptom.subject.gpu


def _on_one_node(one: Told, other: Told) -> bool:
    """A label may leave out the cluster; what both tell must be the same."""
    if one.node is None or other.node is None:
        return False
    (a_cluster, a), (b_cluster, b) = one.node, other.node
    return a == b and (a_cluster == b_cluster or not a_cluster or not b_cluster)


def _in_one_namespace(one: Told, other: Told) -> bool:
    """Every cluster has a namespace default. Of the cluster as above."""
    a, b = one.symptom.subject.known_cluster, other.symptom.subject.known_cluster
    return one.namespace == other.namespace and (a == b or not a or not b)


def _are_apart(one: Told, other: Told) -> bool:
    """Both name a place, and it is not the same."""
    a, b = one.symptom.subject, other.symptom.subject
    if a.gpu is not None and b.gpu is not None:
        return a.gpu != b.gpu
    return one.node is not None and other.node is not None and not _on_one_node(one, other)


def _of_one_job(one: Told, other: Told) -> bool:
    return _of_one_run(one, other) or any(_is_one_workload(x, y) for x in one.hit for y in other.hit)


def _of_one_run(one: Told, other: Told) -> bool:
    a, b = one.symptom.subject, other.symptom.subject
    return (a.run is not None and a.run == b.run) or bool(one.service and one.service == other.service)


def _was_hit(effect: Told, cause: Told) -> bool:
    """Its workload, when it began: the next attempt of a job may come to a broken node, after the last one
    failed elsewhere."""
    at_ms = effect.symptom.onset_ms
    reached = [one for one in cause.hit if cause.since_ms.get(one, at_ms) <= at_ms]
    return any(_is_one_workload(x, y) for x in reached for y in effect.hit)


def _is_one_workload(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Labels may leave out its cluster, group, kind and uid; what both tell must be the same."""
    return all(a == b or not a or not b for a, b in zip(one, other, strict=True)) and one[4] == other[4]
