"""The layer of the machines: what the GPUs of a workload said of themselves, wherever the samples are.

Asked by the names that the recording rules give; where nothing was recorded, the fields of dcgm-exporter are
asked themselves.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.promql.annotations import quote
from trilens.serve.own_queries import Times
from trilens.serve.pages.timeline_answers import FigureLine, GpuLayer
from trilens.serve.pages.timeline_grid import told

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.model.gpu import BindingInterval
    from trilens.model.workload import WorkloadKey
    from trilens.serve.own_queries import Matrix, OwnQueries
    from trilens.serve.pages.timeline_grid import Floats, Grid

    Bools = NDArray[np.bool_]

LOOKBACK_MS: Final = 300_000  # below this, what was last said still holds
_RAW_GPUS: Final = 1_000  # named one by one in a query


class _Figure(NamedTuple):
    name: str
    unit: str
    recorded: str
    summed: str  # the same of all of a workload's GPUs
    raw: str
    below: str  # what is more is no reading, but DCGM's way to say that there is none
    factor: float = 1.0


FIGURES: Final = (
    _Figure(
        "activity",
        "ratio",
        "trilens:gpu_utilization:ratio",
        "trilens:workload_gpu_utilization:ratio",
        "DCGM_FI_DEV_GPU_UTIL",
        "101",
        0.01,
    ),
    _Figure(
        "power",
        "watts",
        "trilens:gpu_power:watts",
        "trilens:workload_gpu_power:watts",
        "DCGM_FI_DEV_POWER_USAGE",
        "1e5",
    ),
    _Figure(
        "temperature",
        "celsius",
        "trilens:gpu_temperature:celsius",
        "trilens:workload_gpu_temperature:celsius",
        "DCGM_FI_DEV_GPU_TEMP",
        "1e3",
    ),
    _Figure(
        "sm_clock",
        "hertz",
        "trilens:sm_clock:hertz",
        "trilens:workload_sm_clock:hertz",
        "DCGM_FI_DEV_SM_CLOCK",
        "1e5",
        1e6,
    ),
)


class GpuReadings(NamedTuple):
    """Rows are GPUs, columns are slots; NaN where nothing was said."""

    rows: Mapping[str, int]  # by UUID
    figures: Mapping[str, Floats]


class GpusRead(NamedTuple):
    layer: GpuLayer
    readings: GpuReadings  # those of a rank's GPUs among them


class WorkloadGpus(NamedTuple):
    """Whose GPUs are asked about. Of very many, who held which when takes a while to read: it is asked for
    only where something lacks."""

    key: WorkloadKey
    was_there: Bools  # in which slots it had pods on nodes
    bindings: Callable[[], Awaitable[Sequence[BindingInterval]]]


async def readings_of(
    queries: OwnQueries, key: WorkloadKey, uuids: Collection[str], grid: Grid
) -> GpuReadings:
    """Of some of its GPUs, as far as it was recorded."""
    asked = (_recorded(queries, one, key, grid, uuids) for one in FIGURES)
    recorded = await asyncio.gather(*asked) if uuids else []
    rows = {
        uuid: row for row, uuid in enumerate(dict.fromkeys(key[0] for one in recorded for key in one.keys))
    }
    figures = {}
    for figure, matrix in zip(FIGURES, recorded, strict=False):
        figures[figure.name] = np.full((len(rows), grid.slots), np.nan)
        _lay(figures[figure.name], matrix, rows)
    return GpuReadings(rows, figures)


async def gpu_readings(queries: OwnQueries, whose: WorkloadGpus, grid: Grid) -> GpuReadings:
    """Of all its GPUs, also by what was not recorded."""
    recorded = await asyncio.gather(*(_recorded(queries, one, whose.key, grid) for one in FIGURES))
    lacking = [at for at, one in enumerate(recorded) if _lacks(one, whose.was_there)]
    held = held_in(await whose.bindings(), grid) if lacking else {}
    raw: dict[int, Matrix] = {}
    if held and len(held) <= _RAW_GPUS:
        told_raw = await asyncio.gather(*(_raw(queries, FIGURES[at], held, grid) for at in lacking))
        raw = dict(zip(lacking, told_raw, strict=True))
    uuids = dict.fromkeys([key[0] for one in (*recorded, *raw.values()) for key in one.keys])
    rows = {uuid: row for row, uuid in enumerate(uuids)}
    figures = {}
    for at, figure in enumerate(FIGURES):
        values = np.full((len(rows), grid.slots), np.nan)
        _lay(values, recorded[at], rows)
        if at in raw:
            _lay(values, raw[at], rows, figure.factor, held)
        figures[figure.name] = values
    return GpuReadings(rows, figures)


def gpu_layer(readings: GpuReadings, grid: Grid) -> GpuLayer:
    if not readings.rows:
        return GpuLayer([0] * grid.slots, [])
    any_told = np.zeros((len(readings.rows), grid.slots), np.bool_)
    lines = []
    for figure in FIGURES:
        values = readings.figures[figure.name]
        there = ~np.isnan(values)
        if not there.any():
            continue
        any_told |= there
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(there, values, 0.0).sum(axis=0) / there.sum(axis=0)
        least, most = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        lines.append(FigureLine(figure.name, figure.unit, told(mean, 4), told(least, 4), told(most, 4)))
    return GpuLayer(any_told.sum(axis=0).tolist(), lines)


def figures_of(
    readings: GpuReadings, held: Sequence[tuple[int, str | None]], grid: Grid
) -> dict[str, list[float | None]]:
    """Of the GPUs that a rank had one after the other, each since a moment; those of one alone, as long as
    it had it."""
    edges = grid.edges_ms
    found = {}
    for name, values in readings.figures.items():
        line = grid.empty()
        for since_ms, uuid in held:
            row = readings.rows.get(uuid or "")
            is_later = edges[1:] > since_ms
            line[is_later] = np.nan if row is None else values[row, is_later]
        if not np.isnan(line).all():
            found[name] = told(line, 4)
    return found


def held_in(bindings: Sequence[BindingInterval], grid: Grid) -> dict[str, Bools]:
    """In which slots each GPU was the workload's."""
    begins = grid.edges_ms[:-1]
    found: dict[str, Bools] = {}
    for binding, from_ms, to_ms in bindings:
        during = begins + grid.width_ms > from_ms
        if to_ms is not None:
            during &= begins < to_ms
        if during.any():
            known = found.setdefault(binding.gpu.uuid, during)
            np.logical_or(known, during, out=known)
    return found


