"""Which GPU each row of the telemetry is, and who has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from trilens.detect.scene import Place
from trilens.model.gpu import ClaimSource, GpuKey
from trilens.model.workload import GpuUuid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.gpu import Gpu, GpuBinding
    from trilens.model.run import RankProcess
    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.resolve.gpus.reports import Report


class GpusSeen(NamedTuple):
    """As the bindings' keeper knows them now."""

    gpus: Mapping[GpuKey, Gpu]
    held: Sequence[GpuBinding]
    reports: Sequence[Report]


class Places:
    """Remembers GPUs that do not report any more, as long as they have a row. Not thread-safe."""

    def __init__(self) -> None:
        self._known: dict[GpuKey, Gpu] = {}
        self._seen: GpusSeen | None = None
        self._holders: dict[GpuKey, GpuBinding] = {}
        self._labelled: dict[GpuKey, bool] = {}
        self._places: list[Place] = []

    def look(
        self,
        keys: Sequence[tuple[str, str]],
        seen: GpusSeen,
        workloads: Mapping[PodKey, WorkloadKey],
        processes: Iterable[RankProcess],
    ) -> list[Place]:
        """The same list as before where nothing has changed."""
        self._take(seen)
        ranks = {uuid: process.rank for process in processes for uuid in process.gpus}
        places = [self._place(GpuKey(GpuUuid(uuid), part), workloads, ranks) for uuid, part in keys]
        if places != self._places:
            self._places = places
            there = {place.uuid for place in places}
            # Those that report and have no row yet are told of once: their readings come a moment later.
            self._known = {
                key: gpu for key, gpu in self._known.items() if key.uuid in there or key in seen.gpus
            }
        return self._places

    def _take(self, seen: GpusSeen) -> None:
        before = self._seen
        if before is None or seen.gpus is not before.gpus:
            self._known.update(seen.gpus)
        if before is None or seen.held is not before.held:
            self._holders = {}
            for binding in seen.held:  # of several that share one, nobody is its holder alone
                known = self._holders.setdefault(binding.gpu, binding)
                if known.pod != binding.pod:
                    self._holders.pop(binding.gpu)
        if before is None or seen.reports is not before.reports:
            self._labelled = {}
            for report in seen.reports:
                if report.source is ClaimSource.DCGM:
                    is_named = report.holder is not None
                    self._labelled[report.key] = self._labelled.get(report.key, False) or is_named
        self._seen = seen

    def _place(self, key: GpuKey, workloads: Mapping[PodKey, WorkloadKey], ranks: Mapping[str, int]) -> Place:
        gpu, binding = self._known.get(key), self._holders.get(key)
        rank = ranks.get(key.uuid) if not key.instance else None
        if rank is None and binding is not None:
            rank = binding.rank
        return Place(
            key.uuid,
            key.instance,
            gpu.cluster if gpu is not None else "",
            gpu.node if gpu is not None else "",
            gpu.index if gpu is not None else "",
            gpu.model if gpu is not None else "",
            workloads.get(binding.pod) if binding is not None else None,
            binding.pod if binding is not None else None,
            rank,
            self._labelled.get(key),
        )
