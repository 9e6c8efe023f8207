"""How many GPUs were in use, row by row: each row counts until the next."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import median_low
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.cli.import_table import BadRows, check_columns, mapped
from trilens.cli.import_values import read_number
from trilens.model.errors import ConfigError
from trilens.model.imported import UsagePoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.cli.import_jobs import Owned
    from trilens.cli.import_table import Row, Table
    from trilens.cli.import_values import Clock
    from trilens.cli.progress import Advance

FIELDS: Final = ("time", "in_use", "there")
GAP: Final = 10  # usual distances: a longer one is a time that nobody wrote down
_TOLD_EVERY: Final = 1_000
_AHEAD_MS: Final = 86_400_000


class _Read(NamedTuple):
    t_ms: int
    in_use: Fraction | None  # None: from then on unknown
    there: Fraction | None


@dataclass(slots=True)
class _Lasted:
    in_use: Fraction
    there: Fraction | None
    ms: int


class UsageReport:
    def __init__(self, bad: BadRows) -> None:
        self.bad = bad
        self.rows = 0
        self.points = 0
        self.unknown = 0  # rows without a number in use
        self.gaps = 0
        self.gap_ms = 0
        self.too_many = 0  # rows with more in use than there
        self._lasted: list[_Lasted] = []
        self.first_ms: int | None = None
        self.last_ms: int | None = None

    def add(self, point: UsagePoint) -> None:
        self.points += 1
        self.too_many += point.there is not None and point.in_use > point.there
        last = self._lasted[-1] if self._lasted else None
        if last is not None and last.in_use is point.in_use and last.there is point.there:
            last.ms += point.ms  # most rows say the same as the one before, and fractions are slow
        else:
            self._lasted.append(_Lasted(point.in_use, point.there, point.ms))
        if self.first_ms is None:
            self.first_ms = point.t_ms
        self.last_ms = point.t_ms + point.ms

    @property
    def in_use_ms(self) -> Fraction:
        return sum((one.in_use * one.ms for one in self._lasted), Fraction())

    @property
    def utilisation(self) -> float | None:
        """Of the rows that tell how many were there."""
        told = [(one.in_use, one.there, one.ms) for one in self._lasted if one.there is not None]
        whole = sum((max(in_use, there) * ms for in_use, there, ms in told), Fraction())
        return float(sum((in_use * ms for in_use, _, ms in told), Fraction()) / whole) if whole else None


def read_usage_table(
    table: Table,
    mapping: Mapping[str, str],
    owned: Owned,
    clock: Clock,
    now_ms: int,
    bad: BadRows,
    advance: Advance,
) -> tuple[list[UsagePoint], UsageReport]:
    report = UsageReport(bad)
    rows: list[_Read] = []
    lines: dict[int, int] = {}
    for row, line, trouble in mapped(table, mapping):
        report.rows += 1
        try:
            if row is None:
                raise ValueError(trouble)
            t_ms = clock.read(row.get("time"))
            if t_ms is None:
                raise ValueError("the row has no time")
            if t_ms > now_ms + _AHEAD_MS:
                raise ValueError("the row is in the future")
            if lines.setdefault(t_ms, line) != line:
                raise ValueError(f"line {lines[t_ms]} has the same time")
            rows.append(_numbers(row, t_ms, report, line))
        except ValueError as e:
            bad.add(line, str(e))
        if report.rows % _TOLD_EVERY == 0:
            advance(table.position() if table.position is not None else 0, report.rows)
    rows.sort(key=lambda read: read.t_ms)
    return _until_the_next(rows, owned, report), report


def usage_mapping(given: Mapping[str, str], table: Table) -> dict[str, str]:
    missing = [field for field in ("time", "in_use") if field not in given]
    if missing:
        raise ConfigError(
            f"{table.name}: no column is named for {', '.join(missing)}",
            where="--map",
            hint=f"the table has {', '.join(table.columns)}: --map {missing[0]}=COLUMN",
        )
    check_columns(given, table)
    return dict(given)


def _numbers(row: Row, t_ms: int, report: UsageReport, line: int) -> _Read:
    """A row whose numbers cannot be read ends the one before it all the same: what follows is unknown."""
    try:
        in_use, there = read_number(row.get("in_use")), read_number(row.get("there"))
    except ValueError as e:
        report.bad.add(line, str(e))
        return _Read(t_ms, None, None)
    report.unknown += in_use is None
    return _Read(t_ms, in_use, there)


def _until_the_next(rows: list[_Read], owned: Owned, report: UsageReport) -> list[UsagePoint]:
    distances = [after.t_ms - before.t_ms for before, after in pairwise(rows)]
    if not distances:
        if rows:
            raise ConfigError(
                f"{report.rows} row of usage says nothing of how long it lasted", hint="give two or more"
            )
        return []
    usual = median_low(distances)
    points = []
    for row, distance in zip(rows, [*distances, usual], strict=True):
        lasted = distance
        if distance > GAP * usual:
            report.gaps += 1
            report.gap_ms += distance - usual
            lasted = usual
        if row.in_use is not None:
            point = UsagePoint(
                owned.source, owned.cluster, row.t_ms, lasted, row.in_use, row.there, owned.model, owned.team
            )
            report.add(point)
            points.append(point)
    return points


def as_dict(report: UsageReport) -> dict[str, Any]:
    return {
        "rows": report.rows,
        "points": report.points,
        "bad": report.bad.count,
        "unknown": report.unknown,
        "gaps": report.gaps,
        "gap_hours": report.gap_ms / 3_600_000,
        "more_in_use_than_there": report.too_many,
        "gpu_hours": float(report.in_use_ms / 3_600_000),
        "utilisation": report.utilisation,
        "start": None if report.first_ms is None else report.first_ms / 1000,
        "end": None if report.last_ms is None else report.last_ms / 1000,
    }
