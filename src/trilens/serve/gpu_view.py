"""GPUs and their holders as the answer that people see."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from trilens.model.gpu import Gpu
from trilens.serve.doubt_answer import DoubtAnswer
from trilens.serve.gpu_answers import GpuAnswer, GpuFaultAnswer, HolderAnswer
from trilens.serve.workload_answers import MemberGpuAnswer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from trilens.model.finding import Finding
    from trilens.model.gpu import BindingInterval, GpuInterval, GpuKey
    from trilens.model.life import MembershipInterval
    from trilens.model.workload import Doubt, GpuUuid, PodKey
    from trilens.resolve.gpus.missing import NodeGpus
    from trilens.serve.access.sight import Sight
    from trilens.serve.gpu_bindings import GpusNow
    from trilens.serve.gpu_reports import Told

_NAME_OTHERS: Final = frozenset({"gpu-claims-disagree", "gpu-holder-unknown", "gpu-holder-elsewhere"})
_SEVERAL_SAY: Final = "not all that tell who holds this GPU say the same"

_Holders = dict["GpuKey", list[HolderAnswer]]


def gpus_at(
    found: Iterable[GpuInterval],
    bindings: Iterable[BindingInterval],
    members: Mapping[PodKey, MembershipInterval],
    now: GpusNow | None,
) -> list[GpuAnswer]:
    """`now` is None for any moment but the present: what was lost then, or how busy, is not kept."""
    holders: _Holders = defaultdict(list)
    nodes: dict[GpuKey, str] = {}
    for held in bindings:
        member = members.get(held.binding.pod)
        holders[held.binding.gpu].append(_holder(held, member))
        nodes[held.binding.gpu] = member.node if member is not None else ""
    lost = {} if now is None else {gone.gpu.key: gone for node in now.nodes for gone in node.named}
    answers: dict[GpuKey, GpuAnswer] = {}
    for interval in found:
        gpu = interval.gpu
        if now is None or gpu.key in now.gpus:
            answers[gpu.key] = _gpu(gpu, "reporting", None, holders, now)
        elif gpu.key not in lost:
            answers[gpu.key] = _gpu(gpu, "silent", None, holders, now)
    if now is not None:
        for gone in lost.values():
            answers[gone.gpu.key] = _gpu(gone.gpu, "lost", gone.seen_ms, holders, now)
    for key in holders.keys() - answers.keys():  # the kubelet gave it out, and nobody reads it
        answers[key] = _gpu(Gpu(key, holders[key][0].cluster, nodes[key]), "silent", None, holders, now)
    unnamed = [answer for node in now.nodes for answer in _unnamed(node)] if now is not None else []
    return [*answers.values(), *unnamed]


def with_faults(found: Iterable[GpuAnswer], faults: Mapping[GpuUuid, Finding]) -> list[GpuAnswer]:
    """Which of them have a fault now that nothing shows to be mended."""
    told: dict[str | None, GpuFaultAnswer] = {
        uuid: GpuFaultAnswer(one.text, one.action, one.onset_ms) for uuid, one in faults.items()
    }
    return [replace(gpu, fault=told[gpu.uuid]) if gpu.uuid in told else gpu for gpu in found]


def seen_gpus(found: Iterable[GpuAnswer], own: Collection[PodKey], sight: Sight) -> list[GpuAnswer]:
    """Those that these pods hold, and of whole clusters all; of a shared one the others are not told."""
    names = {(pod.cluster, pod.namespace, pod.name) for pod in own}
    answers = []
    for gpu in found:
        holders = [one for one in gpu.holders if (one.cluster, one.namespace, one.pod) in names]
        if holders or (sight.teams is None and sight.shows_cluster(gpu.cluster)):
            told = [replace(one, doubts=without_names(one.doubts)) for one in holders]
            answers.append(replace(gpu, holders=told, doubts=without_names(gpu.doubts)))
    return answers


def without_names(doubts: Iterable[DoubtAnswer]) -> list[DoubtAnswer]:
    """Who else may hold a GPU is not everybody's to know."""
    return [replace(one, text=_SEVERAL_SAY) if one.code in _NAME_OTHERS else one for one in doubts]


