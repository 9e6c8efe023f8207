"""One pass over the GPUs. What a GPU does not tell is absent, never 0."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trilens.collect.node.dcgm_names import (
    ACTIVITY,
    FIELDS,
    LINK_BYTES,
    LINK_COUNT,
    LINK_TRAFFIC,
    MEMORY,
    OLD_MEMORY,
    QUESTIONS,
    TRAFFIC,
    Question,
    as_dcgm,
)
from trilens.collect.node.families import Sample
from trilens.collect.node.nvml import (
    Gpu,
    GpuGone,
    GpuIdentity,
    GpuProcess,
    MigDevice,
    MigPart,
    Nvml,
    Unanswered,
)
from trilens.model.errors import NodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trilens.model.pci import PciAddress

log = logging.getLogger(__name__)

K = TypeVar("K")

_TRY_AGAIN_S: Final = 30.0  # the driver may be loaded after the agent has started


class GpuReadings:
    """Not for several threads at once: NVML is asked by one."""

    def __init__(
        self, open_nvml: Callable[[], Nvml], node: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open = open_nvml
        self._node = node
        self._clock = clock
        self._nvml: Nvml | None = None
        self._failed_s: float | None = None
        self._seen: dict[str, GpuIdentity] = {}
        self.problem: str | None = None  # why there is no driver to ask

    def take(
        self, pods: Mapping[str, Mapping[str, str]], last_xids: Mapping[PciAddress, int] | None
    ) -> list[Sample]:
        """`pods` are the labels of who holds a GPU, by UUID; `last_xids` is None where they are not known."""
        samples: list[Sample] = []
        answering = set()
        for gpu in self._gpus():
            labels = {**self._labels(gpu.identity), **pods.get(gpu.identity.uuid, {})}
            with contextlib.suppress(Unanswered):  # it was lost on the way: what it said until then stands
                samples.extend(_read(gpu, labels, pods))
                answering.add(gpu.identity.uuid)
            if last_xids is not None:
                samples.append(Sample("DCGM_FI_DEV_XID_ERRORS", labels, last_xids.get(gpu.identity.pci, 0)))
        if self._nvml is None:
            return []
        for uuid, identity in self._seen.items():
            samples.append(Sample("trilens_gpu_answers", self._labels(identity), float(uuid in answering)))
        samples.append(Sample("trilens_node_gpus", {"Hostname": self._node}, len(answering)))
        return samples

    def processes(self) -> dict[GpuIdentity, Sequence[GpuProcess]]:
        """Of the GPUs that tell."""
        found: dict[GpuIdentity, Sequence[GpuProcess]] = {}
        for gpu in self._gpus():
            with contextlib.suppress(Unanswered):
                found[gpu.identity] = gpu.processes()
        return found

    def mig_parts(self) -> dict[str, MigPart]:
        """By their own UUIDs."""
        found: dict[str, MigPart] = {}
        for gpu in self._gpus():
            with contextlib.suppress(Unanswered):
                for part in gpu.mig_devices():
                    found[part.identity.uuid] = MigPart(gpu.identity, part.identity)
        return found

    def known(self) -> tuple[GpuIdentity, ...]:
        """All that ever answered."""
        return tuple(self._seen.values())

    def _gpus(self) -> Sequence[Gpu]:
        nvml = self._ready()
        if nvml is None:
            return ()
        try:
            gpus = nvml.gpus()
        except Unanswered as e:  # the driver was unloaded under us
            self._fail(str(e))
            return ()
        self._seen |= {gpu.identity.uuid: gpu.identity for gpu in gpus}
        return gpus

    def _ready(self) -> Nvml | None:
        if self._nvml is not None:
            return self._nvml
        if self._failed_s is not None and self._clock() - self._failed_s < _TRY_AGAIN_S:
            return None
        try:
            self._nvml = self._open()
        except NodeError as e:
            self._fail(str(e))
            return None
        self.problem = None
        return self._nvml

    def _fail(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("no GPU readings", extra={"reason": problem})
        self.problem = problem
        self._nvml = None
        self._failed_s = self._clock()

    def _labels(self, gpu: GpuIdentity) -> dict[str, str]:
        """In dcgm-exporter's words."""
        return {
            "gpu": str(gpu.number),
            "UUID": gpu.uuid,
            "pci_bus_id": str(gpu.pci),
            "device": f"nvidia{gpu.minor}",
            "modelName": gpu.model,
            "Hostname": self._node,
            "DCGM_FI_DRIVER_VERSION": self._nvml.driver_version if self._nvml else "",
        }


def _read(gpu: Gpu, labels: dict[str, str], pods: Mapping[str, Mapping[str, str]]) -> Iterator[Sample]:
    for question in QUESTIONS:
        yield from _ask(gpu.ask, question, labels)
    fields = _unless_gone(lambda: gpu.fields([*FIELDS, LINK_COUNT, *LINK_BYTES]))
    for field, metric in FIELDS.items():
        if field in fields:
            yield Sample(metric, labels, fields[field])
    for field, direction in LINK_BYTES.items():
        if field in fields:
            value = fields[field] * 1024
            yield Sample("trilens_gpu_nvlink_bytes_total", {**labels, "direction": direction}, value)
    metrics = ACTIVITY | TRAFFIC | (LINK_TRAFFIC if fields.get(LINK_COUNT) else {})
    instances: dict[int, list[MigDevice]] = {}
    for part in gpu.mig_devices():
        instances.setdefault(part.identity.gpu_instance, []).append(part)
    if not instances:
        yield from _memory(gpu.ask, labels)
        yield from _activity(gpu, metrics, labels)
    for number, parts in instances.items():
        # What belongs to the whole GPU is said once, above: it must not be summed. Compute instances share
        # the memory and the counters of their GPU instance, so one of them speaks for all.
        first = parts[0]
        own = {**labels, "GPU_I_PROFILE": first.identity.profile, "GPU_I_ID": str(number)}
        if len(parts) == 1:
            own |= pods.get(first.identity.uuid, {})
        with contextlib.suppress(Unanswered):
            yield from _memory(first.ask, own)
            yield from _activity(first, metrics, own)


def _memory(ask: Callable[..., Any], labels: Mapping[str, str]) -> Iterator[Sample]:
    answers = list(_ask(ask, MEMORY, labels))
    yield from answers or _ask(ask, OLD_MEMORY, labels)


def _activity(part: Gpu | MigDevice, names: Mapping[int, str], labels: Mapping[str, str]) -> Iterator[Sample]:
    for metric, value in _unless_gone(lambda: part.activity(list(names))).items():
        if math.isfinite(value):  # NaN is how GPM says that it could not tell
            yield Sample(names[metric], labels, as_dcgm(metric, value))


def _unless_gone(question: Callable[[], Mapping[K, float]]) -> Mapping[K, float]:
    """Nothing where the driver does not tell, as it may be without the permission to; raises GpuGone."""
    try:
        return question()
    except GpuGone:
        raise
    except Unanswered:
        return {}


def _ask(ask: Callable[..., Any], question: Question, labels: Mapping[str, str]) -> Iterator[Sample]:
    try:
        answer = ask(question.name, *question.arguments)
    except GpuGone:
        raise
    except Unanswered:
        return
    for metric, pick in question.answers:
        yield Sample(metric, labels, float(pick(answer)))
