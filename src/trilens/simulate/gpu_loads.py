"""How what pods do looks from their GPUs."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from trilens.simulate.bank import FREE, Load, together
from trilens.simulate.hardware import MODELS, mig_share
from trilens.simulate.jobs import PodState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trilens.simulate.bank import GpuBank
    from trilens.simulate.jobs import SimPod
    from trilens.simulate.machines import Machine
    from trilens.simulate.serving import InferenceServers

_NOTEBOOK_IS_BUSY_FOR: Final = 0.1


class GpuLoads:
    def __init__(self, bank: GpuBank, servers: InferenceServers, t_s: Callable[[], float]) -> None:
        """`t_s` tells the seconds since the world began."""
        self._bank = bank
        self._servers = servers
        self._t_s = t_s

    def show(self, pods: Iterable[SimPod]) -> None:
        """Bring the readings of their GPUs in line with what these pods do now."""
        touched: defaultdict[Machine, set[int]] = defaultdict(set)
        for pod in pods:
            if pod.machine is not None and pod.places:
                touched[pod.machine].update(place.unit for place in pod.places)
        for machine, units in touched.items():
            self.show_units(machine, units)

    def show_units(self, machine: Machine, units: set[int]) -> None:
        if not units:
            return
        model = MODELS[machine.pool.model]
        memory_mib = model.memory_mib * mig_share(machine.pool.mig)
        held: defaultdict[int, list[Load]] = defaultdict(list)
        for pod in machine.pods.values():
            for at, place in enumerate(pod.places):
                if place.unit in units:
                    held[place.unit].append(self._load(pod, at, memory_mib / machine.pool.time_slices))
        loads = {unit: together(held[unit], memory_mib) if held[unit] else FREE for unit in units}
        self._bank.set(machine.span, loads, self._t_s())

    def _load(self, pod: SimPod, at: int, memory_mib: float) -> Load:
        kind = pod.job.template.kind
        if pod.state is not PodState.RUNNING:
            return Load(fb_mib=4.0 if pod.state is PodState.STARTING else 520.0)
        if kind.trains:
            if pod.job.run is None:
                return Load(fb_mib=2_900.0, power=0.02)
            return pod.job.run.load_of(pod.ranks[at], memory_mib, self._t_s())
        if kind.serves:
            return self._servers.load_of(pod.job.template.serving, memory_mib)
        every = 1500.0 + pod.job.seed % 1800  # a notebook: most of the time somebody thinks
        return Load(
            util=0.45,
            sm=0.2,
            tensor=0.05,
            dram=0.1,
            power=0.2,
            fb_mib=0.4 * memory_mib,
            pause_every_s=every,
            pause_s=(1 - _NOTEBOOK_IS_BUSY_FOR) * every,
            pause_from_s=self._t_s(),
        )
