"""The machines of a simulated cluster: what a pod can be given, their Nodes, their exporter's text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import NAMESPACE_DNS, UUID, uuid5

import numpy as np

from trilens.simulate.bank import WORLD_FAMILIES, GpuBank, Span
from trilens.simulate.cluster import condition
from trilens.simulate.hardware import MODELS, host_of, mig_share
from trilens.simulate.scenario import FaultKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.simulate.cluster import Cluster
    from trilens.simulate.hardware import Model
    from trilens.simulate.jobs import SimPod
    from trilens.simulate.objects import KubeDict
    from trilens.simulate.scenario import Pool, Scenario

DRIVER: Final = "580.105.08"
# With MIG the driver does not tell these.
_NOT_WITH_MIG: Final = frozenset(
    {"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_ENC_UTIL", "DCGM_FI_DEV_DEC_UTIL"}
)

_PROF: Final = np.array([family.name.startswith("DCGM_FI_PROF_") for family in WORLD_FAMILIES])
_BLANKED: Final = np.array(
    [family.name in ("DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_TEMP") for family in WORLD_FAMILIES]
)
_NOT_KNOWN: Final = 2_147_483_632.0  # DCGM's word for it


class Place(NamedTuple):
    """What one pod can be given: a GPU, a MIG instance, or a turn on a GPU."""

    gpu: int  # on its machine
    unit: int  # in the bank
    instance: str = ""  # GPU_I_ID
    replica: int | None = None  # of a time-sliced GPU


class _Text(NamedTuple):
    template: str
    cells: NDArray[np.intp]  # into the readings, flattened


@dataclass(eq=False)
class Machine:
    name: str
    pool: Pool
    number: int
    span: Span
    uuids: list[str]
    places: tuple[Place, ...]
    node: KubeDict
    free: list[Place] = field(default_factory=list)
    pods: dict[str, SimPod] = field(default_factory=dict)  # by uid
    images: set[str] = field(default_factory=set)
    is_there: bool = True
    is_alive: bool = True  # it answers
    is_ready: bool = True  # Kubernetes says that it does
    is_leaving: bool = False  # its cloud takes it back
    is_cordoned: bool = False  # somebody has emptied it
    exporter_silences: int = 0  # how many reasons the exporter has to be silent
    exporter_ails: set[FaultKind] = field(default_factory=set)  # what it says is not so
    lost: set[int] = field(default_factory=set)  # GPUs that nobody sees
    broken: set[int] = field(default_factory=set)  # GPUs that are not given away
    _text: _Text | None = None
    _said: bytes | None = None  # by its exporter, last

    @property
    def is_open(self) -> bool:
        return self.is_there and self.is_alive and not (self.is_leaving or self.is_cordoned)

    @property
    def gpu_count(self) -> int:
        return len(self.uuids)

    def offers(self) -> list[Place]:
        if not self.broken:
            return self.free
        return [place for place in self.free if place.gpu not in self.broken]

    def pci(self, gpu: int) -> str:
        return f"{0x1B + 0x11 * gpu & 0xFF:02X}"

    def device(self, place: Place) -> str:
        """The UUID by which the device plugin hands it out: a MIG instance has one of its own."""
        gpu = self.uuids[place.gpu]
        if not place.instance:
            return gpu
        return f"MIG-{uuid5(UUID(gpu.removeprefix('GPU-')), place.instance)}"

    def looks_different(self) -> None:
        """Labels or GPUs have changed."""
        self._text = None

    def exposition(self, bank: GpuBank, t_s: float) -> bytes:
        if self._text is None:
            self._text = self._render()
        if FaultKind.READINGS_FROZEN in self.exporter_ails and self._said is not None:
            return self._said
        values = bank.readings(self.span, t_s)
        if FaultKind.PROF_STUCK in self.exporter_ails:
            values[_PROF] = 0
        if FaultKind.READINGS_BLANK in self.exporter_ails:
            values[_BLANKED] = _NOT_KNOWN
        told = values.reshape(-1)[self._text.cells]
        self._said = (self._text.template % tuple(told.tolist())).encode()
        return self._said

    def _render(self) -> _Text:
        holders: dict[Place, SimPod] = {place: pod for pod in self.pods.values() for place in pod.places}
        shared_out = {place.gpu for place in holders if place.replica is not None}
        rows: list[tuple[int, str]] = []
        for place in self.places:
            if place.gpu in self.lost:
                continue
            holder = holders.get(place)
            if holder is None and place.replica is not None and (place.replica or place.gpu in shared_out):
                continue  # a row for each pod on a shared GPU; one, if nobody is
            rows.append((place.unit - self.span.units.start, self._labels(place, holder)))
        units = self.span.units.stop - self.span.units.start
        lines, cells = [], []
        for at, family in enumerate(WORLD_FAMILIES):
            if self.pool.mig is not None and family.name in _NOT_WITH_MIG:
                continue
            lines += [
                f"# HELP {family.name} {family.help.replace('%', '%%')}",
                f"# TYPE {family.name} {family.kind}",
            ]
            number = "%d" if family.whole else "%.6f"
            lines += [f"{family.name}{{{labels}}} {number}" for _, labels in rows]
            cells += [at * units + unit for unit, _ in rows]
        return _Text("\n".join(lines) + "\n", np.array(cells, dtype=np.intp))

    def _labels(self, place: Place, holder: SimPod | None) -> str:
        """In the order in which dcgm-exporter writes them."""
        pairs = [
            ("gpu", str(place.gpu)),
            ("UUID", self.uuids[place.gpu]),
            ("pci_bus_id", f"00000000:{self.pci(place.gpu)}:00.0"),
            ("device", f"nvidia{place.gpu}"),
            ("modelName", MODELS[self.pool.model].product),
        ]
        if place.instance:
            pairs += [("GPU_I_PROFILE", self.pool.mig or ""), ("GPU_I_ID", place.instance)]
        pairs += [("Hostname", self.name), ("DCGM_FI_DRIVER_VERSION", DRIVER)]
        if holder is not None and FaultKind.LABELS_LOST not in self.exporter_ails:
            if place.replica is not None:
                pairs.append(("vgpu", str(place.replica)))
            pairs += [
                ("container", holder.container),
                ("namespace", holder.namespace),
                ("pod", holder.name),
            ]
        return ",".join(f'{name}="{value}"' for name, value in pairs)


def gpu_resource(pool: Pool) -> str:
    return f"nvidia.com/mig-{pool.mig}" if pool.mig else "nvidia.com/gpu"


def build_machines(scenario: Scenario, api: Cluster, seed: int) -> tuple[list[Machine], GpuBank]:
    models: list[Model] = []
    per_gpu: list[int] = []
    shares: list[float] = []
    machines: list[Machine] = []
    first_unit = 0
    for pool in scenario.pools:
        units_per_gpu = pool.places_per_gpu if pool.mig else 1
        share = mig_share(pool.mig)
        for number in range(pool.nodes):
            is_last = number == pool.nodes - 1
            count = pool.last_node_gpus if is_last and pool.last_node_gpus else pool.gpus_per_node
            first_gpu = len(models)
            span = Span(
                slice(first_gpu, first_gpu + count), slice(first_unit, first_unit + count * units_per_gpu)
            )
            machines.append(_machine(api, pool, number, count, span, units_per_gpu))
            first_unit = span.units.stop
            models += [MODELS[pool.model]] * count
            per_gpu += [units_per_gpu] * count
            shares += [share] * count
    return machines, GpuBank(models, per_gpu, shares, seed)


def _machine(api: Cluster, pool: Pool, number: int, gpus: int, span: Span, units_per_gpu: int) -> Machine:
    places = []
    for gpu in range(gpus):
        unit = span.units.start + gpu * units_per_gpu
        if pool.mig:
            # Instances of the smallest profile are numbered from 7, larger ones from 1.
            first = 7 if pool.mig.startswith("1g.") else 1
            places += [Place(gpu, unit + at, str(first + at)) for at in range(units_per_gpu)]
        elif pool.time_slices > 1:
            places += [Place(gpu, unit, replica=at) for at in range(pool.time_slices)]
        else:
            places.append(Place(gpu, unit))
    name = f"{pool.name}-{number:04}"
    uuids = [f"GPU-{api.uid()}" for _ in range(gpus)]
    node = api.create(_node(api, pool, number, name, gpus, len(places)))
    return Machine(name, pool, number, span, uuids, tuple(places), node, free=list(places))


def replace_machine(api: Cluster, machine: Machine) -> None:
    """The cloud gives another machine of the same kind."""
    machine.name = f"{machine.pool.name}-{machine.number:04}-{api.suffix()}"
    machine.uuids = [f"GPU-{api.uid()}" for _ in machine.uuids]
    made = _node(api, machine.pool, machine.number, machine.name, machine.gpu_count, len(machine.places))
    machine.node = api.create(made)
    machine.images.clear()
    machine.lost.clear()
    machine.broken.clear()
    machine.is_there, machine.is_leaving = True, False
    machine.looks_different()


def show_health(api: Cluster, machine: Machine) -> None:
    """Bring the Node object in line with what the kubelet, or its silence, says."""
    current = api.objects.current(machine.node)
    if current is None:
        return
    status = current["status"]
    if machine.is_ready:
        ready = condition("Ready", "KubeletReady", api.time, "kubelet is posting ready status")
    else:
        ready = condition("Ready", "NodeStatusUnknown", api.time, "Kubelet stopped posting node status.")
        ready["status"] = "Unknown"
    resource = gpu_resource(machine.pool)
    healthy = sum(place.gpu not in machine.broken for place in machine.places)
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    if not machine.is_ready:
        taints += [
            {"key": "node.kubernetes.io/unreachable", "effect": effect, "timeAdded": api.time}
            for effect in ("NoSchedule", "NoExecute")
        ]
    if machine.is_leaving:
        taints.append({"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"})
    spec = {**current["spec"], "taints": taints}
    if machine.is_leaving or machine.is_cordoned:
        spec["unschedulable"] = True
    api.update(
        machine.node,
        spec=spec,
        status={
            **status,
            "allocatable": {**status["allocatable"], resource: str(healthy)},
            "conditions": [*(one for one in status["conditions"] if one["type"] != "Ready"), ready],
        },
    )


def _node(api: Cluster, pool: Pool, number: int, name: str, gpus: int, places: int) -> KubeDict:
    model = MODELS[pool.model]
    host = host_of(pool.model, gpus, pool.instance_type)
    rack = f"{pool.name}-rack-{number // pool.nodes_per_rack:03}"
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": host.instance_type,
        "karpenter.sh/capacity-type": "spot" if pool.spot else "on-demand",
        "topology.kubernetes.io/region": pool.region,
        "topology.kubernetes.io/zone": pool.zone,
        "topology.kubernetes.io/rack": rack,
        "network.topology.nvidia.com/leaf": f"leaf-{rack}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": model.product.replace(" ", "-")
        + ("-SHARED" if pool.time_slices > 1 else ""),
        "nvidia.com/gpu.count": str(gpus),
        "nvidia.com/gpu.memory": str(model.memory_mib),
        "nvidia.com/gpu.replicas": str(pool.time_slices),
        "nvidia.com/mig.strategy": "mixed" if pool.mig else "none",
        "trilens.sim/pool": pool.name,
    }
    amounts = {
        "cpu": str(host.vcpus),
        "memory": f"{host.memory_gib * 1024 * 1000}Ki",  # a part of it is the firmware's
        "ephemeral-storage": "524275692Ki",
        "pods": "110",
        gpu_resource(pool): str(places),
    }
    ready = condition("Ready", "KubeletReady", api.time, "kubelet is posting ready status")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {}},
        "spec": {
            "providerID": f"aws:///{pool.zone}/i-{uuid5(NAMESPACE_DNS, name).hex[:17]}",
            "taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}],
        },
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [
                condition("MemoryPressure", "KubeletHasSufficientMemory", api.time, holds=False),
                condition("DiskPressure", "KubeletHasNoDiskPressure", api.time, holds=False),
                ready,
            ],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {"kubeletVersion": "v1.33.4", "operatingSystem": "linux", "architecture": "amd64"},
        },
    }


def why_it_is_not_tolerated(machines: Sequence[Machine], pool: str) -> str:
    """In the scheduler's words."""
    there = [machine for machine in machines if machine.is_there]
    own, total = sum(machine.pool.name == pool for machine in there), len(there)
    reasons = [f"{own} node(s) had untolerated taint {{nvidia.com/gpu: present}}"]
    if own < total:
        reasons.append(f"{total - own} node(s) didn't match Pod's node affinity/selector")
    return (
        f"0/{total} nodes are available: {', '.join(reasons)}. "
        f"preemption: 0/{total} nodes are available: {total} Preemption is not helpful for scheduling."
    )


