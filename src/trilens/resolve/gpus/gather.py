"""From reports to what the rest works on: the GPUs that report, and who is said to hold them."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from trilens.model.gpu import Claim, ClaimSource, Gpu, GpuKey
from trilens.model.workload import GpuUuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.resolve.gpus.cluster_view import ClusterView
    from trilens.resolve.gpus.places import Places
    from trilens.resolve.gpus.reports import Holder, Report

_Seat = tuple[str, str, str, str]  # namespace, pod, container, profile


def gpus_of(reports: Iterable[Report], places: Places) -> dict[GpuKey, Gpu]:
    """Each once, however many exporters report it: of two names of its node the one that is known counts.

    The kubelet's list is not enough: it knows a device that no longer answers. A GPU that is divided is its
    instances, not a GPU beside them.
    """
    found: dict[GpuKey, Gpu] = {}
    known: dict[GpuKey, bool] = {}
    for report in reports:
        if report.source is ClaimSource.KUBELET:
            continue
        place = places.of(report.cluster, report.hosts)
        before = found.get(report.key)
        if before is None:
            found[report.key] = Gpu(
                report.key, place.cluster, place.node, report.number, report.model, report.profile
            )
            known[report.key] = place.is_known
        elif place.is_known > known[report.key] or not (before.model and before.index):
            at = place if place.is_known > known[report.key] or not before.node else before
            found[report.key] = Gpu(
                report.key,
                at.cluster,
                at.node,
                before.index or report.number,
                before.model or report.model,
                before.profile or report.profile,
            )
            known[report.key] |= place.is_known
    divided = {key.uuid for key in found if key.instance}
    return {key: gpu for key, gpu in found.items() if key.instance or key.uuid not in divided}


def claims_of(reports: Sequence[Report], places: Places, gpus: Mapping[GpuKey, Gpu]) -> Iterator[Claim]:
    nameless: list[tuple[Report, Holder]] = []
    for report in reports:
        if report.holder is None:
            continue
        if report.is_nameless_instance:
            nameless.append((report, report.holder))
        else:
            yield _claim(report, report.holder, report.key, places, gpus)
    if nameless:
        yield from _by_seat(nameless, reports, places, gpus)


def annotated(views: Iterable[ClusterView], gpus: Mapping[GpuKey, Gpu]) -> Iterator[Claim]:
    """A number is resolved by what the pod's node reports; one that nothing there has is left out."""
    numbered: dict[tuple[str, str, str], GpuKey] = {}
    for key, gpu in gpus.items():
        if not key.instance:
            numbered[gpu.cluster, gpu.node, gpu.index] = key
    for view in views:
        for pod, found in view.assigned.items():
            node = view.members[pod].node
            for uuid, number, container in found:
                meant = GpuKey(GpuUuid(uuid)) if uuid else numbered.get((view.cluster, node, number))
                if meant is not None:
                    yield Claim(
                        meant,
                        ClaimSource.ANNOTATION,
                        pod.cluster,
                        pod.namespace,
                        pod.name,
                        container,
                        pod_uid=pod.uid,
                    )


def _claim(report: Report, holder: Holder, key: GpuKey, places: Places, gpus: Mapping[GpuKey, Gpu]) -> Claim:
    namespace, pod, container, uid, rank, local_rank = holder
    gpu = gpus.get(key)
    cluster = gpu.cluster if gpu is not None else places.of(report.cluster, report.hosts).cluster
    return Claim(key, report.source, cluster, namespace, pod, container, rank, local_rank, uid)


def _by_seat(
    nameless: Iterable[tuple[Report, Holder]],
    reports: Iterable[Report],
    places: Places,
    gpus: Mapping[GpuKey, Gpu],
) -> Iterator[Claim]:
    """Instances by the kubelet's names for them, each matched to one of the same profile that another source
    gives to the same container. What finds no match is left out: there is nothing to know it by."""
    instances: defaultdict[_Seat, dict[GpuKey, None]] = defaultdict(dict)
    for report in reports:
        if report.holder is not None and report.key.instance:
            gpu = gpus.get(report.key)
            profile = report.profile or (gpu.profile if gpu is not None else "")
            instances[(*report.holder[:3], profile)][report.key] = None
    for report, holder in nameless:
        open_ones = instances.get((*holder[:3], report.profile))
        if open_ones:
            key = next(iter(open_ones))
            del open_ones[key]
            yield _claim(report, holder, key, places, gpus)
