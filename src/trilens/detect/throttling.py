"""D004 throttling: a GPU at work runs slower than it did, because it is too hot or its power is braked.

What it finds: the SM clock under load is well below what this GPU usually has, and it says that heat, its
hardware or the power brake holds it down; where nobody asks it for reasons, that it has become hot.
Why it costs: the clock is the compute. From 1.95 to 1.2 GHz 38 % of it are gone, and in synchronous training
of all GPUs of the job.
Example: 1.2 GHz at 87 C with hardware thermal slowdown, where it had 1.95 GHz at 64 C.
What to do: look at the cooling of the node; take it out of service if it does not recover.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trilens.detect.readings import WORKS, LatestReadings, Usual, began, is_fast
from trilens.detect.scene import Figure
from trilens.detect.subjects import DOUBTED, doubts_of, of_row
from trilens.detect.wording import job_name, workload_name
from trilens.model.finding import Evidence, Finding, FindingKind, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trilens.detect.readings import Flags
    from trilens.detect.scene import JobView, Place, Scene, Telemetry
    from trilens.model.workload import GpuUuid

CODE: Final = "D004"

LEAST_LOST: Final = 0.10  # a power cap alone moves the clock by 6 % to either side (H200: 1,710 to 1,920 MHz)
_BEGINS: Final = 0.05  # what is lost where it is taken to begin
_HELD_MS: Final = 10_000  # three readings of 5 s; of slower ones two
_HOT_CELSIUS: Final = 80.0  # where no reasons are told: data-centre GPUs begin to slow down at 83 to 87 C,
_HOTTER_CELSIUS: Final = 3.0  # and it is so much hotter than usual at work,
_VERY_HOT_CELSIUS: Final = 85.0  # or hot enough without that
_CLOCK_FOLLOWS: Final = 0.95  # further down it is not the usual clock that has changed
_WARMTH_FOLLOWS: Final = 0.5
_ENDS_AT: Final = 0.5  # of what it takes to be found: clocks go up and down where heat is the limit
_REST_MS: Final = 120_000  # a checkpoint: at rest it does not tell how it works
_REASONS: Final = 4  # columns: bits come and go with the clock

HW_SLOWDOWN: Final = 0x8
SW_THERMAL: Final = 0x20
HW_THERMAL: Final = 0x40
POWER_BRAKE: Final = 0x80
_THROTTLES: Final = HW_SLOWDOWN | SW_THERMAL | HW_THERMAL | POWER_BRAKE  # 0x4, the power cap, is normal

_DO: Final = {
    "thermal": "Look at the cooling: airflow, fans, inlet temperature and neighbours of {where}; "
    "if it stays hot, cordon the node and move the job.",
    "power-brake": "The node's power supply asks for less: look at its supplies and the rack's power limit.",
    "hw-slowdown": "Its hardware slows it down: look at the cooling and the power supplies of {where}.",
}
_WORDS: Final = {
    "thermal": "it is too hot",
    "power-brake": "the power brake holds it",
    "hw-slowdown": "its hardware holds it",
}


@dataclass
class _Lasting:
    cause: str
    onset_ms: int
    seen_ms: int
    finding: Finding | None = None


class Throttling:
    code = CODE

    def __init__(self) -> None:
        self._clock = Usual(Figure.SM_CLOCK, follows_to=_CLOCK_FOLLOWS)
        self._warmth = Usual(Figure.TEMPERATURE, follows_to=_WARMTH_FOLLOWS, trouble_is_high=True)
        self._lasting: dict[GpuUuid, _Lasting] = {}

    def look(self, scene: Scene) -> Iterator[Finding]:
        telemetry = scene.telemetry
        if not len(telemetry.places) or Figure.SM_CLOCK not in telemetry.figures:
            return
        latest = LatestReadings(telemetry)
        reasons = _reasons(telemetry, latest)
        is_held = (reasons > 0) & (reasons & _THROTTLES != 0)
        works = latest.of(Figure.UTILIZATION) >= WORKS
        self._clock.look(telemetry, latest, but=is_held)
        usual = self._usual_clock(telemetry.places, is_held & works)
        lost = 1 - latest.of(Figure.SM_CLOCK) / usual
        self._warmth.look(telemetry, latest, but=is_held | (lost >= _BEGINS))
        is_blamed = np.where(reasons >= 0, is_held, self._is_hot(latest.of(Figure.TEMPERATURE)))
        found = works & is_blamed & (lost >= _ENDS_AT * LEAST_LOST)
        rows = np.flatnonzero(found & ((lost >= LEAST_LOST) | bool(self._lasting)))
        jobs = {row: job for job in scene.jobs for row in job.rows} if len(rows) else {}
        told: set[GpuUuid] = set()
        for row in rows.tolist():
            uuid, node = telemetry.places[row].uuid, telemetry.places[row].node
            lasting = self._lasting.get(uuid)
            if not node:
                continue  # it has just been heard of: where it is will be known at the next look or so
            if uuid in told or (lasting is None and lost[row] < LEAST_LOST):
                continue  # instances of one GPU have one clock
            if lasting is None:
                onset_ms = _held_since(telemetry, row, (1 - _BEGINS) * usual[row])
                if onset_ms is None:
                    continue
                lasting = self._lasting[uuid] = _Lasting(_cause(int(reasons[row])), onset_ms, scene.now_ms)
            told.add(uuid)
            lasting.seen_ms = scene.now_ms
            lasting.finding = _finding(scene, row, jobs.get(row), lasting, latest, float(usual[row]))
            yield lasting.finding
        if len(self._lasting) > len(told):
            yield from self._at_rest(scene, works, told)

    def _usual_clock(self, places: Sequence[Place], is_held: Flags) -> NDArray[np.float64]:
        """Its own; where it is held down and never was seen otherwise, that of others of its model."""
        usual = self._clock.levels
        if not is_held.any():
            return usual
        of_model: defaultdict[str, list[float]] = defaultdict(list)
        for row in np.flatnonzero(self._clock.is_known & ~is_held).tolist():
            of_model[places[row].model].append(float(usual[row]))
        usual = usual.copy()
        for row in np.flatnonzero(is_held).tolist():
            if others := of_model.get(places[row].model):
                usual[row] = np.fmax(usual[row], float(np.median(others)))
        return usual

    def _is_hot(self, celsius: NDArray[np.float32]) -> Flags:
        has_risen = (celsius >= self._warmth.levels + _HOTTER_CELSIUS) | (celsius >= _VERY_HOT_CELSIUS)
        hot: Flags = (celsius >= _HOT_CELSIUS) & has_risen
        return hot

    def _at_rest(self, scene: Scene, works: Flags, told: set[GpuUuid]) -> Iterator[Finding]:
        """Those that do nothing now: whether they are still slow shows when they work again."""
        places = scene.telemetry.places
        resting = {places[row].uuid for row in np.flatnonzero(~works).tolist()}
        for uuid, lasting in list(self._lasting.items()):
            if uuid in told:
                continue
            if uuid not in resting or scene.now_ms - lasting.seen_ms > _REST_MS:
                del self._lasting[uuid]
            elif lasting.finding is not None:
                yield lasting.finding


def _reasons(telemetry: Telemetry, latest: LatestReadings) -> NDArray[np.int64]:
    """What held clocks down of late, as bits; -1 where nobody tells."""
    values = telemetry.figures.get(Figure.CLOCK_REASONS)
    last = latest.of(Figure.CLOCK_REASONS)
    found = np.where(np.isnan(last), 0, last).astype(np.int64)
    if values is not None:
        recent = np.nan_to_num(values[:, -_REASONS:]).astype(np.int64)
        found |= np.bitwise_or.reduce(recent, axis=1)
    return np.where(np.isnan(last), -1, found)


def _cause(reasons: int) -> str:
    if reasons < 0 or reasons & (SW_THERMAL | HW_THERMAL):
        return "thermal"
    return "power-brake" if reasons & POWER_BRAKE else "hw-slowdown"


def _held_since(telemetry: Telemetry, row: int, below: float) -> int | None:
    """Since when its clock is below that; None where that may be a moment's matter."""
    clock, runs = telemetry.figures[Figure.SM_CLOCK][row], telemetry.figures[Figure.UTILIZATION][row]
    told = ~np.isnan(clock)
    is_low = (clock <= below) & ~(runs < WORKS)
    first = began(is_low, told)
    if first is None:
        return None
    columns = np.flatnonzero(told[first:])
    if not is_fast(telemetry, row):
        return int(telemetry.times_ms[first]) if len(columns) >= 2 else None
    held_ms = telemetry.times_ms[first + columns[-1]] - telemetry.times_ms[first]
    return int(telemetry.times_ms[first]) if held_ms >= _HELD_MS else None


