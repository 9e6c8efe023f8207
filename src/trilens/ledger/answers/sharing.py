"""Who pays for time that nobody held: the fleet, or those who held GPUs beside it.

By cost, what a cluster's free and broken GPUs cost in a day of UTC is divided over all who held GPUs of that
cluster on that day, in proportion to what these cost. Each gets the quanta up to its end of the running sum
less those before it: nothing is lost, and nothing is made. Where nobody held any, it stays the fleet's.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from trilens.ledger.answers.cost import by_keys, shown_order
from trilens.model.ledger import Bucket
from trilens.model.ledger_sums import Dimension, Sharing, Sum, Window
from trilens.model.workload import WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.ledger.answers.cost import Keys
    from trilens.ledger.source import LedgerBook
    from trilens.model.query import QueryGuard

_FLEETS = tuple(bucket.value for bucket in Bucket if bucket.is_fleet)
_HELD = tuple(bucket.value for bucket in Bucket if not bucket.is_fleet)
FLEET_KEY: Final = "(fleet)"
_OF_HOLDERS = frozenset(
    {
        Dimension.TEAM,
        Dimension.COST_CENTRE,
        Dimension.NAMESPACE,
        Dimension.QUEUE,
        Dimension.EXPERIMENT,
        Dimension.WORKLOAD,
        Dimension.RUN,
    }
)


def divided_by(total: int, weights: Sequence[int]) -> list[int]:
    """`total` in parts as the weights are, of which at least one is above zero."""
    whole = sum(weights)
    ends = [total * upto // whole for upto in accumulate(weights, initial=0)]
    return [end - start for start, end in pairwise(ends)]


def sums(
    book: LedgerBook, by: Sequence[Dimension], window: Window, sharing: Sharing, guard: QueryGuard | None
) -> list[Sum]:
    """Time that nobody held, or pays for, stands under FLEET_KEY where a holder would."""
    if sharing is Sharing.NONE or not any(one in _OF_HOLDERS for one in (*by, *window.where)):
        return _with_fleet(book, by, window, guard)
    return by_keys([*_sums(book, by, _only(window, _HELD), guard), *_shared(book, by, window, guard)])


def _with_fleet(
    book: LedgerBook, by: Sequence[Dimension], window: Window, guard: QueryGuard | None
) -> list[Sum]:
    if not any(one in _OF_HOLDERS for one in by):
        return by_keys(book.sums(by, window, guard=guard))
    if Dimension.BUCKET in by:
        named = [one._replace(keys=fleet_named(by, one.keys)) for one in book.sums(by, window, guard=guard)]
        return by_keys(named)
    # Only the bucket tells what nobody held from what someone without a team did. It is asked for alone: a
    # month has many workloads, and each would be there once for every bucket.
    nobody = [
        one._replace(keys=_of_fleet(by, one.keys)) for one in _sums(book, by, _only(window, _FLEETS), guard)
    ]
    return by_keys([*_sums(book, by, _only(window, _HELD), guard), *nobody])


def fleet_named(by: Sequence[Dimension], keys: Keys) -> Keys:
    """Where the bucket is among them."""
    if Dimension.BUCKET not in by or keys[by.index(Dimension.BUCKET)] not in _FLEETS:
        return keys
    return _of_fleet(by, keys)


def _of_fleet(by: Sequence[Dimension], keys: Keys) -> Keys:
    return tuple(FLEET_KEY if one in _OF_HOLDERS else key for one, key in zip(by, keys, strict=True))


def _shared(book: LedgerBook, by: Sequence[Dimension], window: Window, guard: QueryGuard | None) -> list[Sum]:
    """What is of the fleet under the names of those who pay for it."""
    own = [one for one in by if one not in _OF_HOLDERS]
    holders = [one for one in Dimension if one in _OF_HOLDERS and (one in by or one in window.where)]
    # Who pays is not a question of which machines or buckets were asked for.
    everyone = Window(window.from_ms, window.to_ms, _of(window, Dimension.CLUSTER))
    machines = replace(
        window, where={name: kept for name, kept in window.where.items() if name not in _OF_HOLDERS}
    )
    groups = (Dimension.CLUSTER, Dimension.DAY)
    fleet = _sums(book, [*groups, *own], _only(machines, _FLEETS), guard)
    paying: defaultdict[tuple[Keys, str], list[tuple[Keys, int]]] = defaultdict(list)
    weights = _sums(book, [*groups, *holders], _only(everyone, _HELD), guard) if fleet else []
    for one in sorted(weights, key=lambda one: shown_order(one.keys)):
        if one.quanta > 0:
            paying[one.keys[:2], one.currency].append((one.keys[2:], one.quanta))
    nobody: Keys = (FLEET_KEY,) * len(holders)
    found = []
    for one in fleet:
        payers = paying.get((one.keys[:2], one.currency)) or [(nobody, 1)]
        weight = [quanta for _, quanta in payers]
        time, told, money, unpriced = (
            divided_by(total, weight) for total in (one.gpu_ms, one.signal_ms, one.quanta, one.unpriced_ms)
        )
        machine = dict(zip(own, one.keys[2:], strict=True))
        for at, (whose, _) in enumerate(payers):
            holder = dict(zip(holders, whose, strict=True))
            if _is_asked_for(holder, window):
                keys = tuple({**machine, **holder}[name] for name in by)
                found.append(Sum(keys, time[at], 0, 0, told[at], money[at], unpriced[at], one.currency))
    return found


def _sums(
    book: LedgerBook, by: Sequence[Dimension], window: Window, guard: QueryGuard | None
) -> Sequence[Sum]:
    return book.sums(by, window, guard=guard) if window.where[Dimension.BUCKET] else []


def _only(window: Window, buckets: tuple[str, ...]) -> Window:
    """Of these buckets, those that the window asks for."""
    wanted = window.where.get(Dimension.BUCKET)
    kept = buckets if wanted is None else tuple(bucket for bucket in buckets if bucket in wanted)
    return replace(window, where={**window.where, Dimension.BUCKET: kept})


def _of(window: Window, name: Dimension) -> dict[Dimension, tuple[str | None, ...]]:
    return {name: window.where[name]} if name in window.where else {}


def _is_asked_for(holder: Mapping[Dimension, object], window: Window) -> bool:
    return all(
        any(_names(value, kept) for kept in window.where[name])
        for name, value in holder.items()
        if name in window.where
    )


def _names(value: object, written: str | None) -> bool:
    """The fleet has none of what a holder has."""
    if isinstance(value, WorkloadKey):
        return written is not None and is_named(value, written)
    return (None if value == FLEET_KEY else value) == written


def is_named(workload: WorkloadKey, written: str) -> bool:
    """By NAME, NAMESPACE/NAME, KIND/NAME or CLUSTER/NAMESPACE/KIND/NAME."""
    *path, name = written.split("/")
    if name != workload.name:
        return False
    if len(path) == 1:
        return path[0] == workload.namespace or path[0].lower() == workload.kind.lower()
    return path in ([], [workload.cluster, workload.namespace, workload.kind])
