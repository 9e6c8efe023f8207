"""Moments and durations as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from trilens.model.errors import ConfigError
from trilens.settings.duration import duration_ms


def read_moment(text: str, now_s: float) -> float:
    """Seconds since the epoch from `now`, `-5m` (before now), a number, or ISO 8601 (UTC if bare)."""
    if text == "now":
        return now_s
    try:
        if text.startswith("-"):
            return now_s - duration_ms(text[1:]) / 1000
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as e:
        raise ConfigError(
            f"cannot read the time {text!r}", hint="write now, -5m, 1700000000 or 2026-01-31T12:00:00Z"
        ) from e
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def read_day_or_moment(text: str, now_s: float) -> float:
    """The same, or the beginning of today, yesterday or this month, in UTC."""
    today = datetime.fromtimestamp(now_s, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": today, "yesterday": today - timedelta(days=1), "month": today.replace(day=1)}
    if text in days:
        return days[text].timestamp()
    try:
        return read_moment(text, now_s)
    except ConfigError as e:
        raise ConfigError(e.message, hint=f"{e.hint}; today, yesterday and month are their beginnings") from e


def read_since(text: str, now_s: float) -> float:
    """A moment, or how long before now: 1h is -1h."""
    try:
        return now_s - duration_ms(text) / 1000
    except ValueError:
        return read_moment(text, now_s)


def at_parameter(text: str | None, now_s: float) -> dict[str, str]:
    """A request's `at`; none for now, of which the server knows more than of the past."""
    return {} if text is None or text == "now" else {"at": f"{read_moment(text, now_s):.3f}"}


def span_parameters(since: str, until: str, now_s: float) -> dict[str, str]:
    """A request's `from` and `to`; what is before now in `since` is before `until`."""
    until_s = read_moment(until, now_s)
    since_s = now_s if since == "now" else read_moment(since, until_s)
    if until_s < since_s:
        raise ConfigError("the last moment to ask about is before the first", where="--since")
    return {"from": f"{since_s:.3f}", "to": f"{until_s:.3f}"}


def read_step(text: str | None, start_s: float, end_s: float, points: int = 250) -> float:
    """Seconds; where none was given, about so many points, in whole seconds."""
    if text is None:
        return max(1.0, (end_s - start_s) // points)
    try:
        return float(text)
    except ValueError:
        pass
    return read_duration(text, "--step")


def read_duration(text: str, option: str) -> float:
    """Seconds."""
    try:
        return duration_ms(text) / 1000
    except ValueError as e:
        raise ConfigError(str(e), where=option) from e


def show_moment(seconds: float) -> str:
    stamp = datetime.fromtimestamp(seconds, UTC)
    return (
        stamp.strftime("%Y-%m-%dT%H:%M:%S")
        + (f".{stamp.microsecond // 1000:03}" if seconds % 1 else "")
        + "Z"
    )


def show_brief(seconds: float) -> str:
    """What may take microseconds or minutes: 5 us, 12.34 ms, 90.1 s."""
    if seconds >= 1:
        return f"{seconds:.4g} s"
    return f"{seconds * 1e3:.4g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.4g} us"


def show_length(seconds: float) -> str:
    """The two largest units: 3d 4h, 5m 6s, 7s."""
    whole = int(seconds)
    parts = [(whole // 86_400, "d"), (whole // 3_600 % 24, "h"), (whole // 60 % 60, "m"), (whole % 60, "s")]
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count}{unit}" for count, unit in parts[first : first + 2] if count) or "0s"
