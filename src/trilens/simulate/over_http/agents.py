"""`trilens agent` on each simulated node: the same pages in the same shapes, from what the world knows.

The kernel's lines are told with whoever was on the GPU when they were written.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import orjson
from aiohttp import web

from trilens.model.xid import XIDS
from trilens.simulate.over_http.exporters import answered, exposition, target, targets

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from trilens.simulate.holders import GpuOnNode, Holder
    from trilens.simulate.world import World

_Handler: TypeAlias = "Callable[[web.Request], Awaitable[web.StreamResponse]]"

AGENT_TARGETS: Final = "/sd/agents"
_PORT: Final = 9334
_XID: Final = re.compile(
    r"NVRM: Xid \(PCI:(?P<pci>[0-9a-f:]+)\): (?P<code>\d+), "
    r"(?:pid='?(?P<pid>\d+|<unknown>)'?, name=(?P<name>[^,]+), )?(?P<text>.*)"
)
_TYPES: Final = {
    "trilens_agent_build_info": "gauge",
    "trilens_gpu_xid_total": "counter",
    "trilens_gpu_xid_any_total": "counter",
    "trilens_gpu_process_memory_bytes": "gauge",
    "trilens_node_device_info": "gauge",
}


class _Sample(NamedTuple):
    metric: str
    labels: Mapping[str, str]
    value: int


class _Fault(NamedTuple):
    number: int
    t_ms: int
    pci_bus_id: str
    code: int
    pid: int | None
    process: str | None
    text: str
    holder: Holder | None


class Agents:
    """Reads the world on the event loop that it serves on, and only there."""

    def __init__(self, world: World) -> None:
        self._world = world

    def routes(self) -> list[web.AbstractRouteDef]:
        pages: dict[str, Callable[[str, web.Request], dict[str, Any]]] = {
            "healthz": lambda node, _request: self._health(node),
            "v1/output": lambda node, request: self._output(node, request.query),
            "v1/devices": lambda node, _request: self._devices(node),
            "v1/processes": lambda node, _request: self._processes(node),
            "v1/events": lambda node, request: self._events(node, int(request.query.get("after", "0"))),
        }
        return [
            web.get(AGENT_TARGETS, self._targets),
            web.get("/nodes/{node}/agent/metrics", self._metrics),
            *(web.get(f"/nodes/{{node}}/agent/{page}", _page(answer)) for page, answer in pages.items()),
        ]

    def _health(self, node: str) -> dict[str, Any]:
        self._world.gpus(node)  # raises where nobody answers
        return {"healthy": True, "problems": {}}

    def _output(self, node: str, asked: Mapping[str, str]) -> dict[str, Any]:
        pods = [
            {
                "namespace": one.namespace,
                "name": one.pod,
                "uid": one.pod_uid,
                "containers": [
                    {
                        "container": one.container,
                        "runs": [{"run": run, "lines": lines} for run, lines in one.runs.items()],
                        "termination_messages": [],
                    }
                ],
            }
            for one in self._world.output(node)
            if asked.get("namespace", one.namespace) == one.namespace and asked.get("pod", one.pod) == one.pod
        ]
        return {"node": node, "pods": pods}

    async def _targets(self, request: web.Request) -> web.Response:
        return targets(
            target(request.host, f"/nodes/{node}/agent/metrics", instance=f"{node}:{_PORT}", node=node)
            for node in self._world.nodes
        )

    async def _metrics(self, request: web.Request) -> web.Response:
        node = request.match_info["node"]
        return answered(request, node, lambda: exposition(_written(self._samples(node)).encode()))

    def _samples(self, node: str) -> Iterator[_Sample]:
        here = {"Hostname": node}
        yield _Sample("trilens_agent_build_info", {"version": "simulated", **here}, 1)
        gpus = self._world.gpus(node)
        by_place = {gpu.pci_bus_id: gpu for gpu in gpus}
        by_code = Counter((fault.pci_bus_id, fault.code) for fault in self._faults(node))
        totals = Counter({gpu.pci_bus_id: 0 for gpu in gpus})
        for (place, code), count in by_code.items():
            totals[place] += count
            labels = {**_gpu(by_place.get(place)), "pci_bus_id": place, "xid": str(code), **here}
            yield _Sample("trilens_gpu_xid_total", labels, count)
        for place, count in totals.items():
            labels = {**_gpu(by_place.get(place)), "pci_bus_id": place, **here}
            yield _Sample("trilens_gpu_xid_any_total", labels, count)
        for holder in self._world.holders(node):
            if holder.pid is not None:
                yield _Sample(
                    "trilens_gpu_process_memory_bytes", _process_labels(holder, here), holder.memory_bytes
                )
            yield _Sample("trilens_node_device_info", {"UUID": holder.device, **_device(holder), **here}, 1)

    def _devices(self, node: str) -> dict[str, Any]:
        devices = [
            {"uuid": holder.device, "device_id": _device_id(holder), **_device(holder)}
            for holder in self._world.holders(node)
        ]
        return {"node": node, "devices": devices}

    def _processes(self, node: str) -> dict[str, Any]:
        """All are in pods, so none of them is a workload of its own."""
        processes = [
            {
                "gpu": holder.gpu.number,
                "uuid": holder.gpu.uuid,
                "gpu_instance": int(holder.instance) if holder.instance else None,
                "memory_bytes": holder.memory_bytes,
                "pid": holder.pid,
                "pod": _pod(holder),
                "process": _process(holder),
            }
            for holder in self._world.holders(node)
            if holder.pid is not None
        ]
        return {"node": node, "processes": processes, "workloads": []}

    def _events(self, node: str, after: int) -> dict[str, Any]:
        by_place = {gpu.pci_bus_id: gpu for gpu in self._world.gpus(node)}
        events = [
            self._event(node, fault, by_place.get(fault.pci_bus_id))
            for fault in self._faults(node)
            if fault.number > after
        ]
        return {"ledger": f"simulated-{node}", "events": events}

    def _event(self, node: str, fault: _Fault, gpu: GpuOnNode | None) -> dict[str, Any]:
        known = XIDS.get(fault.code)
        holder = fault.holder
        return {
            "number": fault.number,
            "id": f"{node}:{fault.number}",
            "t_ms": fault.t_ms,
            "kind": "xid",
            "code": fault.code,
            "pci": fault.pci_bus_id,
            "text": fault.text,
            "pid": fault.pid,
            "title": known.title if known else None,
            "asks": known.asks if known else None,
            "node": node,
            "uuid": gpu.uuid if gpu else None,
            "gpu": gpu.number if gpu else None,
            "process": _process(holder) if holder is not None and holder.pid is not None else None,
            "workload": None,
            "pods": [_pod(holder)] if holder is not None else [],
            "by": None if holder is None else "device" if holder.pid is None else "process",
            "process_name": fault.process,
        }

    def _faults(self, node: str) -> Iterator[_Fault]:
        for number, line in enumerate(self._world.kernel_faults(node), 1):
            read = _XID.fullmatch(line.text)
            assert read is not None, line.text
            pid = read["pid"]
            domain, bus, slot = read["pci"].split(":")
            yield _Fault(
                number=number,
                t_ms=line.at_ms,
                pci_bus_id=f"{int(domain, 16):08X}:{bus.upper()}:{slot.upper()}.0",
                code=int(read["code"]),
                pid=int(pid) if pid is not None and pid.isdigit() else None,
                process=read["name"] if read["name"] not in (None, "<unknown>") else None,
                text=read["text"],
                holder=line.holder,
            )


def _gpu(gpu: GpuOnNode | None) -> dict[str, str]:
    return {"gpu": str(gpu.number), "UUID": gpu.uuid} if gpu else {}


def _process_labels(holder: Holder, here: Mapping[str, str]) -> dict[str, str]:
    return {
        **_gpu(holder.gpu),
        **({"GPU_I_ID": holder.instance} if holder.instance else {}),
        "pid": str(holder.pid),
        "process": "python3",
        "user": "root",
        "rank": "" if holder.rank is None else str(holder.rank),
        "local_rank": str(holder.local_rank) if holder.rank is not None else "",
        "namespace": holder.namespace,
        "pod": holder.pod,
        **here,
    }


def _device(holder: Holder) -> dict[str, str]:
    return {
        "replica": "" if holder.replica is None else str(holder.replica),
        "resource": holder.resource,
        "namespace": holder.namespace,
        "pod": holder.pod,
        "container": holder.container,
    }


def _device_id(holder: Holder) -> str:
    """As the device plugin names it."""
    return holder.device if holder.replica is None else f"{holder.device}::{holder.replica}"


def _pod(holder: Holder) -> dict[str, str]:
    return {"namespace": holder.namespace, "pod": holder.pod, "uid": holder.pod_uid}


def _process(holder: Holder) -> dict[str, Any]:
    return {
        "pid": holder.pid,
        "name": "python3",
        "started_ms": holder.started_ms,
        "process_group": holder.pid,
        "session": holder.pid,
        "user": "root",
        "command": "python3 train.py" if holder.rank is not None else "python3",
        "pod_uid": holder.pod_uid,
        "container_id": None,
        "slurm_job": None,
        "rank": holder.rank,
        "local_rank": holder.local_rank if holder.rank is not None else None,
        "world_size": None,
        "environment": {},
    }


def _written(samples: Iterable[_Sample]) -> str:
    by_metric: dict[str, list[_Sample]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, []).append(sample)
    lines = []
    for metric, kind in _TYPES.items():
        if metric in by_metric:
            lines.append(f"# TYPE {metric} {kind}")
        for sample in by_metric.get(metric, ()):
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            lines.append(f"{metric}{{{labels}}} {sample.value}")
    return "\n".join(lines) + "\n"


def _page(answer: Callable[[str, web.Request], dict[str, Any]]) -> _Handler:
    async def handle(request: web.Request) -> web.Response:
        node = request.match_info["node"]

        def page() -> web.Response:
            try:
                body = answer(node, request)
            except ValueError:
                return web.Response(status=400, text="after is not the number of an event\n")
            return web.Response(body=orjson.dumps(body), content_type="application/json")

        return answered(request, node, page)

    return handle
