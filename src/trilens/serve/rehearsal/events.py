"""The faults that the kernels of a simulated cluster report, kept as those of agents are."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from trilens.model.event import EventKind, EventRecord, Victim
from trilens.model.workload import GpuUuid
from trilens.model.xid import XIDS

if TYPE_CHECKING:
    from trilens.simulate.faults.scene import KernelLine
    from trilens.simulate.world import World
    from trilens.store.store import Store

_XID: Final = re.compile(r"NVRM: Xid \(PCI:(?P<pci>[0-9a-f:]+)\): (?P<code>\d+), (?P<text>.*)")


class KernelEvents:
    def __init__(self, world: World, store: Store) -> None:
        self._world = world
        self._store = store
        self._taken: Counter[str] = Counter()

    def look(self) -> None:
        for node in self._world.nodes:
            lines = self._world.kernel_faults(node)
            for number, line in enumerate(lines[self._taken[node] :], self._taken[node] + 1):
                self._store.events.event(_event(node, number, line))
            self._taken[node] = len(lines)


def _event(node: str, number: int, line: KernelLine) -> EventRecord:
    read = _XID.fullmatch(line.text)
    assert read is not None, line.text
    code = int(read["code"])
    known, holder = XIDS.get(code), line.holder
    return EventRecord(
        node=node,
        id=f"{node}:{number}",
        t_ms=line.at_ms,
        kind=EventKind.XID,
        code=code,
        text=read["text"],
        title=known.title if known is not None else None,
        asks=known.asks if known is not None else None,
        uuid=GpuUuid(holder.gpu.uuid) if holder is not None else None,
        gpu=holder.gpu.number if holder is not None else None,
        pci=read["pci"],
        pid=holder.pid if holder is not None else None,
        process=None,
        rank=holder.rank if holder is not None else None,
        victims=(Victim(holder.namespace, holder.pod, holder.pod_uid),) if holder is not None else (),
        ledger=f"simulated-{node}",
        number=number,
    )
