"""All GPUs of a simulated cluster as columns: what each does now, and what that has added up to.

A load holds from one event to the next, so between two events everything is closed form: counters are the
integral of a rate, temperature nears its target. Only a change of load writes anything down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.simulate.dcgm import ADDED_FAMILIES, FAMILIES
from trilens.simulate.gpu_noise import LEVELS, NOISE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.model.series import Floats
    from trilens.simulate.hardware import Model

WORLD_FAMILIES: Final = (*FAMILIES, *ADDED_FAMILIES)
_WHOLE: Final = np.array([family.whole for family in WORLD_FAMILIES])
_COOLS_IN_S: Final = 75.0
_HOTTER_AT_FULL_LOAD: Final = 41.0
_PAUSE_DEPTH: Final = 0.93
_POWER_CAP_BIT: Final = 0x4
_IDLE_BIT: Final = 0x1
_CONTEXT_MIB: Final = 400.0  # the least that a process with CUDA takes
_BUSY_IN_TURNS: Final = 0.9  # below that, what is read depends on when it is read
_ROOT_3: Final = 3**0.5  # noise is even, from -1 to 1


class Load(NamedTuple):
    """What runs on a GPU, or on one MIG instance of it. Shares are 0 to 1; `fb_mib` is memory in use.

    Every `pause_every_s` from `pause_from_s` on it rests for `pause_s`, as training does while it writes a
    checkpoint; `swing` follows a wave of `wave_s`, as traffic follows the day.
    """

    util: float = 0.0
    sm: float = 0.0
    tensor: float = 0.0
    dram: float = 0.0
    power: float = 0.0  # of what is between idle and the most
    fb_mib: float = 4.0
    link: float = 0.0  # of the model's NVLink rate
    pcie: float = 0.0  # bytes a second
    clock: float = 1.0  # of the highest
    hot: float = 0.0  # 1 where it is not cooled enough: it stands where it slows down to get no hotter
    bits: float = 0.0  # DCGM's clock event reasons
    pause_every_s: float = 0.0
    pause_s: float = 0.0
    pause_from_s: float = 0.0
    swing: float = 0.0
    wave_s: float = 86_400.0
    wave_from_s: float = 0.0


FREE: Final = Load()


def together(loads: Sequence[Load], memory_mib: float) -> Load:
    """Several pods take turns on one GPU."""
    if len(loads) == 1:
        return loads[0]
    busy = sum(load.util for load in loads)
    shrink = 1 / max(1.0, busy)
    first = max(loads, key=lambda load: load.util)
    return first._replace(
        util=min(1.0, busy),
        sm=sum(load.sm for load in loads) * shrink,
        tensor=sum(load.tensor for load in loads) * shrink,
        dram=sum(load.dram for load in loads) * shrink,
        power=sum(load.power for load in loads) * shrink,
        fb_mib=min(memory_mib, sum(load.fb_mib for load in loads)),
        pcie=sum(load.pcie for load in loads) * shrink,
    )


_AT: Final = {name: at for at, name in enumerate(Load._fields)}


class Span(NamedTuple):
    """The columns of one machine: its GPUs, and the units (instances, or whole GPUs) on them."""

    gpus: slice
    units: slice


class GpuBank:
    def __init__(
        self, models: Sequence[Model], units_per_gpu: Sequence[int], shares: Sequence[float], seed: int
    ) -> None:
        """One entry for each GPU; `shares`: how much of its GPU one unit is."""
        count = len(models)
        rng = np.random.default_rng([seed, 1])
        self._seed = seed
        self._idle = np.array([model.idle_watts for model in models])
        self._most = np.array([model.most_watts for model in models])
        self._sm_clock = np.array([model.sm_clock_mhz for model in models], dtype=float)
        self._idle_clock = np.array([model.idle_clock_mhz for model in models], dtype=float)
        self._memory_clock = np.array([model.memory_clock_mhz for model in models], dtype=float)
        self._memory_sensor = np.array([model.has_memory_sensor for model in models], dtype=float)
        self._link = np.array([model.nvlink_bytes for model in models])
        self._reserved = np.array([model.reserved_mib for model in models], dtype=float)
        self._memory = np.array([model.memory_mib for model in models], dtype=float)
        self._slows_at = np.array([model.slows_at_celsius for model in models], dtype=float)
        self._inlet = rng.normal(26, 1.5, count)
        self._spread = rng.normal(1, 0.012, count)
        self._replays_a_day = rng.exponential(0.4, count)
        self._gpu_of = np.repeat(np.arange(count), units_per_gpu)
        self._share = np.repeat(np.asarray(shares, dtype=float), units_per_gpu)
        units = len(self._gpu_of)
        self.loads: Floats = np.zeros((len(Load._fields), units))
        self.loads[:] = np.array(FREE)[:, None]
        self._since = np.zeros(count)
        self._energy_mj = rng.uniform(1e11, 9e12, count)
        self._link_bytes = rng.uniform(0, 1e15, count) * (self._link > 0)
        self._hot_ns = np.zeros(count)
        self._celsius = self._inlet + 4
        self.xid: Floats = np.zeros(count)
        self.double_bit: Floats = np.zeros(count)
        self.single_bit: Floats = rng.poisson(0.3, count).astype(float)
        self.rows_remapped: Floats = np.zeros(count)

    def set(self, span: Span, loads: dict[int, Load], t_s: float) -> None:
        """From now on, these units (by their number) do this. `t_s` is seconds since the world began."""
        self._settle(span, t_s)
        for unit, load in loads.items():
            self.loads[:, unit] = load

    def renew(self, span: Span, t_s: float) -> None:
        """Another machine stands there: counters begin at nothing."""
        gpus = span.gpus
        self.loads[:, span.units] = np.array(FREE)[:, None]
        for counter in (self._energy_mj, self._link_bytes, self._hot_ns, self.xid, self.double_bit,
                        self.single_bit, self.rows_remapped):  # fmt: skip
            counter[gpus] = 0
        self._celsius[gpus] = self._inlet[gpus] + 4
        self._since[gpus] = t_s

    def readings(self, span: Span, t_s: float) -> Floats:
        """(family, unit), in the order of WORLD_FAMILIES: what is the device's stands with each unit."""
        gpus = span.gpus
        load = self.loads[:, span.units]
        of = self._gpu_of[span.units] - gpus.start

        def noise(which: int) -> Floats:
            """Of standard deviation 1, and another one for each reading."""
            return _ROOT_3 * _noise(self._seed + which, self._gpu_of[span.units], t_s)

        active = _level(load, t_s)
        quiet = load[_AT["util"]] == 0
        active = np.where(quiet, 1.0, active)
        watts, celsius, energy, link_bytes, hot_ns = self._device(span, load, active, t_s)
        engine = np.clip(load[_AT["util"]] * active, 0, 1)
        in_turns = NOISE.part_utilization * np.sqrt(engine * (1 - engine))
        spread = np.where(engine < _BUSY_IN_TURNS, in_turns, NOISE.utilization * engine)
        util = np.clip(np.where(engine >= 0.995, 1.0, engine + spread * noise(0)), 0, 1)
        share = self._share[span.units]
        memory = self._memory[gpus][of] * share
        reserved = self._reserved[gpus][of] * share
        used = np.minimum(load[_AT["fb_mib"]], memory - reserved)
        is_busy = engine > 0.02
        # Clocks stay up while a process holds memory, even one that does nothing.
        is_up = load[_AT["fb_mib"]] > _CONTEXT_MIB
        clock = np.where(is_up, self._sm_clock[gpus][of] * load[_AT["clock"]], self._idle_clock[gpus][of])
        near_most = watts > 0.9 * self._most[gpus]
        bits = np.where(is_busy, load[_AT["bits"]], _IDLE_BIT)
        bits = np.where((bits == 0) & near_most[of], _POWER_CAP_BIT, bits)
        capped = LEVELS.capped_clock * (1 + NOISE.capped_clock * noise(1).clip(-1, 1))
        clock = np.where(bits == _POWER_CAP_BIT, clock * capped, clock)
        link = load[_AT["link"]] * self._link[gpus][of] * active * (1 + NOISE.dram * noise(2))
        dram = np.clip(load[_AT["dram"]] * active * (1 + NOISE.dram * noise(3)), 0, 1)
        pcie = load[_AT["pcie"]] * active * (1 + NOISE.pcie * noise(4))
        of_watts = np.where(is_busy, NOISE.watts, NOISE.idle_watts)
        nothing = np.zeros(len(of))
        columns = (
            clock,
            np.broadcast_to(self._memory_clock[gpus][of], clock.shape),
            (celsius + 6)[of] * self._memory_sensor[gpus][of],
            celsius[of] + NOISE.celsius * noise(5),
            np.minimum(watts[of] * (1 + of_watts * noise(6)), self._most[gpus][of]),
            energy[of],
            np.floor(self._replays_a_day[gpus] * t_s / 86_400)[of],
            100 * util,
            100 * dram * 0.9,
            nothing,
            nothing,
            self.xid[gpus][of],
            memory - reserved - used,
            used,
            reserved,
            link_bytes[of] / 1e6,
            self.rows_remapped[gpus][of],
            nothing,
            nothing,
            bits,
            engine,
            np.clip(load[_AT["sm"]] * active * (1 + NOISE.sm * noise(7)), 0, 1),
            np.clip(load[_AT["tensor"]] * active * (1 + NOISE.tensor * noise(8)), 0, 1),
            dram,
            0.6 * pcie,
            pcie,
            self.single_bit[gpus][of],
            self.double_bit[gpus][of],
            hot_ns[of],
            link,
            link,
        )
        found = np.stack(columns)
        found[_WHOLE] = np.floor(found[_WHOLE])
        return found

    def _settle(self, span: Span, t_s: float) -> None:
        load = self.loads[:, span.units]
        _, celsius, energy, link_bytes, hot_ns = self._device(span, load, _level(load, t_s), t_s)
        gpus = span.gpus
        self._energy_mj[gpus] = energy
        self._link_bytes[gpus] = link_bytes
        self._hot_ns[gpus] = hot_ns
        self._celsius[gpus] = celsius
        self._since[gpus] = t_s

    def _device(
        self, span: Span, load: Floats, active: Floats, t_s: float
    ) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Watts and temperature now; energy (mJ), NVLink bytes and nanoseconds of heat until now."""
        gpus = span.gpus
        of = self._gpu_of[span.units] - gpus.start
        count = gpus.stop - gpus.start
        share = self._share[span.units]
        since = self._since[gpus]
        passed = t_s - since
        worked = _worked(load, t_s) - _worked(load, since[of])

        def sums(weights: Floats) -> Floats:
            return np.bincount(of, weights=weights, minlength=count).astype(np.float64, copy=False)

        power = load[_AT["power"]] * share
        room = (self._most[gpus] - self._idle[gpus]) * self._spread[gpus]
        watts = np.minimum(self._idle[gpus] + room * sums(power * active), self._most[gpus])
        energy = self._energy_mj[gpus] + 1000 * (self._idle[gpus] * passed + room * sums(power * worked))
        hot = np.zeros(count)
        np.maximum.at(hot, of, load[_AT["hot"]])
        cooled = self._inlet[gpus] + 4 + _HOTTER_AT_FULL_LOAD * sums(power)
        target = np.where(hot > 0, self._slows_at[gpus] + 1, cooled)
        celsius = target + (self._celsius[gpus] - target) * np.exp(-passed / _COOLS_IN_S)
        moved = sums(load[_AT["link"]] * worked) * self._link[gpus]
        return (
            watts,
            celsius,
            energy,
            self._link_bytes[gpus] + moved,
            self._hot_ns[gpus] + np.where(hot > 0, 4e8 * passed, 0),
        )


def _pauses(load: Floats, t_s: float | Floats) -> tuple[Floats, Floats, Floats]:
    """The cycle's number, the time into it, and how long it works before it rests."""
    every = load[_AT["pause_every_s"]]
    some = every > 0
    every = np.where(some, every, 1.0)
    rest = np.where(some, load[_AT["pause_s"]], 0.0)
    turns, into = np.divmod(t_s - load[_AT["pause_from_s"]], every)
    return turns, into, every - rest


