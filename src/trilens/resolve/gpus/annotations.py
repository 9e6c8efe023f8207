"""Which GPUs a scheduler or device plugin wrote on a pod.

| written by | where | what |
| --- | --- | --- |
| HAMi | annotation `hami.io/vgpu-devices-allocated` | `UUID,type,memory,cores:` each, `;` per container |
| Volcano vGPU | annotation `volcano.sh/vgpu-ids-new` | the same |
| Volcano GPU sharing | annotation `volcano.sh/gpu-index` | indices, by commas |
| Alibaba gpushare | annotation `ALIYUN_COM_GPU_MEM_IDX` | one index, -1 for none |
| Tencent gpu-manager | annotations `tencent.com/predicate-gpu-idx-N` | indices for container N, by commas |
| KAI, Run:ai | label `runai-gpu-group`, `runai-gpu-group/NAME` | a group; its reservation pod has the UUID |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.resolve.reading import items, section, text, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trilens.model.kubernetes import KubeObject

_DEVICE_LISTS: Final = ("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new")
_INDEX_LISTS: Final = ("volcano.sh/gpu-index", "ALIYUN_COM_GPU_MEM_IDX")
_INDICES_BY_CONTAINER: Final = "tencent.com/predicate-gpu-idx-"
_GROUP: Final = "runai-gpu-group"
_GROUP_MEMBER: Final = "runai-gpu-group/"
_RESERVED: Final = "run.ai/reserve_for_gpu_index"  # a UUID, whatever its name says
_GPU: Final = "GPU-"


class Assigned(NamedTuple):
    """A GPU by its UUID, or by its number on the pod's node; the other one is empty."""

    uuid: str
    number: str
    container: str  # "" where that is not told


def assigned(pod: KubeObject, groups: GpuGroups) -> Iterator[Assigned]:
    annotations = pod.annotations
    for key in _DEVICE_LISTS:
        if written := annotations.get(key):
            yield from _device_list(pod, written)
    for key in _INDEX_LISTS:
        if written := annotations.get(key):
            yield from (Assigned("", index, "") for index in _indices(written))
    for key, written in annotations.items():
        if key.startswith(_INDICES_BY_CONTAINER):
            container = _container(pod, key.removeprefix(_INDICES_BY_CONTAINER))
            yield from (Assigned("", index, container) for index in _indices(written))
    yield from (Assigned(uuid, "", "") for uuid in groups.of(pod))


class GpuGroups:
    """The GPUs that are shared by group, as the reservation pods say."""

    def __init__(self, pods: Iterable[KubeObject]) -> None:
        self._uuids = {
            (text(section(pod.body, "spec"), "nodeName"), group): pod.annotations[_RESERVED]
            for pod in pods
            if pod.annotations.get(_RESERVED, "").startswith(_GPU)
            for group in _groups(pod)
        }

    def of(self, pod: KubeObject) -> Iterator[str]:
        if self._uuids:
            node = text(section(pod.body, "spec"), "nodeName")
            for group in _groups(pod):
                if uuid := self._uuids.get((node, group)):
                    yield uuid


def _groups(pod: KubeObject) -> Iterator[str]:
    for key, value in pod.labels.items():
        if key == _GROUP or key.startswith(_GROUP_MEMBER):
            yield value


def _device_list(pod: KubeObject, written: str) -> Iterator[Assigned]:
    """`GPU-a,NVIDIA,3000,0:GPU-b,NVIDIA,3000,0:;;` is two for the first container and none for the second."""
    for number, of_container in enumerate(written.split(";")):
        for device in of_container.split(":"):
            uuid = device.partition(",")[0].strip()
            if uuid.startswith(_GPU):
                yield Assigned(uuid, "", _container(pod, str(number)))


def _indices(written: str) -> Iterator[str]:
    for part in written.split(","):
        index = part.strip()
        if index.isascii() and index.isdigit():  # -1 is none
            yield index


def _container(pod: KubeObject, number: str) -> str:
    names = [text(container, "name") for container in items(section(pod.body, "spec"), "containers")]
    at = whole(number)
    return names[at] if at is not None and at < len(names) else ""
