"""A table of how long steps took on each worker, from any source: its columns are found by their names."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.cli.import_table import check_columns, mapped, open_table
from trilens.detect.straggler_table import LEAST_ROWS
from trilens.model.errors import ConfigError, IntakeError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.cli.import_table import Row

# As people call them, the surest first; case and what separates words do not matter.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "worker": (
        r"worker|worker ?id|worker ?rank|worker ?index",
        r"rank|global rank|replica|replica ?id|replica ?index",
        r"host|hostname|node|node ?name|pod|pod ?name|instance|process|task|task ?id",
        r"gpu|gpu ?id|device|device ?id",
    ),
    "step": (
        r"step|global ?step|step ?(id|idx|index|no|number)",
        r"iter|iteration|batch|batch ?(id|idx|index|no|number)",
    ),
    "time": (
        r"time|timestamp|ts|t|date|datetime|time ?ms|time ?s",
        r"end|end ?time|ended|start|start ?time|started",
    ),
    "duration": (
        r"(batch|step|iter|iteration) ?(time|duration|latency|seconds|secs?|s|ms|us|ns)( .*)?",
        r"(duration|elapsed|latency|took|seconds)( .*)?",
        r"(ms|us|s)",
    ),
}
_SHOWN: Final = 10  # bad rows that are named


class StepTable(NamedTuple):
    names: Sequence[str]  # of workers, in the order in which they come
    axis: str  # step or time
    shown: Sequence[int | float | str]  # the step or time of each row, as the table has it
    workers: NDArray[np.intp]
    when: NDArray[np.float64]
    took: NDArray[np.float64]


def read_steps(file: str, chosen: Mapping[str, str | None]) -> StepTable:
    """`chosen`: columns that somebody named, by what they mean: worker, step, time, duration."""
    if chosen["step"] is not None and chosen["time"] is not None:
        raise ConfigError("--step and --time exclude each other: one of them orders the rows")
    names: dict[str, int] = {}
    workers: list[int] = []
    shown: list[int | float | str] = []
    when: list[float] = []
    took: list[float] = []
    bad: list[str] = []
    with open_table(file) as table:
        mapping = _mapping(table.columns, chosen, table.name)
        check_columns(mapping, table)
        axis = "step" if "step" in mapping else "time"
        for row, line, why in mapped(table, mapping):
            try:
                name, at, text, duration = _read(row, why, axis)
            except ValueError as e:
                bad.append(f"{table.name}:{line}: {e}")
                continue
            workers.append(names.setdefault(name, len(names)))
            when.append(at)
            shown.append(text)
            took.append(duration)
    _refuse(bad, table.name)
    found = StepTable(list(names), axis, shown, np.array(workers, np.intp), np.array(when), np.array(took))
    _check_enough(found, table.name)
    return found


def _mapping(columns: Sequence[str], chosen: Mapping[str, str | None], file: str) -> dict[str, str]:
    mapping = {field: column for field, column in chosen.items() if column is not None}
    orders = ("step", "time") if not {"step", "time"} & set(mapping) else ()
    for field in ("worker", "duration", *orders):
        if field in mapping or (field == "time" and "step" in mapping):
            continue
        column = _named(columns, field, taken=mapping.values())
        if column is not None:
            mapping[field] = column
    for field, option in (("worker", "--worker"), ("duration", "--duration")):
        if field not in mapping:
            raise ConfigError(
                f"{file} has no column that looks like the {field}", hint=_hint(option, columns)
            )
    if not {"step", "time"} & set(mapping):
        raise ConfigError(
            f"{file} has no column that looks like a step or a time", hint=_hint("--step or --time", columns)
        )
    return mapping


def _named(columns: Sequence[str], field: str, taken: Collection[str]) -> str | None:
    plain = {column: re.sub(r"[\W_]+", " ", column.lower()).strip() for column in columns}
    for pattern in _NAMES[field]:
        for column, words in plain.items():
            if column not in taken and re.fullmatch(pattern, words):
                return column
    return None


def _hint(option: str, columns: Sequence[str]) -> str:
    return f"name it with {option}: there are {', '.join(repr(column) for column in columns)}"


def _read(row: Row | None, why: str, axis: str) -> tuple[str, float, int | float | str, float]:
    """Raises ValueError with what is wrong."""
    if row is None:
        raise ValueError(why)
    name = row.get("worker")
    if not name:
        raise ValueError("no worker")
    duration = _number(row.get("duration"), "duration")
    if duration <= 0:
        raise ValueError(f"a duration of {row.get('duration')} is none")
    text = row.get(axis)
    try:
        at = _number(text, axis)
    except ValueError:
        if axis == "step":
            raise
        return name, _moment(text), text, duration
    return name, at, int(at) if at.is_integer() else at, duration


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{what} {text!r} is not a number" if text else f"no {what}")
    return value


def _moment(text: str) -> float:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"time {text!r} is neither a number nor as ISO 8601 has it" if text else "no time"
        ) from None
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _refuse(bad: Sequence[str], file: str) -> None:
    if bad:
        more = [f"and {len(bad) - _SHOWN:,} more"] if len(bad) > _SHOWN else []
        rows = "1 row" if len(bad) == 1 else f"{len(bad):,} rows"
        raise IntakeError("\n".join([*bad[:_SHOWN], *more, f"{file}: {rows} cannot be read"]))


def _check_enough(found: StepTable, file: str) -> None:
    if len(found.names) < 2:
        count = "no workers" if not found.names else "one worker"
        raise IntakeError(f"{file} has {count}: a straggler is slower than others, so there must be two")
    rows = float(np.median(np.bincount(found.workers)))
    if rows < LEAST_ROWS:
        raise IntakeError(
            f"{file} has {rows:.0f} rows of most workers: what is usual shows in {LEAST_ROWS} and more"
        )
