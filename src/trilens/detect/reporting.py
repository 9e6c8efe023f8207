"""Who reports: how often each GPU says something, and which of them have fallen silent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trilens.detect.scene import Figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from trilens.detect.scene import Place, Telemetry

_LIFE_SIGNS: Final = (Figure.UTILIZATION, Figure.POWER, Figure.TEMPERATURE, Figure.MEMORY_USED)
_MISSED: Final = 3  # readings in a row that are not there
_LEAST_MS: Final = 12_000  # two columns and a little, for one that is late
_FEWEST: Final = 3  # readings, to know how often there should be one


class Reporting:
    def __init__(self, telemetry: Telemetry, now_ms: int) -> None:
        self._telemetry = telemetry
        rows, columns = len(telemetry.places), len(telemetry.times_ms)
        said = np.zeros((rows, columns), bool)
        for figure in _LIFE_SIGNS:
            values = telemetry.figures.get(figure)
            if values is not None:
                said |= ~np.isnan(values)
        self.readings = said.sum(axis=1)
        column_ms = float(telemetry.times_ms[1] - telemetry.times_ms[0]) if columns > 1 else 0.0
        first = said.argmax(axis=1)
        last = columns - 1 - said[:, ::-1].argmax(axis=1)
        self.every_ms = column_ms * (last - first) / np.maximum(self.readings - 1, 1)
        self.last_ms = telemetry.times_ms[last] if columns else np.zeros(rows, np.int64)
        self.silent_ms = now_ms - self.last_ms
        is_known = self.readings >= _FEWEST
        self.is_silent = is_known & (self.silent_ms > np.maximum(_MISSED * self.every_ms, _LEAST_MS))
        self.is_heard = is_known & ~self.is_silent


class Nodes:
    """Which rows are on which node. Worked out again only when the places are others."""

    def __init__(self) -> None:
        self._places: Sequence[Place] | None = None
        self.names: list[tuple[str, str]] = []  # cluster and node
        self.of_row: NDArray[np.intp] = np.zeros(0, np.intp)

    def look(self, places: Sequence[Place]) -> None:
        if places is self._places:
            return
        codes: dict[tuple[str, str], int] = {}
        of_row = [codes.setdefault((place.cluster, place.node), len(codes)) for place in places]
        self._places, self.names, self.of_row = places, list(codes), np.array(of_row, np.intp)

    def count(self, rows: NDArray[np.bool_]) -> NDArray[np.intp]:
        """How many of these each node has."""
        return np.bincount(self.of_row[rows], minlength=len(self.names))

    def highest(self, values: NDArray[np.number[Any]], rows: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Of these rows of each node; 0 where it has none of them."""
        found = np.zeros(len(self.names))
        np.maximum.at(found, self.of_row[rows], values[rows])
        return found
