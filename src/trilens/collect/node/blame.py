"""Whom a fault hit: the process that the kernel named, else whoever holds the GPU."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from trilens.collect.node.local_workloads import group_processes
from trilens.model.node import SAME_START_MS

if TYPE_CHECKING:
    from trilens.collect.node.gpus import Gpus
    from trilens.collect.node.processes import Process
    from trilens.collect.node.surroundings import Lookout
    from trilens.model.xid import KernelFault

_FRESH_MS: Final = 60_000  # who holds a GPU now held it when a fault this young happened


class Blame:
    def __init__(self, node: str, gpus: Gpus, lookout: Lookout) -> None:
        self._node = node
        self._gpus = gpus
        self._lookout = lookout

    def __call__(self, fault: KernelFault, t_ms: int) -> dict[str, Any]:
        gpu = next((gpu for gpu in self._gpus.known if gpu.pci == fault.pci), None)
        whom: dict[str, Any] = {
            "node": self._node,
            "uuid": gpu.uuid if gpu else None,
            "gpu": gpu.number if gpu else None,
            "process": None,
            "workload": None,  # of a process in no pod
            "pods": [],
            "by": None,
        }
        if (process := self._process_of(fault, t_ms)) is not None:
            pod = self._lookout.pod_of(process)
            alone = None if process.belonging.pod_uid else next(iter(group_processes([process], self._node)))
            return whom | {
                "process": process.as_json(),
                "workload": alone._asdict() if alone else None,
                "pods": [pod] if pod else [],
                "by": "process",
            }
        if gpu is None or fault.pid is not None or time.time() * 1000 - t_ms >= _FRESH_MS:
            return whom
        held = [by for by in self._lookout.seen.held if by.is_of(gpu, fault.gpu_instance)]
        owners = {(by.device.namespace, by.device.pod) for by in held}
        pods = [{"namespace": namespace, "pod": name, "uid": None} for namespace, name in sorted(owners)]
        return whom | {"pods": pods, "by": "device" if pods else None}

    def _process_of(self, fault: KernelFault, t_ms: int) -> Process | None:
        process = self._lookout.process(fault.pid) if fault.pid is not None else None
        if process is not None and process.started_ms > t_ms + SAME_START_MS:
            return None  # the number was given to another process since
        return process
