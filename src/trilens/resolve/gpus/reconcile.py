"""From what each source claims to what is believed: who holds which GPU, with which rank, and how much of it.

The kubelet, dcgm-exporter and annotations each name all holders that they know of; a process only names one
that runs. So holders are those of the first of these lists, unless a process is on the GPU of a pod that is
not among them: processes are believed first. A list that names somebody else is a disagreement, one that
names fewer is not: dcgm-exporter shows one of several pods that share a GPU by time.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from trilens.model.gpu import ClaimSource, GpuBinding
from trilens.model.workload import Doubt
from trilens.resolve.gpus.shares import device_shares, instance_share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.gpu import Claim, Gpu, GpuKey
    from trilens.model.workload import GpuUuid, PodKey
    from trilens.resolve.gpus.places import Pods

_SPOKEN = {
    ClaimSource.PROCESS: "a process on it",
    ClaimSource.KUBELET: "the kubelet",
    ClaimSource.DCGM: "dcgm-exporter",
    ClaimSource.ANNOTATION: "an annotation",
}
_BELIEVED = tuple(ClaimSource)


class Reconciled(NamedTuple):
    bindings: list[GpuBinding]
    doubts: dict[GpuKey, tuple[Doubt, ...]]  # about GPUs: claims that were not followed, and why


class _Held(NamedTuple):
    pod: PodKey
    container: str
    sources: tuple[ClaimSource, ...]
    rank: int | None
    local_rank: int | None
    doubts: tuple[Doubt, ...]


def reconcile(claims: Iterable[Claim], gpus: Mapping[GpuKey, Gpu], pods: Pods) -> Reconciled:
    by_gpu: defaultdict[GpuKey, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_gpu[claim.gpu].append(claim)
    by_device: defaultdict[GpuUuid, dict[GpuKey, list[_Held]]] = defaultdict(dict)
    doubts: dict[GpuKey, tuple[Doubt, ...]] = {}
    for key, of_gpu in by_gpu.items():
        only = _only_holder(of_gpu, gpus.get(key), pods)
        if only is not None:
            by_device[key.uuid][key] = [only]
            continue
        followed, why_not = _followed(of_gpu, gpus.get(key), pods)
        if why_not:
            doubts[key] = tuple(why_not)
        if followed:
            by_device[key.uuid][key] = _holders(followed)
    bindings: list[GpuBinding] = []
    for held in by_device.values():
        bindings += _bind(held, gpus)
    return Reconciled(bindings, doubts)


def _followed(
    claims: Iterable[Claim], gpu: Gpu | None, pods: Pods
) -> tuple[list[tuple[PodKey, Claim]], dict[Doubt, None]]:
    followed: list[tuple[PodKey, Claim]] = []
    why_not: dict[Doubt, None] = {}
    for claim in claims:
        pod = pods.find(claim.cluster, claim.namespace, claim.pod)
        doubt = _why_not(claim, pod, gpu, pods)
        if doubt is not None:
            why_not[doubt] = None
        elif pod is not None:
            followed.append((pod, claim))
    return followed, why_not


def _why_not(claim: Claim, pod: PodKey | None, gpu: Gpu | None, pods: Pods) -> Doubt | None:
    """Why a claim is not followed; also None for one of a pod that only stands by, such as a reservation."""
    name = f"{claim.namespace}/{claim.pod}"
    if pod is None or (claim.pod_uid and claim.pod_uid != pod.uid):
        if pods.is_no_workload(claim.cluster, claim.namespace, claim.pod):
            return None
        return Doubt(
            "gpu-holder-unknown",
            f"{_SPOKEN[claim.source]} names {name}, which is not there, or no longer",
            "if it is there: watch its cluster, or say which cluster with a label `cluster`",
        )
    if pods.has_no_node(pod):
        return Doubt(
            "gpu-holder-elsewhere",
            f"{_SPOKEN[claim.source]} names {name}, which is on no node yet: "
            "an earlier pod of that name is meant",
        )
    elsewhere = pods.runs_elsewhere(pod, gpu.cluster, gpu.node) if gpu is not None else None
    if elsewhere is not None:
        return Doubt(
            "gpu-holder-elsewhere",
            f"{_SPOKEN[claim.source]} names {name}, which runs on {elsewhere}, not here",
        )
    return None


def _only_holder(claims: Sequence[Claim], gpu: Gpu | None, pods: Pods) -> _Held | None:
    """What the rest would find out, several times faster, where all claims say the same; None where not.

    That is nearly every GPU, and there may be ten thousand.
    """
    _, _, cluster, namespace, name, container, rank, local_rank, uid = claims[0]
    sources = [claims[0].source]
    for claim in claims[1:]:
        if claim.pod != name or claim.namespace != namespace or claim.cluster != cluster:
            return None
        if claim.container != container:
            if container and claim.container:
                return None
            container = container or claim.container
        if claim.rank is not None:
            if rank is not None and (claim.rank, claim.local_rank) != (rank, local_rank):
                return None
            rank, local_rank = claim.rank, claim.local_rank
        if claim.pod_uid != uid:
            return None
        if claim.source not in sources:
            sources.append(claim.source)
    pod = pods.find(cluster, namespace, name)
    if pod is None or _why_not(claims[0], pod, gpu, pods) is not None:
        return None
    if len(sources) > 1:
        sources.sort(key=_BELIEVED.index)
    return _Held(pod, container, tuple(sources), rank, local_rank, ())


def _holders(claims: Sequence[tuple[PodKey, Claim]]) -> list[_Held]:
    """Of one GPU."""
    named: dict[ClaimSource, dict[PodKey, dict[str, None]]] = {}
    ranked: defaultdict[PodKey, set[tuple[int, int | None]]] = defaultdict(set)
    for pod, claim in claims:
        containers = named.setdefault(claim.source, {}).setdefault(pod, {})
        if claim.container:
            containers[claim.container] = None
        if claim.rank is not None:
            ranked[pod].add((claim.rank, claim.local_rank))
    sources = sorted(named, key=_BELIEVED.index)
    believed = sources[0]
    if (
        believed is ClaimSource.PROCESS
        and len(sources) > 1
        and named[sources[1]].keys() >= named[believed].keys()
    ):
        believed = sources[1]  # who has no process now still holds it
    pods = named[believed]
    doubts = tuple(
        _disagreement(believed, pods, source, named[source])
        for source in sources
        if named[source].keys() - pods
    )
    held: list[_Held] = []
    for pod in sorted(pods):
        by_whom = tuple(source for source in sources if pod in named[source])
        containers = next((found for source in by_whom if (found := named[source][pod])), {"": None})
        rank, local_rank, several = _rank(ranked.get(pod, set()))
        held += [
            _Held(pod, container, by_whom, rank, local_rank, doubts + several)
            for container in sorted(containers)
        ]
    return held


def _disagreement(
    believed: ClaimSource, pods: Iterable[PodKey], source: ClaimSource, others: Iterable[PodKey]
) -> Doubt:
    said = f"{_SPOKEN[source]} says {_names(others)}"
    return Doubt("gpu-claims-disagree", f"{_SPOKEN[believed]} says {_names(pods)}, and is believed; {said}")


def _names(pods: Iterable[PodKey]) -> str:
    return ", ".join(sorted(f"{pod.namespace}/{pod.name}" for pod in pods))


def _rank(ranks: set[tuple[int, int | None]]) -> tuple[int | None, int | None, tuple[Doubt, ...]]:
    if not ranks:
        return None, None, ()
    rank, local_rank = min(ranks, key=lambda pair: (pair[0], pair[1] is None, pair[1] or 0))
    numbers = sorted({rank for rank, _ in ranks})
    if len(numbers) == 1:
        return rank, local_rank, ()
    text = f"processes of ranks {', '.join(map(str, numbers))} are on one GPU: the first is shown"
    return rank, local_rank, (Doubt("gpu-several-ranks", text),)


def _bind(held: Mapping[GpuKey, Sequence[_Held]], gpus: Mapping[GpuKey, Gpu]) -> list[GpuBinding]:
    """The holders of one device and its instances."""
    if len(held) == 1:
        ((key, holders),) = held.items()
        if not key.instance:
            return [_binding(key, one, _parts(len(holders)), ()) for one in holders]
    sizes = {key.instance: _size(gpus.get(key)) for key in held if key.instance}
    shares = device_shares({key.instance: len(holders) for key, holders in held.items()}, sizes)
    bindings: list[GpuBinding] = []
    for key, holders in held.items():
        share = shares[key.instance]
        unknown = (_unknown_share(gpus.get(key)),) if share is None else ()
        bindings += [_binding(key, one, share, unknown) for one in holders]
    return bindings


def _binding(key: GpuKey, held: _Held, share: Fraction | None, doubts: tuple[Doubt, ...]) -> GpuBinding:
    pod, container, sources, rank, local_rank, own = held
    return GpuBinding(key, pod, container, share, sources, rank, local_rank, own + doubts)


@cache
def _parts(count: int) -> Fraction:
    return Fraction(1, count)


def _size(gpu: Gpu | None) -> Fraction | None:
    return instance_share(gpu.profile, gpu.model) if gpu is not None else None


def _unknown_share(gpu: Gpu | None) -> Doubt:
    profile = gpu.profile if gpu is not None and gpu.profile else "of unknown profile"
    model = gpu.model if gpu is not None and gpu.model else "a GPU of unknown model"
    return Doubt("gpu-share-unknown", f"how much of {model} an instance {profile} is, nobody told")
