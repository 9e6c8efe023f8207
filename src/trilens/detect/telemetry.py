"""The last minutes of all GPUs, as arrays that go on with the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.figures import COLUMN_MS, RECIPES
from trilens.detect.scene import Figure, Telemetry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.detect.figures import Field
    from trilens.detect.scene import Place

    GpuRow = tuple[str, str]  # UUID and MIG instance

WINDOW_MS: Final = 20 * 60_000
COLUMNS: Final = WINDOW_MS // COLUMN_MS
_AHEAD: Final = 60  # columns to go on into before everything is moved back to the beginning
_ROWS_AT_FIRST: Final = 16
_SPARE_SHARE: Final = (
    8  # of the rows there is room for so many more: 10,000 GPUs are 200 MB, and come at once
)


class Readings(NamedTuple):
    """Of one field: a row for each GPU, a column for each moment of its block; NaN where nothing was said."""

    keys: Sequence[GpuRow]
    values: NDArray[np.float64]


class Block(NamedTuple):
    """What was asked at once."""

    first_ms: int  # its first column; the others are COLUMN_MS apart
    columns: int
    fields: Mapping[Field, Readings]

    @property
    def last_ms(self) -> int:
        return self.first_ms + (self.columns - 1) * COLUMN_MS


class TelemetryWindow:
    """Not thread-safe. What is told again of a moment is added to what was told: samples come late."""

    def __init__(self) -> None:
        self._rows: dict[GpuRow, int] = {}
        self._figures: dict[Figure, NDArray[np.float32]] = {}
        self._blanks: dict[Figure, NDArray[np.bool_]] = {}
        self._last_ms: int | None = None
        self._stop = COLUMNS  # of the columns in use, which are COLUMNS
        self._capacity = _ROWS_AT_FIRST
        self._known: dict[Figure, tuple[Sequence[GpuRow], NDArray[np.intp]]] = {}

    @property
    def keys(self) -> list[GpuRow]:
        """Of each row."""
        return list(self._rows)

    @property
    def last_ms(self) -> int | None:
        return self._last_ms

    def extend(self, block: Block) -> None:
        self._go_on_to(block.last_ms)
        assert self._last_ms is not None
        behind = (self._last_ms - block.last_ms) // COLUMN_MS
        stop = self._stop - behind
        first = stop - block.columns
        skipped = max(self._stop - COLUMNS - first, 0)  # older than the window
        if skipped >= block.columns:
            return
        for figure, (fields, made_by) in RECIPES.items():
            told = [block.fields[field] for field in fields if field in block.fields]
            if not any(len(one.keys) for one in told):
                continue
            keys, columns, blank = _aligned(fields, block)
            values = made_by(*columns)[:, skipped:]
            rows = self._rows_of(figure, keys)
            where = slice(first + skipped, stop)
            held = self._held(figure)
            held[rows, where] = np.where(np.isnan(values), held[rows, where], values)
            flags = self._blanks[figure]
            has_value = ~np.isnan(values).all(axis=1)
            flags[rows] = np.where(blank, True, np.where(has_value, False, flags[rows]))

    def telemetry(self, places: Sequence[Place]) -> Telemetry:
        """`places` in the order of `keys`."""
        count = len(self._rows)
        assert len(places) == count
        last_ms = self._last_ms if self._last_ms is not None else 0
        window = slice(self._stop - COLUMNS, self._stop)
        return Telemetry(
            places,
            last_ms - COLUMN_MS * np.arange(COLUMNS - 1, -1, -1, dtype=np.int64),
            {figure: held[:count, window] for figure, held in self._figures.items()},
            {figure: flags[:count] for figure, flags in self._blanks.items() if flags[:count].any()},
        )

    def _go_on_to(self, last_ms: int) -> None:
        if self._last_ms is None:
            self._last_ms = last_ms
            return
        columns = (last_ms - self._last_ms) // COLUMN_MS
        if columns <= 0:
            return
        self._last_ms = last_ms
        if columns >= COLUMNS:
            for held in self._figures.values():
                held.fill(np.nan)
            self._stop = COLUMNS
            self._forget_silent()
            return
        if self._stop + columns > COLUMNS + _AHEAD:
            kept = COLUMNS - columns
            for held in self._figures.values():
                held[:, :kept] = held[:, self._stop - kept : self._stop]
                held[:, kept:] = np.nan
            self._stop = COLUMNS
            self._forget_silent()
        else:
            self._stop += columns

    def _forget_silent(self) -> None:
        """GPUs of which nothing is left in the window."""
        count = len(self._rows)
        said = np.zeros(count, bool)
        for held in self._figures.values():
            said |= ~np.isnan(held[:count]).all(axis=1)
        if said.all():
            return
        for figure, held in self._figures.items():
            kept = held[:count][said]
            held[: len(kept)] = kept
            held[len(kept) :] = np.nan
            flags = self._blanks[figure]
            kept_flags = flags[:count][said]
            flags[: len(kept_flags)] = kept_flags
            flags[len(kept_flags) :] = False
        keys = [key for key, spoke in zip(self._rows, said.tolist(), strict=True) if spoke]
        self._rows = {key: row for row, key in enumerate(keys)}
        self._known.clear()

    def _held(self, figure: Figure) -> NDArray[np.float32]:
        held = self._figures.get(figure)
        if held is None:
            held = self._figures[figure] = np.full((self._capacity, COLUMNS + _AHEAD), np.nan, np.float32)
            self._blanks[figure] = np.zeros(self._capacity, bool)
        return held

    def _rows_of(self, figure: Figure, keys: Sequence[GpuRow]) -> NDArray[np.intp]:
        known = self._known.get(figure)
        if known is not None and known[0] == keys:  # the same GPUs in the same order, nearly always
            return known[1]
        rows = np.array([self._rows.setdefault(key, len(self._rows)) for key in keys], np.intp)
        if len(self._rows) > self._capacity:
            self._grow(len(self._rows))
        self._known[figure] = (keys, rows)
        return rows

    def _grow(self, rows: int) -> None:
        self._capacity = rows + max(rows // _SPARE_SHARE, _ROWS_AT_FIRST)
        for figure, held in self._figures.items():
            larger = np.full((self._capacity, held.shape[1]), np.nan, np.float32)
            larger[: len(held)] = held
            self._figures[figure] = larger
            flags = np.zeros(self._capacity, bool)
            flags[: len(held)] = self._blanks[figure]
            self._blanks[figure] = flags


def _aligned(
    fields: Sequence[Field], block: Block
) -> tuple[Sequence[GpuRow], list[NDArray[np.float64]], NDArray[np.bool_]]:
    """Columns of all fields over the same GPUs, those of the first field that anybody told; NaN where DCGM
    says that it does not know, and which rows these are at last."""
    told = [block.fields.get(field) for field in fields]
    keys = next(one.keys for one in told if one is not None and len(one.keys))
    columns = []
    blank = np.zeros(len(keys), bool)
    for field, one in zip(fields, told, strict=True):
        values = _over(keys, one, block.columns)
        unknown = field.blank(values)
        if unknown.any():
            blank |= _ends_in(unknown, ~np.isnan(values))
            values = np.where(unknown, np.nan, values)
        columns.append(values)
    return keys, columns, blank


def _ends_in(words: NDArray[np.bool_], said: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of each row whether the last that was said is such a word."""
    back = said[:, ::-1]
    last = said.shape[1] - 1 - back.argmax(axis=1)
    ends: NDArray[np.bool_] = words[np.arange(len(words)), last]
    return ends


def _over(keys: Sequence[GpuRow], told: Readings | None, columns: int) -> NDArray[np.float64]:
    if told is None or not len(told.keys):
        return np.full((len(keys), columns), np.nan)
    if told.keys == keys:
        return told.values
    at = {key: row for row, key in enumerate(told.keys)}
    from_rows = [at.get(key, -1) for key in keys]
    padded = np.vstack([told.values, np.full((1, columns), np.nan)])
    return padded[from_rows]