async def _recorded(
    queries: OwnQueries, figure: _Figure, key: WorkloadKey, grid: Grid, uuids: Collection[str] = ()
) -> Matrix:
    labels = of_workload(key)
    if uuids:
        labels += f", UUID=~{_one_of(uuids)}"
    query = f"max by (UUID) ({_over_time(f'{figure.recorded}{{{labels}}}', grid)})"
    return await queries.matrix(query, times_of(grid), ("UUID",))


async def _raw(queries: OwnQueries, figure: _Figure, held: Mapping[str, Bools], grid: Grid) -> Matrix:
    selector = f"{figure.raw}{{UUID=~{_one_of(held)}}}"
    query = f"max by (UUID) ({_over_time(selector, grid)} < {figure.below})"
    return await queries.matrix(query, times_of(grid), ("UUID",))


def _one_of(uuids: Iterable[str]) -> str:
    return quote("|".join(map(re.escape, sorted(uuids))))


def _over_time(selector: str, grid: Grid) -> str:
    """In short slots nothing may be said at all, and what was said last holds."""
    if grid.width_ms < LOOKBACK_MS:
        return selector
    return f"avg_over_time({selector}[{grid.width_ms}ms])"


def of_workload(key: WorkloadKey) -> str:
    """The matchers of what rules recorded."""
    names = {"cluster": key.cluster, "namespace": key.namespace, "kind": key.kind, "workload": key.name}
    return ", ".join(f"{name}={quote(text)}" for name, text in names.items())


def times_of(grid: Grid) -> Times:
    """At the end of each slot."""
    return Times(grid.start_ms + grid.width_ms, grid.width_ms, grid.slots)


def is_lacking(told_of: Bools, was_there: Bools) -> bool:
    """In a tenth of the time that it was there, nothing was told."""
    return int((told_of & was_there).sum()) < 0.9 * int(was_there.sum())


def _lacks(recorded: Matrix, was_there: Bools) -> bool:
    """Of none of its GPUs."""
    told_of: Bools = np.zeros_like(was_there)
    if len(recorded.keys):
        told_of = np.asarray(~np.isnan(recorded.values).all(axis=0))
    return is_lacking(told_of, was_there)


def _lay(
    values: Floats,
    told_by: Matrix,
    rows: Mapping[str, int],
    factor: float = 1.0,
    held: Mapping[str, Bools] | None = None,
) -> None:
    """Where nothing is known yet, and of what was held then. Each is told once."""
    if not told_by.keys:
        return
    at = [rows[uuid] for (uuid,) in told_by.keys]
    known = values[at]
    is_wanted = np.isnan(known)
    if held is not None:
        is_wanted &= [held[uuid] for (uuid,) in told_by.keys]
    values[at] = np.where(is_wanted, told_by.values * factor, known)
