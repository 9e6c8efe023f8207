"""Times at which nobody wants to be told: `mon-fri 18:00-08:00`, `sat-sun`, `22:00-07:00`."""

from __future__ import annotations

import re
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BeforeValidator

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES: Final = 24 * 60
_QUIET: Final = re.compile(
    r"(?:([a-z]{3})(?:-([a-z]{3}))?)?\s*(?:(\d\d?):(\d\d)\s*-\s*(\d\d?):(\d\d))?", re.IGNORECASE
)


class QuietTime(NamedTuple):
    days: frozenset[int]  # on which it begins, from 0 for Monday
    from_minute: int  # of the day
    to_minute: int  # of the next day where it is not later

    def covers(self, moment: datetime) -> bool:
        """`moment` is a local time."""
        minute, day = moment.hour * 60 + moment.minute, moment.weekday()
        if self.from_minute < self.to_minute:
            return day in self.days and self.from_minute <= minute < self.to_minute
        begun_yesterday = (day - 1) % 7 in self.days and minute < self.to_minute
        return begun_yesterday or (day in self.days and minute >= self.from_minute)


def read_quiet(text: str) -> QuietTime:
    """Raises ValueError."""
    found = _QUIET.fullmatch(text.strip())
    if found is None or not text.strip():
        raise ValueError(f"{text!r} is not a time: write mon-fri 18:00-08:00, sat-sun or 22:00-07:00")
    first, last, *clock = found.groups()
    begin, end = _minutes(text, clock) if clock[0] is not None else (0, _DAY_MINUTES)
    return QuietTime(_days(text, first, last), begin, end)


def _days(text: str, first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    for day in (first, last or first):
        if day.lower() not in _DAYS:
            raise ValueError(f"{text!r}: {day!r} is no day: write {', '.join(_DAYS)}")
    begin = _DAYS.index(first.lower())
    count = (_DAYS.index((last or first).lower()) - begin) % 7 + 1
    return frozenset((begin + n) % 7 for n in range(count))


def _minutes(text: str, clock: list[str]) -> tuple[int, int]:
    hours = [int(clock[0]), int(clock[2])]
    minutes = [int(clock[1]), int(clock[3])]
    begin, end = (hour * 60 + minute for hour, minute in zip(hours, minutes, strict=True))
    if max(minutes) > 59 or begin >= _DAY_MINUTES or end > _DAY_MINUTES:
        raise ValueError(f"{text!r}: there is no such time of day")
    return begin, end


def zone_of(name: str) -> tzinfo:
    """UTC is known also where no time zones are installed."""
    return UTC if name == "UTC" else ZoneInfo(name)


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _are_readable(texts: tuple[str, ...]) -> tuple[str, ...]:
    for text in texts:
        read_quiet(text)
    return texts


def _is_zone(name: str) -> str:
    try:
        zone_of(name)
    except (KeyError, ValueError, OSError) as e:  # ZoneInfoNotFoundError is a KeyError
        raise ValueError(f"{name!r} is not a time zone such as Europe/Berlin") from e
    return name


QuietTexts = Annotated[tuple[str, ...], BeforeValidator(_as_list), AfterValidator(_are_readable)]
TimeZone = Annotated[str, AfterValidator(_is_zone)]
