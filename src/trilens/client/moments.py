"""Times as people write them in a notebook: a datetime, seconds, `now`, `-5m`, ISO 8601."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TypeAlias

from trilens.model.errors import RequestError
from trilens.settings.duration import duration_ms

Moment: TypeAlias = datetime | float | str

_HINT = 'write "-5m", "2026-01-31T12:00:00Z", a datetime or Unix seconds'


def seconds_of(moment: Moment, now_s: float) -> float:
    """Since the epoch; without a time zone it is UTC."""
    if isinstance(moment, int | float):
        return float(moment)
    if isinstance(moment, str):
        if moment == "now":
            return now_s
        if moment.startswith("-"):
            return now_s - length_s(moment[1:])
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError as e:
            raise RequestError(f"cannot read the time {moment!r}", hint=_HINT) from e
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def length_s(length: float | str) -> float:
    """Seconds, of a number of these or of `15s`, `12h`, `7d`."""
    if isinstance(length, int | float):
        return float(length)
    try:
        return duration_ms(length) / 1000
    except ValueError as e:
        raise RequestError(str(e)) from e


def moment_at(at: Moment | None, now_s: float) -> dict[str, str]:
    """A request's `at`; none for now, of which the server knows more than of the past."""
    return {} if at is None or at == "now" else {"at": f"{seconds_of(at, now_s):.3f}"}


def span(last: float | str | None, start: Moment | None, end: Moment | None, now_s: float) -> dict[str, str]:
    """The parameters `from` and `to` of a request; none of what was not given."""
    if last is not None and start is not None:
        raise RequestError("last and start both say when it begins", hint="give one of them")
    found = {}
    end_s = seconds_of(end, now_s) if end is not None else now_s
    if last is not None:
        found["from"] = f"{end_s - length_s(last):.3f}"
    if start is not None:
        found["from"] = f"{seconds_of(start, now_s):.3f}"
    if end is not None:
        found["to"] = f"{end_s:.3f}"
    return found
