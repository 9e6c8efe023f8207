"""When and where a kernel line was written, by what stands before it: of dmesg, journal, syslog, kmsg."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

_KMSG: Final = re.compile(r"\d+,\d+,(?P<us>\d+),[^;]*;")
_ISO: Final = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d+))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_DMESG: Final = re.compile(r"\[(?:\w{3} )?(?P<stamp>\w{3} +\d+ \d\d:\d\d:\d\d \d{4})\]")
_SYSLOG: Final = re.compile(r"(?P<stamp>[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d)(?:\.\d+)? ")
_HOST: Final = re.compile(r"(?P<host>[\w.:-]+) kernel(?:\[\d+\])?(?::| -)")
_SINCE_BOOT: Final = re.compile(r"\[ *(?P<s>\d+\.\d{3,})\]")
_DAY: Final = timedelta(days=1)


class Stamp(NamedTuple):
    t_ms: int | None  # time of day
    up_ms: int | None  # since the machine was started
    host: str
    has_zone: bool  # else the time is the machine's own, taken for UTC


def read_stamp(before: str, now_ms: int) -> Stamp:
    """`before` is the line up to the driver's own words. What has no year is of the last twelve months."""
    host = _HOST.search(before)
    up = _SINCE_BOOT.search(before)
    up_ms = round(float(up["s"]) * 1000) if up else None
    if kmsg := _KMSG.match(before):
        up_ms = int(kmsg["us"]) // 1000
    t_ms, has_zone = _time_of_day(before, now_ms)
    return Stamp(t_ms, up_ms, host["host"] if host else "", has_zone)


def _time_of_day(before: str, now_ms: int) -> tuple[int | None, bool]:
    try:
        if found := _ISO.search(before):
            part = (found["part"] or "0")[:6]
            read = datetime.fromisoformat(
                f"{found['date']}T{found['clock']}.{part:0<6}{found['zone'] or 'Z'}"
            )
            return _ms(read), found["zone"] is not None
        if found := _DMESG.search(before):
            words = " ".join(found["stamp"].split())
            return _ms(datetime.strptime(words, "%b %d %H:%M:%S %Y").replace(tzinfo=UTC)), False
        if found := _SYSLOG.search(before):
            return _without_year(" ".join(found["stamp"].split()), now_ms), False
    except ValueError:
        pass  # looked like a date, and is none
    return None, False


def _without_year(words: str, now_ms: int) -> int:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    read = datetime.strptime(f"{now.year} {words}", "%Y %b %d %H:%M:%S").replace(tzinfo=UTC)
    if read - now > _DAY:  # December, read in January
        read = read.replace(year=now.year - 1)
    return _ms(read)


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
