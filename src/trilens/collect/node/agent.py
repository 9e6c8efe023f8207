"""Everything that is read on one node, put together."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from trilens import __version__
from trilens.collect.node.agent_metrics import DESCRIPTIONS, fault_samples, holding_samples, process_samples
from trilens.collect.node.blame import Blame
from trilens.collect.node.families import Sample, write
from trilens.collect.node.fault_ledger import FaultEvent, FaultLedger
from trilens.collect.node.fault_watch import FaultWatch
from trilens.collect.node.gpu_readings import GpuReadings
from trilens.collect.node.gpus import Gpus
from trilens.collect.node.hardware import read_hardware
from trilens.collect.node.holders import labels_by_uuid
from trilens.collect.node.kernel_log import read_boot_id
from trilens.collect.node.local_workloads import group_processes
from trilens.collect.node.pod_output import PodOutput
from trilens.collect.node.processes import ProcessTable
from trilens.collect.node.redaction import Redaction
from trilens.collect.node.surroundings import Lookout
from trilens.model.xid import XIDS, FaultKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.collect.node.kernel_log import KernelLog
    from trilens.collect.node.nvml import Nvml
    from trilens.settings.agent import AgentSettings

PARTS: Final = ("kernel-log", "state", "gpu", "pod-resources")  # of the node, each of which may be unreadable


class NodeAgent:
    def __init__(
        self,
        settings: AgentSettings,
        node: str,
        open_nvml: Callable[[], Nvml],
        open_kernel_log: Callable[[], KernelLog] | None,
    ) -> None:
        """`open_kernel_log` is None when the kernel's log is not to be read."""
        self._settings = settings
        self._node = node
        self._hardware = read_hardware(settings.proc_dir)
        redact = Redaction(settings.redact)
        self._output = PodOutput(
            settings.pod_logs,
            settings.kubelet_pods,
            lines=settings.output_lines,
            size=int(settings.output_bytes),
            redact=redact,
        )
        self._gpus = Gpus(GpuReadings(open_nvml, node))
        self._lookout = Lookout(settings, self._gpus, ProcessTable(settings.proc_dir, redact), self._output)
        self._ledger = FaultLedger(settings.state_file, read_boot_id(settings.proc_dir))
        blame = Blame(node, self._gpus, self._lookout)
        self._watch = FaultWatch(open_kernel_log, self._ledger, blame) if open_kernel_log else None

    def start(self) -> None:
        self._lookout.start()
        if self._watch is not None:
            self._watch.start()

    def stop(self) -> None:
        self._ledger.end_waiting()
        self._lookout.stop()
        if self._watch is not None:
            self._watch.stop()

    def look(self) -> None:
        """At processes and pods, now."""
        self._lookout.look()

    def metrics(self) -> bytes:
        return write(self._samples(), DESCRIPTIONS)

    def problems(self) -> dict[str, str]:
        """What cannot be read, and why, by part."""
        problems = {
            "kernel-log": self._watch.problem if self._watch else None,
            "state": self._ledger.problem,
            "gpu": self._gpus.problem if self._settings.gpu_metrics != "off" else None,
            "pod-resources": self._lookout.problem,
        }
        return {part: problem for part, problem in problems.items() if problem}

    def events(self, after: int, wait_s: float = 0.0) -> dict[str, Any]:
        """Where there is none, the next that comes within so long; `waits` tells who asks that it is so."""
        events = self._ledger.events(after, wait_s)
        told = [_event_json(event) for event in events]
        return {"ledger": self._ledger.id, "waits": True, "events": told}

    def processes(self) -> dict[str, Any]:
        uses = self._lookout.seen.uses
        # A pod's processes are not jobs of their own: Kubernetes knows whose they are.
        alone = [use.process for use in uses if use.process and not use.process.belonging.pod_uid]
        return {
            "node": self._node,
            "hardware": self._hardware._asdict(),
            "processes": [
                {
                    "gpu": use.gpu.number,
                    "uuid": use.gpu.uuid,
                    "gpu_instance": use.gpu_instance,
                    "memory_bytes": use.memory_bytes,
                    "pid": use.pid,
                    "pod": self._lookout.pod_of(use.process),
                    "process": use.process.as_json() if use.process else None,
                }
                for use in uses
            ],
            "workloads": [
                {**key._asdict(), "pids": sorted({process.pid for process in members})}
                for key, members in group_processes(alone, self._node).items()
            ],
        }

    def devices(self) -> dict[str, Any]:
        held = self._lookout.seen.held
        devices = [
            {
                "uuid": by.uuid,
                "replica": by.replica,
                "gpu_uuid": by.mig.gpu.uuid if by.mig else None,
                "gpu_instance": by.mig.part.gpu_instance if by.mig else None,
                **by.device._asdict(),
            }
            for by in held
        ]
        return {"node": self._node, "devices": devices}

    def output(self, namespace: str | None, pod: str | None) -> dict[str, Any]:
        """Of the pods that have a GPU, or of those among them that are asked for."""
        wanted = [
            name
            for name in sorted(self._lookout.seen.gpu_pods())
            if namespace in (None, name.namespace) and pod in (None, name.name)
        ]
        pods = [{**name._asdict(), "containers": self._output.read(name)} for name in wanted]
        return {"node": self._node, "pods": pods}

    def _samples(self) -> Iterator[Sample]:
        here = {"Hostname": self._node}
        seen = self._lookout.seen
        yield Sample("trilens_agent_build_info", {"version": __version__, **here}, 1)
        readable = self._watch is not None and self._watch.origin is not None
        if self._settings.gpu_metrics != "off" and not seen.exporter_runs:
            last_xids = self._ledger.last_codes() if readable else None
            yield from self._gpus.samples(labels_by_uuid(seen.held), last_xids)
            yield Sample("trilens_agent_gpu_pass_seconds", here, self._gpus.pass_seconds or 0)
        if self._watch is not None:
            yield from fault_samples(self._ledger, self._gpus.known, self._node, readable=readable)
        yield from process_samples(seen.uses, seen.pods, self._node)
        yield from holding_samples(seen.held, self._node)
        problems = self.problems()
        for part in PARTS:
            yield Sample("trilens_agent_problem", {"part": part, **here}, float(part in problems))


def _event_json(event: FaultEvent) -> dict[str, Any]:
    fault = event.fault
    known = XIDS.get(fault.code or -1) if fault.kind is FaultKind.XID else None
    return {
        "number": event.number,
        "id": event.id,
        "t_ms": event.t_ms,
        **asdict(fault),
        "pci": str(fault.pci) if fault.pci else None,
        "title": known.title if known else None,
        "asks": known.asks if known else None,
        **event.whom,
        "process_name": fault.process,  # as the kernel has it; `process` is what /proc told
    }
