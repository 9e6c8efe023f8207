"""Who is on the node: processes on GPUs, pods, and which pod was given which GPU."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.collect.node.holders import Holding, holdings, names_mig
from trilens.collect.node.pod_resources import list_devices
from trilens.model.errors import NodeError
from trilens.model.node import SAME_START_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.collect.node.gpus import Gpus
    from trilens.collect.node.nvml import GpuIdentity, MigPart
    from trilens.collect.node.pod_output import PodName, PodOutput
    from trilens.collect.node.processes import Process, ProcessTable
    from trilens.settings.agent import AgentSettings

log = logging.getLogger(__name__)

_REMEMBERED_PROCESSES: Final = 1024
_DCGM_EXPORTER: Final = "dcgm-exporter"


class GpuUse(NamedTuple):
    """A process on a GPU. `process` is None when it ended while it was looked at, or may not be read."""

    gpu: GpuIdentity
    pid: int
    memory_bytes: int | None
    gpu_instance: int | None
    process: Process | None


class Surroundings(NamedTuple):
    """As of the last look."""

    uses: tuple[GpuUse, ...] = ()
    held: tuple[Holding, ...] = ()
    pods: Mapping[str, PodName] = MappingProxyType({})  # by uid
    exporter_runs: bool = False  # a dcgm-exporter, which gives the GPU readings then

    def gpu_pods(self) -> set[PodName]:
        """Those that were given a GPU, or have a process on one."""
        holders = {(held.device.namespace, held.device.pod) for held in self.held}
        uids = {use.process.belonging.pod_uid for use in self.uses if use.process}
        return {pod for pod in self.pods.values() if (pod.namespace, pod.name) in holders or pod.uid in uids}


class Lookout:
    """Looks around every `agent.interval`."""

    def __init__(
        self, settings: AgentSettings, gpus: Gpus, processes: ProcessTable, output: PodOutput
    ) -> None:
        self._settings = settings
        self._gpus = gpus
        self._processes = processes
        self._output = output
        self._lock = threading.Lock()
        self._mig: Mapping[str, MigPart] = {}
        self._remembered: OrderedDict[int, Process] = OrderedDict()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="trilens-lookout", daemon=True)
        self.seen = Surroundings()
        self.problem: str | None = None  # why the kubelet does not tell who has which GPU

    def start(self) -> None:
        self.look()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def look(self) -> None:
        self.seen = Surroundings(
            tuple(self._uses()),
            self._held(),
            self._output.pods(),
            exporter_runs=self._settings.gpu_metrics == "auto" and self._processes.runs(_DCGM_EXPORTER),
        )

    def process(self, pid: int) -> Process | None:
        """As it is now, or as it was when it was last seen."""
        process = self._processes.read(pid)
        with self._lock:  # the kernel's log is followed in another thread
            if process is None:
                return self._remembered.get(pid)
            self._remembered[pid] = process
            self._remembered.move_to_end(pid)
            if len(self._remembered) > _REMEMBERED_PROCESSES:
                self._remembered.popitem(last=False)
            return process

    def pod_of(self, process: Process | None) -> dict[str, str] | None:
        uid = process.belonging.pod_uid if process else None
        if uid is None:
            return None
        pod = self.seen.pods.get(uid) or self._output.pods().get(uid)
        return {"namespace": pod.namespace, "pod": pod.name, "uid": uid} if pod else {"uid": uid}

    def _uses(self) -> Iterator[GpuUse]:
        """A GPU that does not tell who is on it still has those that were, as far as they are there."""
        told = self._gpus.processes()
        for gpu, found in told.items():
            for pid, memory_bytes, gpu_instance in found:
                yield GpuUse(gpu, pid, memory_bytes, gpu_instance, self.process(pid))
        answering = {gpu.uuid for gpu in told}
        for use in self.seen.uses:
            if use.gpu.uuid not in answering and self._is_there(use.process):
                yield use._replace(memory_bytes=None)

    def _is_there(self, process: Process | None) -> bool:
        now = self._processes.read(process.pid) if process is not None else None
        return (
            now is not None
            and process is not None
            and abs(now.started_ms - process.started_ms) <= SAME_START_MS
        )

    def _held(self) -> tuple[Holding, ...]:
        if not self._settings.pod_resources.exists():
            self.problem = None  # no kubelet here
            return ()
        try:
            devices = list_devices(self._settings.pod_resources)
        except NodeError as e:
            if str(e) != self.problem:
                log.warning("cannot tell who has which GPU", extra={"reason": str(e)})
            self.problem = str(e)
            return self.seen.held  # the last that was told
        self.problem = None
        if names_mig(devices):
            self._mig = self._gpus.mig_parts() or self._mig
        return tuple(holdings(devices, self._gpus.known, self._mig))

    def _look_on(self) -> None:
        while not self._stopping.wait(self._settings.interval.total_seconds()):
            try:
                self.look()
            except Exception:
                log.exception("could not look at processes and pods")