def member_gpus(
    bindings: Iterable[BindingInterval],
    gpus: Mapping[GpuKey, Gpu],
    attempts: Mapping[PodKey, int],
    told: Told | None,
) -> list[MemberGpuAnswer]:
    """By attempt, then rank. `gpus` are those of the bindings; `told` is None for any moment but the
    present."""
    answers = [
        _member_gpu(
            interval,
            gpus.get(interval.binding.gpu),
            attempts.get(interval.binding.pod, 0),
            told if interval.to_ms is None else None,
        )
        for interval in bindings
    ]
    return sorted(answers, key=_order)


def _member_gpu(
    interval: BindingInterval, gpu: Gpu | None, attempt: int, told: Told | None
) -> MemberGpuAnswer:
    binding = interval.binding
    return MemberGpuAnswer(
        binding.pod.name,
        binding.container,
        attempt,
        binding.rank,
        binding.local_rank,
        (gpu.node or None) if gpu is not None else None,
        (gpu.index or None) if gpu is not None else None,
        (gpu.model or None) if gpu is not None else None,
        binding.gpu.uuid,
        binding.gpu.instance or None,
        None if binding.share is None else str(binding.share),
        *_readings(binding.gpu, told),
        [source.value for source in binding.sources],
        interval.from_ms,
        interval.to_ms,
        doubts_of(binding.doubts),
    )


def _order(one: MemberGpuAnswer) -> tuple[object, ...]:
    number = int(one.index) if one.index is not None and one.index.isdecimal() else -1
    return one.attempt, one.rank is None, one.rank or 0, one.pod, number, one.instance or "", one.from_ms


def _gpu(gpu: Gpu, state: str, seen_ms: int | None, holders: _Holders, now: GpusNow | None) -> GpuAnswer:
    key = gpu.key
    return GpuAnswer(
        gpu.cluster,
        gpu.node,
        gpu.index or None,
        gpu.model or None,
        key.uuid,
        key.instance or None,
        gpu.profile or None,
        state,
        1,
        seen_ms,
        *_readings(key, now.told if now is not None else None),
        holders.get(key, []),
        doubts_of(now.doubts.get(key, ())) if now is not None else [],
    )


def _readings(gpu: GpuKey, told: Told | None) -> tuple[float | None, float | None, float | None]:
    """Use, memory and power."""
    if told is None:
        return None, None, None
    return (
        told.utilization.get(gpu.uuid),
        told.memory_used_bytes.get(gpu),
        told.power_watts.get(gpu.uuid),
    )


def _unnamed(node: NodeGpus) -> Iterator[GpuAnswer]:
    """Those of a node that are missing and never reported."""
    state, count = ("blind", node.expected) if node.lost is None else ("lost", node.lost - len(node.named))
    if count:
        yield GpuAnswer(
            node.cluster,
            node.node,
            None,
            None,
            None,
            None,
            None,
            state,
            count,
            None,
            None,
            None,
            None,
            [],
            [],
        )


def _holder(interval: BindingInterval, member: MembershipInterval | None) -> HolderAnswer:
    binding = interval.binding
    place = member.membership if member is not None else None
    return HolderAnswer(
        binding.pod.cluster,
        binding.pod.namespace,
        binding.pod.name,
        binding.container,
        place.workload.name if place is not None else None,
        place.workload.kind if place is not None else None,
        place.attempt if place is not None else None,
        binding.rank,
        binding.local_rank,
        None if binding.share is None else str(binding.share),
        [source.value for source in binding.sources],
        interval.from_ms,
        doubts_of(binding.doubts),
    )


def doubts_of(doubts: Iterable[Doubt]) -> list[DoubtAnswer]:
    return [DoubtAnswer(*doubt) for doubt in dict.fromkeys(doubts)]
