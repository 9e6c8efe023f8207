"""Times moved within what is kept whole: findings and incidents, which are JSON, and recorded collectives."""

from __future__ import annotations

import base64
import pickle
import re
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from trilens.model.plain_pickle import read_plain_pickle

_TIME: Final = re.compile(
    r'"lost_quanta":\d+'
    r"|(?<![\d.])1[5-9]\d{11}(?![\d.])|(?<![\d.])1[5-9]\d{14}(?![\d.])"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=[.\dZ])"
    r"|(?<!\d)\d{8}-\d{4}(?=-[0-9a-f]{4}\b)"
)
_TIMES_NS: Final = ("time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns")


def move_times(text: str, by_ms: int) -> str:
    """All times in a text: milliseconds and microseconds, ISO, and those of which ids of incidents begin."""

    def moved(found: re.Match[str]) -> str:
        time = found[0]
        if time.startswith('"'):
            return time  # money
        if time.isdigit():
            return str(int(time) + (by_ms if len(time) == 13 else 1000 * by_ms))
        form = "%Y-%m-%dT%H:%M:%S" if "T" in time else "%Y%m%d-%H%M"
        at = datetime.strptime(time, form).replace(tzinfo=UTC) + timedelta(milliseconds=by_ms)
        return at.strftime(form)

    return _TIME.sub(moved, text)


def move_recording(content: str, by_ms: int) -> str:
    """A flight recorder's dump as a store keeps it, with the times of its collectives moved."""
    dump = cast("dict[str, Any]", read_plain_pickle(base64.b64decode(content)))
    for entry in dump["entries"]:
        entry.update({name: entry[name] + by_ms * 1_000_000 for name in _TIMES_NS if entry[name] is not None})
    return base64.b64encode(pickle.dumps(dump, protocol=2)).decode()
