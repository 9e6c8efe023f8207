"""Times within texts, moved: those of findings and incidents, which are kept as JSON."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_TIME: Final = re.compile(
    r'"lost_quanta":\d+'
    r"|(?<![\d.])1[5-9]\d{11}(?![\d.])|(?<![\d.])1[5-9]\d{14}(?![\d.])"
    r"|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?=[.\dZ])"
    r"|(?<!\d)\d{8}-\d{4}(?=-[0-9a-f]{4}\b)"
)


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
