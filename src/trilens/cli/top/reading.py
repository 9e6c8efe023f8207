"""What the screen shows, asked from the server: one question after the other, the costly ones less often."""

from __future__ import annotations

import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from trilens.cli.client import Client
from trilens.cli.top.curves import Curves
from trilens.cli.top.inside import Inside
from trilens.cli.top.picture import Head, OneWorkload, Picture, Told, Workload
from trilens.model.errors import ServerError

if TYPE_CHECKING:
    from collections.abc import Mapping

_TIMEOUT_S: Final = 20.0  # a server that takes longer is as good as away
_BY: Final = ("cluster", "namespace", "kind", "workload")
_USE: Final = f'avg by ({", ".join(_BY)}) (trilens:gpu_utilization:ratio{{workload!=""}})'


class Reader:
    """`opened` is the workload that is looked at from inside, if any."""

    def __init__(self, server: str | None) -> None:
        self._client = Client(server, timeout_s=_TIMEOUT_S)
        self._inside = Inside(self._client)
        self._curves = Curves(self._client, _BY)
        self.url = self._client.url

    def ask(self, opened: Workload | None = None, *, ended: bool = False) -> Picture:
        """Raises ServerError."""
        now = self._client.get("/api/now")["data"]
        table = self._client.get("/api/workload-table", {"state": "all" if ended else "running"})
        return Picture(
            time.time(),
            head_of(now),
            workloads_of(table["data"], self._curves.of(_USE)),
            self._opened(opened) if opened is not None else None,
            tuple(table.get("warnings", ())),
        )

    def _opened(self, workload: Workload) -> OneWorkload:
        try:
            return self._inside.ask(workload)
        except ServerError as e:  # it may be gone while it is looked at; the others are not
            return OneWorkload(workload.path, (str(e),), is_known=False)


def head_of(now: Mapping[str, Any]) -> Head:
    return Head(
        now["currency"],
        _amount(now["burn"]["per_hour"]) if now["burn"] is not None else None,
        tuple((one["state"], one["gpus"]) for one in now["gpus"]),
        tuple(
            Told(one["severity"], one["id"], one["title"], one["onset_ms"], lost=_amount(one["lost"]))
            for one in now["incidents"]
        ),
        now["more_incidents"],
        _amount(now["incidents_lost"]),
    )


def workloads_of(
    table: Mapping[str, Any], curves: Mapping[tuple[str, ...], tuple[float, ...]]
) -> tuple[Workload, ...]:
    """From one list for each column to one object for each row."""
    names = [name for name, column in table.items() if isinstance(column, list)]
    rows = (dict(zip(names, row, strict=True)) for row in zip(*(table[name] for name in names), strict=True))
    return tuple(
        Workload(
            row["cluster"],
            row["namespace"],
            row["kind"],
            row["name"],
            row["team"],
            "gone" if row["gone_ms"] is not None else row["phase"],
            row["gpus"],
            row["health"] or "unknown",
            _wrong(row),
            row["goodput"],
            _amount(row["cost_per_hour"]),
            _amount(row["cost"]),
            table["currency"],
            row["step"],
            row["total_steps"],
            row["seconds_left"],
            row["run"],
            curves.get((row["cluster"], row["namespace"], row["kind"], row["name"]), ()),
        )
        for row in rows
    )


def _wrong(row: Mapping[str, Any]) -> str:
    """Without the name, which stands beside it."""
    text: str = row["health_text"] or ""
    return text.removeprefix(f"{row['kind']} {row['namespace']}/{row['name']} ")


def _amount(amount: str | float | None) -> Decimal | None:
    return Decimal(str(amount)) if amount is not None else None