def _level(load: Floats, t_s: float) -> Floats:
    """How much of its load is there now: 1, less the rests, plus the wave."""
    _, into, works = _pauses(load, t_s)
    omega = 2 * np.pi / load[_AT["wave_s"]]
    wave = load[_AT["swing"]] * np.sin(omega * (t_s - load[_AT["wave_from_s"]]))
    level: Floats = 1 - _PAUSE_DEPTH * (into >= works) + wave
    return level


def _worked(load: Floats, t_s: float | Floats) -> Floats:
    """An integral of the level."""
    turns, into, works = _pauses(load, t_s)
    every = np.where(load[_AT["pause_every_s"]] > 0, load[_AT["pause_every_s"]], 1.0)
    rested = turns * (every - works) + np.maximum(into - works, 0)
    omega = 2 * np.pi / load[_AT["wave_s"]]
    wave = load[_AT["swing"]] / omega * np.cos(omega * (t_s - load[_AT["wave_from_s"]]))
    worked: Floats = t_s - _PAUSE_DEPTH * rested - wave
    return worked


def _noise(seed: int, gpus: NDArray[np.intp], t_s: float) -> Floats:
    """Repeatable, -1 to 1: splitmix64 over (seed, GPU, millisecond)."""
    moment = np.uint64((round(t_s * 1000) * 0x9E3779B97F4A7C15 + seed) & 0xFFFF_FFFF_FFFF_FFFF)
    x = gpus.astype(np.uint64) * np.uint64(0xD1B54A32D192ED03) + moment
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)).astype(np.float64) * (2.0 / (1 << 53)) - 1
