"""Made-up GPU nodes whose readings are a pure function of seed and time.

Nothing is remembered between two readings: a counter is the integral of its rate in closed form. So any
moment can be asked for in any order, and history is computed, not replayed.
"""

from __future__ import annotations

import random
from dataclasses import fields
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trilens.model.labels import METRIC_NAME, Labels, make_labels
from trilens.simulate.dcgm import FAMILIES
from trilens.simulate.roles import IDLE_WATTS, Placement, Role, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trilens.model.series import Floats, Times

_BOOTED_S = 1_600_000_000  # counters start here; "now" is always later
_MODEL = "NVIDIA H100 80GB HBM3"
_DRIVER = "580.105.08"
_FB_TOTAL_MIB = 81_559
_FB_RESERVED_MIB = 475


class History(NamedTuple):
    """A stretch of the past: `values[i, k]` of series i (in the order of `Fleet.series`) at `t_ms[k]`."""

    t_ms: Times
    values: Floats


class Fleet:
    def __init__(self, nodes: int, gpus_per_node: int = 8, seed: int = 0) -> None:
        if nodes < 1 or gpus_per_node < 1:
            raise ValueError("a fleet needs at least one node with one GPU")
        self.nodes = nodes
        self.gpus_per_node = gpus_per_node
        self.seed = seed
        self._templates: dict[tuple[int, ...], str] = {}

    @property
    def series_per_node(self) -> int:
        return len(FAMILIES) * self.gpus_per_node

    def hostname(self, node: int) -> str:
        return f"gpu-node-{node:04}"

    def exposition(self, node: int | Sequence[int], t_s: float) -> bytes:
        """What dcgm-exporter on this node says at this moment; of several nodes, as one text."""
        nodes = (node,) if isinstance(node, int) else tuple(node)
        template = self._templates.get(nodes)
        if template is None:
            template = self._templates[nodes] = self._render_template(nodes)
        values = self._readings(self._gpus_of(nodes), np.array([t_s]))
        return (template % tuple(values.reshape(-1).tolist())).encode()

    def series(self, nodes: Sequence[int] | None = None, **extra: str) -> list[Labels]:
        """The labels of every series: by node, then metric, then GPU. `extra` is added to each (job, ...)."""
        found = []
        for node in range(self.nodes) if nodes is None else nodes:
            own = [dict(self._labels(node, gpu)) for gpu in range(self.gpus_per_node)]
            found += [
                make_labels({**labels, METRIC_NAME: family.name, **extra})
                for family in FAMILIES
                for labels in own
            ]
        return found

    def history(
        self, start_s: float, end_s: float, step_s: float, nodes: Sequence[int] | None = None
    ) -> Iterator[History]:
        """All readings from start to before end, oldest first, in pieces of a few million values."""
        chosen = tuple(range(self.nodes) if nodes is None else nodes)
        times = np.arange(start_s, end_s, step_s)
        steps = max(1, 4_000_000 // (len(chosen) * self.series_per_node))
        for first in range(0, len(times), steps):
            t = times[first : first + steps]
            readings = self._readings(self._gpus_of(chosen), t)
            by_node = readings.reshape(len(FAMILIES), len(chosen), self.gpus_per_node, len(t)).swapaxes(0, 1)
            yield History(np.round(t * 1000).astype(np.int64), by_node.reshape(-1, len(t)))

    def _gpus_of(self, nodes: Sequence[int]) -> NDArray[np.intp]:
        own = np.arange(self.gpus_per_node)
        return (np.asarray(nodes, dtype=np.intp)[:, None] * self.gpus_per_node + own).reshape(-1)

    def _labels(self, node: int, gpu: int) -> list[tuple[str, str]]:
        """In the order dcgm-exporter writes them."""
        index = node * self.gpus_per_node + gpu
        placed = self._placements[index]
        pairs = [
            ("gpu", str(gpu)),
            ("UUID", self._uuids[index]),
            ("pci_bus_id", f"00000000:{0x18 + 0x11 * gpu & 0xFF:02X}:00.0"),
            ("device", f"nvidia{gpu}"),
            ("modelName", _MODEL),
            ("Hostname", self.hostname(node)),
            ("DCGM_FI_DRIVER_VERSION", _DRIVER),
        ]
        if placed.pod:
            pairs += [("container", placed.container), ("namespace", placed.namespace), ("pod", placed.pod)]
        return pairs

    def _render_template(self, nodes: Sequence[int]) -> str:
        labels = [
            ",".join(f'{name}="{value}"' for name, value in self._labels(node, gpu))
            for node in nodes
            for gpu in range(self.gpus_per_node)
        ]
        lines = []
        for family in FAMILIES:
            help_text = family.help.replace("%", "%%")
            lines += [f"# HELP {family.name} {help_text}", f"# TYPE {family.name} {family.kind}"]
            number = "%d" if family.whole else "%.6f"
            lines += [f"{family.name}{{{text}}} {number}" for text in labels]
        return "\n".join(lines) + "\n"

    @cached_property
    def _placements(self) -> list[Placement]:
        return [place(node, gpu) for node in range(self.nodes) for gpu in range(self.gpus_per_node)]

    @cached_property
    def _uuids(self) -> list[str]:
        source = random.Random(self.seed)  # noqa: S311 - a repeatable fleet, not a secret
        found = []
        for _ in range(self.nodes * self.gpus_per_node):
            digits = f"{source.getrandbits(128):032x}"
            found.append(
                "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
            )
        return found

    @cached_property
    def _traits(self) -> dict[str, Floats]:
        """Each GPU's role as columns, each with a small spread of its own."""
        rng = np.random.default_rng(self.seed)
        count = len(self._placements)
        names = [field.name for field in fields(Role) if field.name != "name"]
        traits = {
            name: np.array([getattr(p.role, name) for p in self._placements], dtype=float) for name in names
        }
        for name in ("tensor", "memory", "watts", "link_bytes"):
            traits[name] *= rng.normal(1, 0.012, count)
        traits["phase"] = rng.uniform(0, 2 * np.pi, count)
        traits["inlet"] = rng.normal(27, 1.5, count)
        traits["fb_used_mib"] += np.floor(rng.uniform(0, 300, count)) * (traits["fb_used_mib"] > 100)
        traits["replays_a_day"] = rng.exponential(0.4, count)
        # An application error here and a row that was remapped there: about one GPU in fifty each.
        fate = rng.uniform(size=count)
        traits["xid"] = np.select([fate < 0.02, fate > 0.98], [31, 63], 0).astype(float)
        traits["row_remapped"] = (fate > 0.98).astype(float)
        return traits

    def _readings(self, gpus: NDArray[np.intp], t_s: Floats) -> Floats:
        """(family, gpu, time), in the order of FAMILIES."""
        trait = {name: column[gpus][:, None] for name, column in self._traits.items()}
        since_boot = t_s[None, :] - _BOOTED_S
        active, integral = _activity(trait, since_boot)
        noise = _noise(self.seed, gpus, t_s)
        busy_watts = trait["watts"] - IDLE_WATTS
        watts = IDLE_WATTS + busy_watts * active
        celsius = trait["inlet"] + 0.058 * watts + trait["celsius"] + 0.6 * noise
        util = np.clip(trait["util"] * active + 1.2 * noise * (trait["util"] > 0), 0, 100)
        util = np.where(trait["tensor"] * trait["util"] == 0, trait["util"], util)  # hung is 100, free is 0
        level = np.clip(active * (1 + 0.01 * noise), 0, 1.2)
        everywhere = np.ones_like(active)
        columns = (
            np.where(active > 0.2, trait["clock_mhz"], np.minimum(trait["clock_mhz"], 1755)),
            2619 * everywhere,
            celsius + 6,
            celsius,
            np.round(watts * (1 + 0.006 * noise), 3),
            1000 * (IDLE_WATTS * since_boot + busy_watts * integral),
            np.floor(trait["replays_a_day"] * since_boot / 86_400),
            util,
            100 * trait["memory"] * level,
            0 * everywhere,
            0 * everywhere,
            trait["xid"] * everywhere,
            _FB_TOTAL_MIB - _FB_RESERVED_MIB - trait["fb_used_mib"] * everywhere,
            trait["fb_used_mib"] * everywhere,
            _FB_RESERVED_MIB * everywhere,
            trait["link_bytes"] * integral / 1e6,
            trait["row_remapped"] * everywhere,
            0 * everywhere,
            0 * everywhere,
            np.where(active > 0.2, trait["throttle"], 1),
            util / 100,
            0.01 * util * np.where(trait["tensor"] > 0, 0.86, 0.98),
            trait["tensor"] * level,
            trait["memory"] * level,
            2.1e8 * trait["memory"] * level,
            3.4e8 * trait["memory"] * level,
        )
        readings = np.stack([np.broadcast_to(column, active.shape) for column in columns])
        readings[_WHOLE] = np.floor(readings[_WHOLE])
        readings[~_WHOLE] = np.round(readings[~_WHOLE], 6)
        return readings


_WHOLE = np.array([family.whole for family in FAMILIES])


def _activity(trait: dict[str, Floats], t: Floats) -> tuple[Floats, Floats]:
    """How busy (1, less the pauses, plus a slow wave), and the integral of that since boot."""
    every = np.where(trait["pause_every_s"] > 0, trait["pause_every_s"], 1.0)
    length = np.where(trait["pause_every_s"] > 0, trait["pause_s"], 0.0)
    turns, into = np.divmod(t, every)
    depth = 0.92
    omega = 2 * np.pi / trait["wave_s"]
    wave = trait["swing"] * np.sin(omega * t + trait["phase"])
    active = 1 - depth * (into < length) + wave
    paused = turns * length + np.minimum(into, length)
    integral = t - depth * paused - trait["swing"] / omega * np.cos(omega * t + trait["phase"])
    return active, integral


def _noise(seed: int, gpus: NDArray[np.intp], t_s: Floats) -> Floats:
    """Repeatable, about -1 to 1: splitmix64 over (seed, GPU, millisecond)."""
    x = np.round(t_s * 1000).astype(np.uint64)[None, :] * np.uint64(0x9E3779B97F4A7C15)
    x = x + gpus.astype(np.uint64)[:, None] * np.uint64(0xD1B54A32D192ED03) + np.uint64(seed & 0xFFFFFFFF)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)).astype(np.float64) * (2.0 / (1 << 53)) - 1
