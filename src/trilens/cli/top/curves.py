"""How a figure went in the last minutes, asked for less often than the rest: it takes the server longer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from trilens.model.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.cli.client import Client

    Key = tuple[str, ...]
    Curve = tuple[float, ...]

_LENGTH_S: Final = 960
_STEP_S: Final = 60
_EVERY_S: Final = 15.0  # as often as collectors report


class Curves:
    """Of one query at a time: another one is asked for at once."""

    def __init__(self, client: Client, by: Sequence[str]) -> None:
        self._client = client
        self._by = by
        self._query = ""
        self._due_s = 0.0
        self._known: Mapping[Key, Curve] = {}

    def of(self, query: str) -> Mapping[Key, Curve]:
        """By the values of the labels. Nothing where the server cannot tell: another may hold the samples."""
        if query != self._query or time.monotonic() >= self._due_s:
            try:
                self._known = self._asked(query)
            except ServerError:
                self._known = {}
            self._query, self._due_s = query, time.monotonic() + _EVERY_S
        return self._known

    def _asked(self, query: str) -> Mapping[Key, Curve]:
        end_s = time.time() // _STEP_S * _STEP_S  # the same points each time, so that none wobbles
        span = {"start": f"{end_s - _LENGTH_S:.0f}", "end": f"{end_s:.0f}", "step": str(_STEP_S)}
        found = self._client.post("/api/v1/query_range", form={"query": query, **span})["data"]["result"]
        return {
            tuple(series["metric"].get(name, "") for name in self._by): curve(series["values"], end_s)
            for series in found
        }


def curve(values: Sequence[Sequence[Any]], end_s: float) -> Curve:
    """One value for each step until `end_s`; NaN where there is none."""
    known = {round((end_s - moment) / _STEP_S): float(value) for moment, value in values}
    return tuple(known.get(back, float("nan")) for back in range(_LENGTH_S // _STEP_S, -1, -1))
