"""What of a simulated fleet nobody held, or nobody could use, by the truth: for scoring a ledger."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.simulate.truth import FaultTruth, NodeTruth, RankOnGpu, Truth


class TrueNode(NamedTuple):
    """GPU-seconds of one machine. Broken is all time in which its GPUs could not be used, held or not; free
    is what else nobody held."""

    name: str
    free_s: float
    broken_s: float
    faults: tuple[FaultTruth, ...]  # that took GPUs out


def true_fleet(truth: Truth, now_ms: int) -> list[TrueNode]:
    """Of all machines that were there since the beginning of the world, in the order in which they came."""
    held: defaultdict[str, list[RankOnGpu]] = defaultdict(list)
    for on_gpu in truth.gpus:
        held[on_gpu.gpu_uuid].append(on_gpu)
    found = []
    for node in truth.nodes:
        faults = tuple(one for one in truth.faults if one.takes_out and one.node == node.name)
        free_ms, broken_ms = 0.0, 0
        for uuid in node.gpu_uuids:
            out = [one for one in faults if one.gpu_uuid in ("", uuid)]
            free, broken = _gpu_ms(node, held[uuid], out, now_ms)
            free_ms, broken_ms = free_ms + free, broken_ms + broken
        found.append(TrueNode(node.name, free_ms / 1000, broken_ms / 1000, faults))
    return found


def _gpu_ms(
    node: NodeTruth, held: Sequence[RankOnGpu], out: Sequence[FaultTruth], now_ms: int
) -> tuple[float, int]:
    """Free and broken. Those who take turns on a GPU hold all of it, however few they are."""
    end_ms = now_ms if node.to_ms is None else node.to_ms
    cuts = {node.from_ms, end_ms}
    for times in ((one.from_ms, one.to_ms) for some in (held, out) for one in some):
        cuts.update(at for at in times if at is not None and node.from_ms < at < end_ms)
    free, broken = 0.0, 0
    for begin, until in pairwise(sorted(cuts)):
        if any(_lasts(one, begin) for one in out):
            broken += until - begin
            continue
        on_it = [one for one in held if _lasts(one, begin)]
        instances = {one.gpu_instance for one in on_it}
        taken = 1.0 if "" in instances else len(instances) * node.instance_share
        free += (until - begin) * (1 - taken)
    return free, broken


def _lasts(one: RankOnGpu | FaultTruth, at_ms: int) -> bool:
    return one.from_ms <= at_ms and (one.to_ms is None or at_ms < one.to_ms)
