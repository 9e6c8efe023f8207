"""Xids after which a GPU is out of service: which they are, which GPU each means, for how long they count.

The ledger books such a GPU as broken, and Fleet and `trilens gpus` show it: by one rule. What shows that it
is back each of them finds in what it knows.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final

from trilens.model.event import EventKind
from trilens.model.nvlink import sub_code, sub_coded
from trilens.model.xid import XIDS, Asks, FaultKind, KernelFault, XidMeaning

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.model.event import EventRecord
    from trilens.model.gpu import GpuInterval
    from trilens.model.workload import GpuUuid

REMEMBERED_MS: Final = 86_400_000  # what a fault broke a day before is mended, or not ready, or lost by now
UNKNOWN_XID: Final = XidMeaning("an Xid that is not in the catalogue", Asks.LOOK)
_OUT: Final = frozenset({Asks.GPU_RESET, Asks.NODE_OUT})
HARDWARE_XIDS: Final = frozenset(code for code, one in XIDS.items() if one.asks in _OUT)  # by themselves


def xid_meaning(code: int, text: str) -> XidMeaning:
    """What an NVLink Xid asks for stands in the rest of its line."""
    known = XIDS.get(code, UNKNOWN_XID)
    sub = sub_code(KernelFault(FaultKind.XID, code, None, text))
    return known if sub is None else replace(known, asks=sub.asks)


@cache
def may_take_out() -> frozenset[int]:
    """The codes of these, and those of which the rest of the line decides."""
    return HARDWARE_XIDS | sub_coded()


def takes_out(fault: EventRecord) -> bool:
    if fault.kind is not EventKind.XID or fault.code is None:
        return False
    return xid_meaning(fault.code, fault.text).asks in _OUT


class GpuNumbers:
    """Which GPU is meant by its number on a node: the last of these that had it."""

    def __init__(self, gpus: Iterable[GpuInterval]) -> None:
        self._by_cluster: defaultdict[tuple[str, str], dict[str, GpuUuid]] = defaultdict(dict)
        for interval in sorted(gpus, key=lambda one: (one.from_ms, one.gpu.key)):
            gpu = interval.gpu
            if gpu.index:
                self._by_cluster[gpu.node, gpu.index][gpu.cluster] = gpu.key.uuid

    def gpu_of(self, fault: EventRecord) -> GpuUuid | None:
        """As the fault names it, or else by its number, where only one cluster's can be meant."""
        if fault.uuid:
            return fault.uuid
        by_cluster = self._by_cluster.get((fault.node, str(fault.gpu)), {})
        fitting = [uuid for cluster, uuid in by_cluster.items() if fault.may_be_in(cluster)]
        return fitting[0] if len(fitting) == 1 else None