def why_it_does_not_fit(machines: Sequence[Machine], pool: str, resource: str, needed: int) -> str:
    """In the scheduler's words."""
    there = [machine for machine in machines if machine.is_there]
    elsewhere = sum(machine.pool.name != pool for machine in there)
    own = [machine for machine in there if machine.pool.name == pool]
    closed = sum(not machine.is_open for machine in own)
    full = sum(machine.is_open and len(machine.offers()) < needed for machine in own)
    total = len(there)
    reasons, unhelpful = [], elsewhere + closed
    if full:
        reasons.append(f"{full} Insufficient {resource}")
    if elsewhere:
        reasons.append(f"{elsewhere} node(s) didn't match Pod's node affinity/selector")
    if closed:
        reasons.append(f"{closed} node(s) had untolerated taint {{node.kubernetes.io/unreachable: }}")
    if not full and not closed:
        reasons.append("pod group does not fit as a whole")
    tail = []
    if full:
        tail.append(f"{full} No preemption victims found for incoming pod")
    if unhelpful:
        tail.append(f"{unhelpful} Preemption is not helpful for scheduling")
    return (
        f"0/{total} nodes are available: {', '.join(sorted(reasons))}. "
        f"preemption: 0/{total} nodes are available: {', '.join(sorted(tail))}."
    )
