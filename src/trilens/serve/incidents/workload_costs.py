"""What the GPUs of each workload cost an hour, as of lately: for what an incident has lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, Protocol

from trilens.model.gpu import GpuKey

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from decimal import Decimal
    from fractions import Fraction

    from trilens.detect.scene import JobView, Place, Scene
    from trilens.ledger.prices.book import Prices
    from trilens.model.gpu import GpuBinding
    from trilens.model.machine import Machine, MachineInterval
    from trilens.model.workload import WorkloadKey

_EVERY_MS: Final = 60_000
_REMEMBERED_MS: Final = 24 * 3_600_000  # of workloads that have lost their GPUs


class LastingMachines(Protocol):
    def unfinished(self) -> Sequence[MachineInterval]: ...


class WorkloadCosts:
    """Satisfies `trilens.alert.incidents.losses.HourlyCosts`. One thread may look while others ask."""

    def __init__(
        self,
        prices: Callable[[], Prices],
        machines: LastingMachines,
        held: Callable[[], Sequence[GpuBinding]],
    ) -> None:
        self._prices = prices
        self._machines = machines
        self._held = held
        self._known: dict[WorkloadKey, tuple[int, Decimal]] = {}
        self._looked_ms = 0

    @property
    def currency(self) -> str:
        return self._prices().currency

    def of(self, workload: WorkloadKey) -> Decimal | None:
        """One that is named by labels alone has no uid."""
        known = self._known.get(workload)
        return known[1] if known is not None else None

    def is_due(self, now_ms: int) -> bool:
        return now_ms - self._looked_ms >= _EVERY_MS

    def look(self, scene: Scene, now_ms: int) -> None:
        """Raises TrilensError, and knows what it knew before. Cheap to call often: it looks once a minute."""
        if not self.is_due(now_ms):
            return
        of_gpus = _GpuCosts(self._prices(), self._machines.unfinished(), scene.telemetry.places, now_ms)
        shares = {binding.gpu: binding.share for binding in self._held()}
        known = {key: one for key, one in self._known.items() if now_ms - one[0] <= _REMEMBERED_MS}
        for job in scene.jobs:
            if job.workload is not None and job.rows:
                cost = _cost_of(job, scene.telemetry.places, of_gpus, shares)
                if cost is not None:
                    known[job.workload] = (now_ms, cost)
        self._known = known
        self._looked_ms = now_ms


class _GpuCosts:
    def __init__(
        self, prices: Prices, machines: Sequence[MachineInterval], places: Sequence[Place], now_ms: int
    ) -> None:
        self._prices = prices
        self._now_ms = now_ms
        self._machines = {(one.machine.cluster, one.machine.node): one.machine for one in machines}
        by_name = Counter(one.machine.node for one in machines)
        self._alone = {one.machine.node: one.machine for one in machines if by_name[one.machine.node] == 1}
        self._reporting = Counter(place.node for place in places if not place.instance)
        self._known: dict[tuple[str, str], Decimal | None] = {}

    def of(self, cluster: str, node: str) -> Decimal | None:
        """A GPU of this node, an hour."""
        key = (cluster, node)
        if key not in self._known:
            machine = self._machines.get(key) or self._alone.get(node)
            self._known[key] = self._of_machine(machine) if machine is not None else None
        return self._known[key]

    def _of_machine(self, machine: Machine) -> Decimal | None:
        gpus = machine.gpus or self._reporting[machine.node]
        if not gpus:
            return None
        rates = self._prices.rates(machine, gpus, self._now_ms, self._now_ms + 1)
        per_hour = rates[0].per_hour if rates else None
        return per_hour / gpus if per_hour is not None else None


def _cost_of(
    job: JobView, places: Sequence[Place], of_gpus: _GpuCosts, shares: Mapping[GpuKey, Fraction | None]
) -> Decimal | None:
    """None where of no GPU a price is known; of those without one nothing is counted."""
    total: Decimal | None = None
    for row in job.rows:
        place = places[row]
        cost = of_gpus.of(place.cluster, place.node)
        share = shares.get(GpuKey(place.uuid, place.instance)) if place.instance else None
        if cost is None or (place.instance and share is None):
            continue
        if share is not None:
            cost = cost * share.numerator / share.denominator
        total = cost if total is None else total + cost
    return total
