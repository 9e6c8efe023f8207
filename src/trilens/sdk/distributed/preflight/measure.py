"""How fast ranks compute and reach each other, in the terms of nccl-tests.

Bus bandwidth of an all-reduce is its size over its time, times 2(n-1)/n: what each link carries, whatever the
number of ranks. All ranks run every function here at the same time; what takes long is cut by rank 0 for all.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_GPU_SIZES: Final = (1 << 20, 16 << 20, 256 << 20, 1 << 30)
_CPU_SIZES: Final = (64 << 10, 1 << 20, 16 << 20)
_LINK_BYTES: Final = {"cuda": 64 << 20, "cpu": 4 << 20}
_ENOUGH_S: Final = 0.3  # of repeating one measurement
_MOST_TIMES: Final = 20
_MATRIX: Final = {"cuda": 8192, "cpu": 512}


class AllReduce(NamedTuple):
    size_bytes: int
    seconds: float
    bus_bytes_per_s: float


class Link(NamedTuple):
    """Between two ranks, both ways at once; the speed is that of one way."""

    a: int
    b: int
    bytes_per_s: float


class Bench:
    """`group` is what is measured, None for the default group; that one is gloo, and serves to agree."""

    def __init__(self, torch: Any, device: str, group: Any, deadline_s: float) -> None:
        self._torch = torch
        self._dist = torch.distributed
        self._device = device
        self._kind = device.partition(":")[0]
        self._group = group
        self._deadline_s = deadline_s
        self.rank: int = self._dist.get_rank()
        self.world_size: int = self._dist.get_world_size()

    def compute(self) -> float:
        """Floating-point operations a second of a large matrix product: a throttled GPU shows here."""
        torch, side = self._torch, _MATRIX[self._kind]
        kind = torch.bfloat16 if self._kind == "cuda" else torch.float32
        a = torch.randn(side, side, device=self._device, dtype=kind)
        seconds = min(self._time(lambda: torch.mm(a, a), times=4) for _ in range(5))
        return float(2 * side**3 / seconds)

    def all_reduces(self) -> list[AllReduce]:
        found = []
        for size in _GPU_SIZES if self._kind == "cuda" else _CPU_SIZES:
            if not self._all_agree(time.monotonic() < self._deadline_s and self._has_room(size)):
                break
            data = self._torch.ones(size // 4, device=self._device)
            seconds = self._repeat(lambda data=data: self._dist.all_reduce(data, group=self._group))  # type: ignore[misc]
            share = 2 * (self.world_size - 1) / self.world_size
            found.append(AllReduce(size, seconds, size / seconds * share))
        return found

    def links(self, nodes: Sequence[str]) -> tuple[list[Link], int]:
        """Those that this rank measured as the lower end, and how many there was no time for.

        `nodes` says where each rank runs: with several, ranks of equal place on two nodes are paired, so that
        every rail between them carries something at the same time; with one, every rank with every other.
        """
        rounds = rounds_of(nodes)
        size = _LINK_BYTES[self._kind]
        out = self._torch.ones(size // 4, device=self._device)
        into = self._torch.empty_like(out)
        found: list[Link] = []
        for done, pairs in enumerate(rounds):
            if not self._all_agree(time.monotonic() < self._deadline_s):
                return found, sum(len(left) for left in rounds[done:])
            peer = next((b if a == self.rank else a for a, b in pairs if self.rank in (a, b)), None)
            if peer is None:
                continue
            self._exchange(peer, out, into)  # the first one sets the connection up
            seconds = min(self._time(lambda peer=peer: self._exchange(peer, out, into)) for _ in range(3))  # type: ignore[misc]
            if self.rank < peer:
                found.append(Link(self.rank, peer, size / seconds))
        return found, 0

    def _exchange(self, peer: int, out: Any, into: Any) -> None:
        dist = self._dist
        for work in dist.batch_isend_irecv(
            [
                dist.P2POp(dist.isend, out, peer, group=self._group),
                dist.P2POp(dist.irecv, into, peer, group=self._group),
            ]
        ):
            work.wait()

    def _repeat(self, call: Callable[[], object]) -> float:
        """The mean over as many times as all agree on, after two to warm up."""
        call()
        once = self._time(call)
        times = self._torch.tensor([max(1, min(_MOST_TIMES, int(_ENOUGH_S / max(once, 1e-6))))])
        self._dist.broadcast(times, src=0)
        return self._time(call, times=int(times.item()))

    def _time(self, call: Callable[[], object], *, times: int = 1) -> float:
        self._wait_for_device()
        began = time.perf_counter()
        for _ in range(times):
            call()
        self._wait_for_device()
        return (time.perf_counter() - began) / times

    def _wait_for_device(self) -> None:
        if self._kind == "cuda":
            self._torch.cuda.synchronize()

    def _has_room(self, size: int) -> bool:
        return self._kind != "cuda" or self._torch.cuda.mem_get_info()[0] > 3 * size

    def _all_agree(self, yes: bool) -> bool:
        agreed = self._torch.tensor([int(yes)])
        self._dist.all_reduce(agreed, op=self._dist.ReduceOp.MIN)
        return bool(agreed.item())


def rounds_of(nodes: Sequence[str]) -> list[list[tuple[int, int]]]:
    """Pairs of ranks, in rounds in which every rank has at most one partner."""
    places: dict[str, list[int]] = {}
    for rank, node in enumerate(nodes):
        places.setdefault(node, []).append(rank)
    if len(places) == 1:
        return [[(a, b) for a, b in pairs] for pairs in tournament(range(len(nodes)))]
    ranks = list(places.values())
    return [
        [tuple(sorted(pair)) for a, b in pairs for pair in zip(ranks[a], ranks[b], strict=False)]  # type: ignore[misc]
        for pairs in tournament(range(len(ranks)))
    ]


def tournament(players: Sequence[int]) -> list[list[tuple[int, int]]]:
    """Everyone meets everyone once; in each round everyone plays at most once (the circle method)."""
    circle: list[int | None] = [*players]
    if len(circle) % 2:
        circle.append(None)
    rounds = []
    for _ in range(len(circle) - 1):
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append([(min(a, b), max(a, b)) for a, b in pairs if a is not None and b is not None])
        circle.insert(1, circle.pop())
    return rounds
