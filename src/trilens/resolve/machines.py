"""Machines as they were bought, as intervals: from Node objects, or from GPUs where there are none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from trilens.model.machine import Machine, MachineInterval, MachineState
from trilens.resolve.accelerators import gpu_capacity
from trilens.resolve.gpus.books import QUIET_MS
from trilens.resolve.kube_state.quantity import quantity
from trilens.resolve.reading import conditions, items, section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from decimal import Decimal
    from typing import Any

    from trilens.model.gpu import Gpu
    from trilens.model.kubernetes import KubeObject
    from trilens.model.node import Hardware
    from trilens.settings.topology import TopologySettings

_CORDONED: Final = "node.kubernetes.io/unschedulable"  # the taint, which says since when
_PROVIDERS: Final = {"gce": "gcp"}  # where the id's scheme is not what people call it

# What is sold, in the words of clouds, of autoscalers and of people who write a label themselves.
_WORDS: Final = {
    "on-demand": "on-demand",
    "ondemand": "on-demand",
    "standard": "on-demand",
    "regular": "on-demand",
    "normal": "on-demand",
    "spot": "spot",
    "preemptible": "spot",
    "reserved": "reserved",
    "capacity-block": "reserved",
    "owned": "owned",
}
# That a node came from a reservation is said beside "on demand", which is how that cloud sells it.
_RESERVATIONS: Final = (
    "karpenter.k8s.aws/capacity-reservation-id",
    "cloud.google.com/reservation-name",
)
_WORD_LABELS: Final = (
    "karpenter.sh/capacity-type",
    "eks.amazonaws.com/capacityType",
    "cloud.google.com/gke-provisioning",
    "kubernetes.azure.com/scalesetpriority",
    "node.kubernetes.io/lifecycle",
)
_SPOT_FLAGS: Final = (
    "cloud.google.com/gke-spot",
    "cloud.google.com/gke-preemptible",
    "oci.oraclecloud.com/oke-is-preemptible",
)
_Key = tuple[str, str]  # cluster and node


class SeenMachine(NamedTuple):
    """A machine at a moment. Times are those that Kubernetes tells; None where it does not."""

    machine: Machine
    created_ms: int | None = None
    state_since_ms: int | None = None


class ReportedGpus(NamedTuple):
    """What reports on a node: devices, not instances of one."""

    devices: int
    model: str


def machine_of(node: KubeObject, settings: TopologySettings) -> SeenMachine:
    def first(keys: tuple[str, ...]) -> str:
        return next((node.labels[key] for key in keys if node.labels.get(key)), "")

    capacity = section(node.body, "status", "capacity")
    offered = gpu_capacity(node)
    state, reason, since_ms = _state(node)
    return SeenMachine(
        Machine(
            node.cluster,
            node.name,
            instance_type=first(settings.instance_type),
            region=first(settings.region),
            zone=first(settings.zone),
            purchase=_purchase(node.labels, first(settings.purchase)),
            provider=_provider(text(section(node.body, "spec"), "providerID")),
            gpu_model=_model(node.labels.get("nvidia.com/gpu.product", "")),
            gpus=offered.expected if offered is not None and not offered.counts_instances else None,
            cpus=_number(capacity, "cpu"),
            memory_bytes=_whole(capacity, "memory"),
            storage_bytes=_whole(capacity, "ephemeral-storage"),
            state=state,
            reason=reason,
        ),
        node.created_ms,
        since_ms,
    )


def reported_gpus(gpus: Iterable[Gpu]) -> dict[_Key, ReportedGpus]:
    """By cluster and node. A node with several models is called by that of most of its GPUs."""
    models: dict[_Key, dict[str, str]] = {}
    for gpu in gpus:
        models.setdefault((gpu.cluster, gpu.node), {})[gpu.key.uuid] = gpu.model
    return {key: ReportedGpus(len(found), _commonest(found.values())) for key, found in models.items()}


def machines_without_kubernetes(
    reported: Mapping[_Key, ReportedGpus], hardware: Mapping[str, Hardware], watched: Collection[_Key]
) -> list[SeenMachine]:
    """Those that an agent tells of, as their GPUs call them, unless a cluster has them."""
    return [
        SeenMachine(
            Machine(cluster, node, cpus=hardware[node].cpus, memory_bytes=hardware[node].memory_bytes)
        )
        for cluster, node in reported
        if node in hardware and (cluster, node) not in watched
    ]


class MachineSink(Protocol):
    """Keeps what happened: told again with the same beginning, an interval replaces what was told before."""

    def machine(self, interval: MachineInterval) -> None: ...


class MachineBook:
    """Which machines with GPUs there are, and since when they are as they are.

    A label that comes later was true before, and one that is gone for a moment (feature discovery restarts)
    has not become untrue: what is learnt is written into the interval that lasts. Only what is told to be
    otherwise ends it and begins another. A GPU that a node no longer offers was bought with it all the same.
    """

    def __init__(self, sink: MachineSink) -> None:
        self._sink = sink
        self._open: dict[_Key, MachineInterval] = {}
        self._seen_ms: dict[_Key, int] = {}
        self._first_ms: dict[_Key, int] = {}
        self._followed: set[str] = set()  # clusters of which it is known what was there before

    def restore(self, intervals: Iterable[MachineInterval], at_ms: int) -> None:
        for interval in intervals:
            if interval.to_ms is None:
                key = (interval.machine.cluster, interval.machine.node)
                self._open[key], self._seen_ms[key] = interval, at_ms
                self._first_ms[key] = interval.from_ms
                self._followed.add(interval.machine.cluster)

    def first_seen_ms(self, cluster: str, node: str) -> int | None:
        """Of one that is there, whatever it was in the meantime; as far as was known at the start."""
        return self._first_ms.get((cluster, node))

    def update(
        self,
        seen: Iterable[SeenMachine],
        reported: Mapping[_Key, ReportedGpus],
        settled: Collection[str],
        unread: Collection[str],
        at_ms: int,
    ) -> None:
        """`settled` clusters tell all their nodes: what is not among them is gone. Of `unread` ones nothing
        is known yet. Other machines are there for as long as their GPUs report, but for short silences."""
        for one in seen:
            key = (one.machine.cluster, one.machine.node)
            if key not in self._open and not one.machine.gpus and key not in reported:
                continue
            self._seen_ms[key] = at_ms
            self._look(key, one, reported.get(key), at_ms)
        for key in [key for key in self._open if self._seen_ms[key] != at_ms]:
            if key[0] in unread:
                self._seen_ms[key] = at_ms
            elif key[0] in settled:
                self._end(key, at_ms)
            elif at_ms - self._seen_ms[key] > QUIET_MS:
                self._end(key, self._seen_ms[key])
        self._followed.update(settled)

    def _look(self, key: _Key, one: SeenMachine, reported: ReportedGpus | None, at_ms: int) -> None:
        known = self._open.get(key)
        if known is not None and one.created_ms is not None and known.from_ms < one.created_ms <= at_ms:
            self._end(key, one.created_ms)  # another machine by the same name
            self._seen_ms[key] = at_ms
            known = None
        before = known.machine if known is not None else None
        machine = _with_what_is_known(one.machine, before, reported)
        if known is None:
            was_watched = key[0] in self._followed and one.created_ms is not None
            from_ms = min(one.created_ms or at_ms, at_ms) if was_watched else at_ms
            self._first_ms[key] = from_ms
            self._tell(key, MachineInterval(machine, from_ms, None))
        elif machine != known.machine:
            moment_ms = self._cut_ms(known, machine, one.state_since_ms, at_ms)
            if moment_ms > known.from_ms:
                self._sink.machine(known._replace(to_ms=moment_ms))
            self._tell(key, MachineInterval(machine, moment_ms, None))

    @staticmethod
    def _cut_ms(known: MachineInterval, machine: Machine, since_ms: int | None, at_ms: int) -> int:
        if machine.state is not known.machine.state:
            told = since_ms is not None and known.from_ms < since_ms <= at_ms
            return since_ms if told and since_ms is not None else max(at_ms, known.from_ms)
        return known.from_ms if _only_learnt(known.machine, machine) else max(at_ms, known.from_ms)

    def _tell(self, key: _Key, interval: MachineInterval) -> None:
        self._open[key] = interval
        self._sink.machine(interval)

    def _end(self, key: _Key, at_ms: int) -> None:
        known = self._open.pop(key)
        del self._seen_ms[key], self._first_ms[key]
        self._sink.machine(known._replace(to_ms=max(at_ms, known.from_ms)))


def _with_what_is_known(new: Machine, known: Machine | None, reported: ReportedGpus | None) -> Machine:
    if known is None:
        known = new
    counts = [count for count in (new.gpus, known.gpus, reported and reported.devices) if count]
    return replace(
        new,
        instance_type=new.instance_type or known.instance_type,
        region=new.region or known.region,
        zone=new.zone or known.zone,
        purchase=new.purchase or known.purchase,
        provider=new.provider or known.provider,
        gpu_model=_best_model(new.gpu_model, known.gpu_model, reported.model if reported else ""),
        gpus=max(counts, default=None),
        cpus=new.cpus if new.cpus is not None else known.cpus,
        memory_bytes=new.memory_bytes if new.memory_bytes is not None else known.memory_bytes,
        storage_bytes=new.storage_bytes if new.storage_bytes is not None else known.storage_bytes,
    )


def _best_model(labelled: str, known: str, reported: str) -> str:
    """As the driver writes it, where it has told; a label has dashes where there may be blanks."""
    if reported:
        return reported
    return known if not labelled or _is_same_model(labelled, known) else labelled


def _is_same_model(one: str, other: str) -> bool:
    return one.replace("-", " ") == other.replace("-", " ")


def _only_learnt(known: Machine, new: Machine) -> bool:
    """Whether nothing is told that contradicts what was known. More of something counts as learnt: a device
    plugin, or memory that is plugged in while a node starts, comes bit by bit."""
    texts = ("instance_type", "region", "zone", "purchase", "provider")
    return all(getattr(known, name) in ("", getattr(new, name)) for name in texts) and (
        not known.gpu_model or _is_same_model(known.gpu_model, new.gpu_model)
    )


def _state(node: KubeObject) -> tuple[MachineState, str, int | None]:
    ready = next((found for found in conditions(node) if found.type == "Ready"), None)
    ready_ms = ready.since_ms if ready is not None else None
    if ready is not None and not ready.holds:
        return MachineState.NOT_READY, ready.reason, ready_ms
    spec = section(node.body, "spec")
    if spec.get("unschedulable") is not True:
        return MachineState.READY, "", ready_ms
    taints = items(spec, "taints")
    since = [time_ms(taint.get("timeAdded")) for taint in taints if text(taint, "key") == _CORDONED]
    told = [moment for moment in (*since, ready_ms) if moment is not None]
    return MachineState.CORDONED, "cordoned", max(told) if any(since) else None


def _purchase(labels: Mapping[str, str], own: str) -> str:
    """What somebody wrote there on purpose counts most."""
    if word := _word(own):
        return word
    if any(labels.get(key) for key in _RESERVATIONS):
        return "reserved"
    if any(labels.get(key) == "true" for key in _SPOT_FLAGS):
        return "spot"
    return next((word for key in _WORD_LABELS if (word := _word(labels.get(key, "")))), "")


def _word(written: str) -> str:
    return _WORDS.get(written.strip().lower().replace("_", "-"), "")


def _provider(provider_id: str) -> str:
    """aws:///us-east-1a/i-0123, gce://project/zone/name, azure:///subscriptions/..., ocid1.instance.oc1..."""
    scheme, found, _ = provider_id.partition("://")
    if not found:
        return "oci" if provider_id.startswith("ocid1.") else ""
    return _PROVIDERS.get(scheme, scheme)


def _model(product: str) -> str:
    """Of a label's value, which can hold no blanks, and says at its end how the GPU is shared."""
    return product.removesuffix("-SHARED").partition("-MIG-")[0].replace("-", " ")


def _commonest(models: Collection[str]) -> str:
    told = sorted(model for model in models if model)
    return max(told, key=told.count, default="")


def _number(capacity: Mapping[str, Any], name: str) -> float | None:
    found = _quantity(capacity, name)
    return float(found) if found is not None else None


def _whole(capacity: Mapping[str, Any], name: str) -> int | None:
    found = _quantity(capacity, name)
    return int(found) if found is not None else None


def _quantity(capacity: Mapping[str, Any], name: str) -> Decimal | None:
    found = quantity(str(capacity[name])) if name in capacity else None
    return found if found is not None and found >= 0 else None
