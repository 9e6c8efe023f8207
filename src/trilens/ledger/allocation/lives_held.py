"""Which lives of ranks ran on which held GPU.

A program tells its pod, and often its GPUs. Where it does not, an agent may have seen the rank of the process
on the GPU; where nobody has, the GPUs of a pod go to its lives in the order of their local ranks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.model.node import SAME_START_MS, member_uid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.ledger.allocation.holdings import Holding
    from trilens.model.gpu import GpuKey
    from trilens.model.run import RankProcess, RunId

_SECOND_MS: Final = 1_000  # a start is boot plus ticks, and two readings of the boot differ by whole seconds

Lives = dict[int, list["RankProcess"]]


def lives_of(
    holdings: Sequence[Holding], lives: Iterable[RankProcess], numbers: Mapping[GpuKey, str]
) -> Lives:
    """Of each holding, by its place in the sequence, in the order in which they began. `numbers` are those of
    the GPUs on their node."""
    found: defaultdict[int, list[RankProcess]] = defaultdict(list)
    for pod_holdings, of_pod in _by_pod(holdings, lives):
        _spread(holdings, pod_holdings, of_pod, numbers, found)
    for of_holding in found.values():
        if len(of_holding) > 1:
            of_holding.sort(key=_order)
    return found


def _order(life: RankProcess) -> tuple[int, str, int, int]:
    return life.started_ms, life.run, life.rank, life.attempt


def _by_pod(
    holdings: Sequence[Holding], lives: Iterable[RankProcess]
) -> Iterable[tuple[list[int], list[RankProcess]]]:
    by_uid: defaultdict[str, list[int]] = defaultdict(list)
    by_name: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    by_gpu: defaultdict[str, list[int]] = defaultdict(list)
    for i, holding in enumerate(holdings):
        pod = holding.member.pod
        by_uid[pod.uid].append(i)
        by_name[pod.namespace, pod.name].append(i)
        by_gpu[holding.gpu.uuid].append(i)
    of_pods: dict[tuple[int, ...], tuple[list[int], list[RankProcess]]] = {}
    for life in lives:
        places = by_uid.get(life.pod_uid) if life.pod_uid else None
        if places is None and life.pod and not life.pod_uid:
            places = _meanwhile(holdings, by_name.get((life.namespace or "", life.pod), ()), life)
        if places is None and not life.pod and not life.pod_uid:
            places = next((by_uid[uid] for uid in _member_uids(life) if uid in by_uid), None)
            if places is None and life.gpus:
                places = _meanwhile(holdings, [i for uuid in life.gpus for i in by_gpu.get(uuid, ())], life)
        if places := _of_one_cluster(holdings, places or [], life):
            of_pods.setdefault(tuple(places), (places, []))[1].append(life)
    return of_pods.values()


def _of_one_cluster(holdings: Sequence[Holding], places: list[int], life: RankProcess) -> list[int]:
    """In the cluster that it said. Where it said none, and it may be in either of two, nobody knows."""
    own = [i for i in places if life.cluster in (None, holdings[i].member.pod.cluster)]
    return own if len({holdings[i].member.pod.cluster for i in own}) == 1 else []


def _member_uids(life: RankProcess) -> Iterable[str]:
    if life.pid is not None and life.process_started_ms is not None:
        for shift_ms in range(-SAME_START_MS, SAME_START_MS + 1, _SECOND_MS):
            yield member_uid(life.node, life.pid, life.process_started_ms + shift_ms)


def _meanwhile(holdings: Sequence[Holding], places: Iterable[int], life: RankProcess) -> list[int]:
    """Names of pods are used again: those are meant that were there while the process was, on its node."""
    there = [
        i
        for i in places
        if (life.ended_ms is None or holdings[i].began_ms <= life.ended_ms)
        and (holdings[i].is_open or holdings[i].to_ms >= life.started_ms)
    ]
    here = [i for i in there if holdings[i].node == life.node]
    return here or there


def _spread(
    holdings: Sequence[Holding],
    places: list[int],
    lives: list[RankProcess],
    numbers: Mapping[GpuKey, str],
    found: defaultdict[int, list[RankProcess]],
) -> None:
    """The lives of one pod over its GPUs."""
    if len(places) == 1:
        found[places[0]] += lives
        return
    rest: defaultdict[tuple[RunId, str], list[RankProcess]] = defaultdict(list)
    taken: list[tuple[int, RankProcess]] = []
    for life in lives:
        own = _told(holdings, places, life)
        if not own:
            # A pod may train one thing after another: each has its own number of programs.
            rest[life.run, life.container or ""].append(life)
        for i in own:
            found[i].append(life)
            taken.append((i, life))
    for (_, container), untold in rest.items():
        in_it = [i for i in places if holdings[i].container == container] if container else []
        candidates = in_it or places
        others = {i for i, life in taken if any(_is_beside(life, one) for one in untold)}
        free = [i for i in candidates if i not in others] or candidates
        _by_local_rank(holdings, free, untold, numbers, found)


def _is_beside(one: RankProcess, other: RankProcess) -> bool:
    return (one.ended_ms is None or one.ended_ms > other.started_ms) and (
        other.ended_ms is None or other.ended_ms > one.started_ms
    )


def _told(holdings: Sequence[Holding], places: list[int], life: RankProcess) -> list[int]:
    if life.gpus:
        own = [i for i in places if holdings[i].gpu.uuid in life.gpus]
        if own:
            return own
    own = [i for i in places if holdings[i].rank is not None and holdings[i].rank == life.rank]
    if own or life.local_rank is None:
        return own
    return [i for i in places if holdings[i].rank is None and holdings[i].local_rank == life.local_rank]


def _by_local_rank(
    holdings: Sequence[Holding],
    places: list[int],
    lives: list[RankProcess],
    numbers: Mapping[GpuKey, str],
    found: defaultdict[int, list[RankProcess]],
) -> None:
    """As many lives as GPUs: one each. Fewer: a run of neighbouring GPUs each. More: they share."""
    of_gpu: defaultdict[GpuKey, list[int]] = defaultdict(list)
    for i in places:
        of_gpu[holdings[i].gpu].append(i)
    gpus = sorted(of_gpu, key=lambda gpu: (_number(numbers.get(gpu, "")), gpu))
    of_seat: defaultdict[tuple[bool, int], list[RankProcess]] = defaultdict(list)
    for life in lives:
        is_untold = life.local_rank is None
        of_seat[is_untold, life.rank if life.local_rank is None else life.local_rank].append(life)
    seats = sorted(of_seat)
    pairs = (
        [(at, at * len(seats) // len(gpus)) for at in range(len(gpus))]
        if len(gpus) >= len(seats)
        else [(at * len(gpus) // len(seats), at) for at in range(len(seats))]
    )
    for gpu, seat in pairs:
        for i in of_gpu[gpus[gpu]]:
            found[i] += of_seat[seats[seat]]


def _number(told: str) -> int:
    return int(told) if told.isdecimal() else 1 << 30
