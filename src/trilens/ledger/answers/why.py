"""Where money went for nothing: the largest causes.

For nothing is what was neither productive nor serving, nor the writing of a checkpoint.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger import causes
from trilens.ledger.answers.cost import by_keys, largest_first
from trilens.ledger.answers.known_time import cluster_known_ms
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.ledger_sums import Dimension, Episode, Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.source import LedgerBook
    from trilens.model.ledger_sums import Sum
    from trilens.model.query import QueryGuard

FOR_NOTHING: Final = tuple(
    bucket for bucket in Bucket if not bucket.is_useful and bucket is not Bucket.CHECKPOINT
)
_SHOWN: Final = 10
_SMALL: Final = 0.01
_LOOKED_AT: Final = 1_000  # episodes: the largest are among them, and what is left is a sum
# What comes and goes many times a day is one cause of its workload; a stall or a crash stands alone.
_PUT_TOGETHER: Final = frozenset(
    {Bucket.DATA_WAIT, Bucket.SYNC_WAIT, Bucket.STARTING, Bucket.ALLOCATED_IDLE, Bucket.SERVING_IDLE}
)


class Found(NamedTuple):
    """`times` episodes as one; `nodes` that it was on, where that is known."""

    episode: Episode
    times: int = 1
    nodes: tuple[str, ...] = ()


class Rest(NamedTuple):
    """All others of a currency; `causes` is None where there are more than were looked at."""

    causes: int | None
    gpu_ms: int
    quanta: int
    unpriced_ms: int
    currency: str


@dataclass(frozen=True, slots=True)
class Why:
    largest: tuple[Found, ...]
    rest: tuple[Rest, ...]
    for_nothing: tuple[Sum, ...]  # all of it, by currency,
    spent: tuple[Sum, ...]  # and all that was spent on anything
    buckets: tuple[Sum, ...]  # for nothing, by bucket


def why(
    book: LedgerBook,
    window: Window,
    *,
    limit: int | None = None,
    guard: QueryGuard | None = None,
) -> Why:
    """The `limit` largest; without one, of the ten largest those that matter."""
    wanted = window.where.get(Dimension.BUCKET)
    buckets = tuple(one.value for one in FOR_NOTHING if wanted is None or one.value in wanted)
    spent = by_keys(book.sums([Dimension.BUCKET], window, guard=guard))
    nothing = [one for one in spent if one.keys[0] in buckets]
    wholes = by_keys(nothing, keep=())
    free = any(one.keys[0] == Bucket.UNALLOCATED for one in nothing)
    elsewhere = _only(window, tuple(one for one in buckets if one != Bucket.UNALLOCATED))
    episodes = book.episodes(elsewhere, limit=_LOOKED_AT, guard=guard) if nothing else []
    found = [*_together(_continued(episodes)), *(_free(book, window, guard) if free else [])]
    worth = {one.currency: one.quanta for one in wholes}
    # Two currencies cannot be compared: that in which more was spent comes first, then what has no price.
    found.sort(
        key=lambda one: (
            not one.episode.quanta,
            -worth.get(one.episode.currency, 0),
            -one.episode.quanta,
            -one.episode.gpu_ms,
            *map(str, (one.episode.bucket, one.episode.cause, one.episode.workload, one.episode.since_ms)),
        )
    )
    shown = found[:limit] if limit is not None else _large(found, wholes)
    others = [one for one in found if one not in shown]
    is_all = len(episodes) < _LOOKED_AT
    rest = [_rest(whole, shown, others, is_all=is_all, alone=len(wholes) == 1) for whole in wholes]
    return Why(
        tuple(shown),
        tuple(one for one in rest if one.gpu_ms > 0),
        tuple(wholes),
        tuple(by_keys(spent, keep=())),
        tuple(nothing),
    )


def _large(found: Sequence[Found], wholes: Sequence[Sum]) -> list[Found]:
    """Each at least a hundredth of what went for nothing in its currency; without a price, of the time."""
    money = {one.currency: one.quanta for one in wholes if one.currency}
    time = sum(one.gpu_ms for one in wholes)
    return [
        one
        for one in found
        if (
            one.episode.quanta >= _SMALL * money.get(one.episode.currency, 0)
            if one.episode.quanta
            else one.episode.gpu_ms >= _SMALL * time
        )
    ][:_SHOWN]


def _together(episodes: Sequence[Episode]) -> list[Found]:
    grouped: defaultdict[object, list[Episode]] = defaultdict(list)
    for at, one in enumerate(episodes):
        alike = (one.bucket, one.cause, one.workload, one.run, one.cluster, one.currency)
        grouped[alike if one.bucket in _PUT_TOGETHER else at].append(one)
    return [Found(_merged(alike), _times(alike)) for alike in grouped.values()]


def _times(episodes: Sequence[Episode]) -> int:
    """How often it began: what goes on since before counts where nothing is known to have begun before."""
    begun = [one.since_ms for one in episodes if one.since_ms is not None]
    untold = [one.first_ms for one in episodes if one.since_ms is None]
    return len(begun) + (bool(untold) and min(untold) < min(begun, default=1 << 62))


def _continued(episodes: Sequence[Episode]) -> list[Episode]:
    """With what has gone on since before put to what it is: since when something goes on is told in the hour
    in which it begins and in the one after, and from then on not."""
    told: defaultdict[object, list[Episode]] = defaultdict(list)
    goes_on: list[Episode] = []
    for one in episodes:
        if one.since_ms is None:
            goes_on.append(one)
        else:
            told[_what(one)].append(one)
    found: list[Episode] = []
    for one in goes_on:
        of_it = told[_what(one)]
        begun = [at for at, other in enumerate(of_it) if other.last_ms + HOUR_MS == one.first_ms]
        # Of several beginnings, nobody knows which one it goes on from.
        again = any(one.first_ms <= (other.since_ms or 0) <= one.last_ms for other in of_it)
        if len(begun) == 1 and not again:
            before = of_it[begun[0]]
            of_it[begun[0]] = _merged((before, one))._replace(since_ms=before.since_ms, step=before.step)
        else:
            found.append(one)
    return [*found, *(one for of_it in told.values() for one in of_it)]


def _what(one: Episode) -> tuple[object, ...]:
    """What was never used is only known to be idle once nobody knows since when."""
    cause = causes.IDLE if one.cause == causes.NEVER_USED else one.cause
    whose = (one.workload, one.run) if one.workload is not None else (one.node,)
    return one.bucket, cause, one.cluster, one.currency, *whose


def _merged(episodes: Sequence[Episode]) -> Episode:
    first = episodes[0]
    if len(episodes) == 1:
        return first
    return first._replace(
        team=first.team if all(one.team == first.team for one in episodes) else None,
        node=first.node if all(one.node == first.node for one in episodes) else None,
        since_ms=None,
        step=None,
        first_ms=min(one.first_ms for one in episodes),
        last_ms=max(one.last_ms for one in episodes),
        gpus=max(one.gpus for one in episodes),
        gpu_ms=sum(one.gpu_ms for one in episodes),
        quanta=sum(one.quanta for one in episodes),
        unpriced_ms=sum(one.unpriced_ms for one in episodes),
    )


def _free(book: LedgerBook, window: Window, guard: QueryGuard | None) -> list[Found]:
    """GPUs come free and are taken all the time: what counts is how many of a cluster were, on average."""
    only = _only(window, (Bucket.UNALLOCATED.value,))
    by = (Dimension.CLUSTER, Dimension.CAUSE, Dimension.NODE)
    of_nodes = by_keys(book.sums(by, only, guard=guard))
    found = []
    for one in by_keys(of_nodes, keep=(0, 1)):
        cluster, cause = one.keys
        nodes = [str(of_node.keys[2]) for of_node in largest_first(of_nodes) if of_node.keys[:2] == one.keys]
        known_ms = max(1, cluster_known_ms(book, str(cluster), window, guard))
        gpus = max(1, round(one.gpu_ms / known_ms))
        episode = Episode(
            Bucket.UNALLOCATED,
            str(cause),
            None,
            None,
            None,
            str(cluster),
            nodes[0] if len(nodes) == 1 else None,
            None,
            window.from_ms,
            window.to_ms,
            None,
            gpus,
            one.gpu_ms,
            one.quanta,
            one.unpriced_ms,
            one.currency,
        )
        found.append(Found(episode, 1, tuple(dict.fromkeys(nodes))))
    return found


def _rest(whole: Sum, shown: Sequence[Found], others: Sequence[Found], *, is_all: bool, alone: bool) -> Rest:
    """What has no price is of the only currency, where there is one."""

    def of_it(found: Sequence[Found]) -> list[Episode]:
        return [one for one, *_ in found if one.currency == whole.currency or (alone and not one.currency)]

    said = of_it(shown)
    return Rest(
        len(of_it(others)) if is_all else None,
        whole.gpu_ms - sum(one.gpu_ms for one in said),
        whole.quanta - sum(one.quanta for one in said),
        whole.unpriced_ms - sum(one.unpriced_ms for one in said),
        whole.currency,
    )


def _only(window: Window, buckets: tuple[str, ...]) -> Window:
    return replace(window, where={**window.where, Dimension.BUCKET: buckets})
