"""Objects as CSV: a line for each, and the names that --json has as columns."""

from __future__ import annotations

import csv
import json
from itertools import accumulate
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TextIO


def write_csv(found: Sequence[Mapping[str, Any]], file: TextIO) -> None:
    """What is nested gets columns of its own, `phase.reason`; an unknown value is an empty cell."""
    if not found:
        return  # of nothing nobody knows the columns
    rows = [dict(_cells("", one)) for one in found]
    columns = _columns(rows)
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_text(row.get(column)) for column in columns] for row in rows)


def apart(found: Iterable[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    """A line for each of the objects in the list `name`, beside what they share; one where it is empty."""
    return [{**one, name: part} for one in found for part in one[name] or [None]]


def _cells(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and (value or not name):
        for key, part in value.items():
            yield from _cells(f"{name}.{key}" if name else key, part)
    else:
        yield name, value


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """In the order of the objects. One that is unknown in one line and an object in another is not both."""
    known: dict[str, bool] = {}
    for row in rows:
        for column, value in row.items():
            known[column] = known.get(column, False) or value is not None
    objects = {outer for column in known for outer in accumulate(column.split(".")[:-1], "{}.{}".format)}
    kept = [column for column, is_known in known.items() if is_known or column not in objects]
    place: dict[str, int] = {}
    for column in known:
        place.setdefault(column.partition(".")[0], len(place))
    return sorted(kept, key=lambda column: place[column.partition(".")[0]])


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        return ";".join("" if one is None else str(_text(one)) for one in value)
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False) if value else ""
    return value