def _finding(
    scene: Scene, row: int, job: JobView | None, lasting: _Lasting, latest: LatestReadings, usual: float
) -> Finding:
    place = scene.telemetry.places[row]
    clock, celsius = float(latest.of(Figure.SM_CLOCK)[row]), float(latest.of(Figure.TEMPERATURE)[row])
    lost = 1 - clock / usual
    where = f"GPU {place.number} of {place.node}"
    whose = ""
    if job is not None:
        whose = f", which {job_name(job)} uses,"
    elif place.workload is not None:
        whose = f", which {workload_name(place.workload)} uses,"
    doubts = doubts_of(scene, [row])
    figures = {"lost": lost, "slowdown": usual / clock, "clock_hertz": clock, "usual_clock_hertz": usual}
    evidence = [
        Evidence(
            f"SM clock {clock / 1e9:.2f} GHz under load, where it usually has {usual / 1e9:.2f}",
            f'DCGM_FI_DEV_SM_CLOCK{{UUID="{place.uuid}"}}',
        )
    ]
    if not np.isnan(celsius):
        figures["celsius"] = celsius
        evidence.append(Evidence(f"{celsius:.0f} C", f'DCGM_FI_DEV_GPU_TEMP{{UUID="{place.uuid}"}}'))
    has_reasons = not np.isnan(latest.of(Figure.CLOCK_REASONS)[row])
    return Finding(
        CODE,
        FindingKind.THROTTLING,
        of_row(job, scene, row),
        Severity.WARNING,
        lasting.cause,
        lasting.onset_ms,
        f"{where}{whose} has lost {lost:.0%} of its compute: {_WORDS[lasting.cause]}",
        _DO[lasting.cause].format(where=where),
        (0.95 if has_reasons else 0.8) * (DOUBTED if doubts else 1.0),
        tuple(evidence),
        doubts,
        figures,
    )
