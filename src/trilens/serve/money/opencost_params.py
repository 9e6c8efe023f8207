"""What OpenCost's clients ask, read as OpenCost reads it: windows, sets, properties, filters."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.answers.opencost import IdleRule, Property, Shown
from trilens.model.errors import RequestError
from trilens.model.ledger_sums import Dimension

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.serve.params import Params

_UNIT: Final = {
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_DURATION: Final = re.compile(r"(\d{1,6})([mhdw])")
_OFFSET: Final = re.compile(r"(\d{1,6})([mhdw]) offset (\d{1,6})([mhdw])")
_SECONDS: Final = re.compile(r"(\d{1,11})[,-](\d{1,11})")
_FILTER: Final = re.compile(r'\s*([A-Za-z]+(?:\[[^\]]+\])?)\s*:\s*("[^"]*"(?:\s*,\s*"[^"]*")*)\s*')
_MOST_SETS: Final = 750  # a month by the hour

_PLAIN: Final = {
    "cluster": Dimension.CLUSTER,
    "node": Dimension.NODE,
    "namespace": Dimension.NAMESPACE,
    "team": Dimension.TEAM,
    "department": Dimension.COST_CENTRE,
}
# What Trilens knows of a workload stands where OpenCost has a pod's labels, whose - it writes as _.
_LABELS: Final = {
    "team": Dimension.TEAM,
    "cost_center": Dimension.COST_CENTRE,
    "cost_centre": Dimension.COST_CENTRE,
    "experiment": Dimension.EXPERIMENT,
    "queue": Dimension.QUEUE,
    "run": Dimension.RUN,
    "gpu_model": Dimension.GPU_MODEL,
    "purchase": Dimension.PURCHASE,
    "region": Dimension.REGION,
    "bucket": Dimension.BUCKET,
}
_KINDS: Final = ("deployment", "statefulset", "daemonset", "job")
_DEFAULT: Final = "cluster,node,namespace,controller"
_TRUE: Final = ("true", "1", "t", "yes")
_FALSE: Final = ("", "false", "0", "f", "no")


class Span(NamedTuple):
    start: datetime
    end: datetime

    @property
    def ms(self) -> tuple[int, int]:
        return round(self.start.timestamp() * 1000), round(self.end.timestamp() * 1000)


def read_window(params: Params, now: datetime) -> Span:
    """The whole hours that the window touches: the ledger has no shorter ones."""
    text = params.first("window").strip()
    if not text:
        raise RequestError("Invalid 'window' parameter: it is missing; write 7d, today or lastweek")
    try:
        span = _named(text, now) or _lasting(text, now) or _pair(text)
    except (ValueError, OverflowError) as e:
        raise RequestError(f"Invalid 'window' parameter: illegal window: {text}") from e
    if span is None:
        raise RequestError(f"Invalid 'window' parameter: illegal window: {text}")
    if span.start >= span.end:
        raise RequestError(f"Invalid 'window' parameter: {text} does not begin before it ends")
    hour = _UNIT["h"]
    end = _begun(span.end, hour)
    return Span(_begun(span.start, hour), end if end == span.end else end + hour)


def _named(text: str, now: datetime) -> Span | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    day = timedelta(days=1)
    sunday = today - day * (today.isoweekday() % 7)  # OpenCost's weeks begin on Sundays
    first = today.replace(day=1)
    return {
        "today": Span(today, today + day),
        "yesterday": Span(today - day, today),
        "week": Span(sunday, now),
        "lastweek": Span(sunday - 7 * day, sunday),
        "month": Span(first, now),
        "lastmonth": Span((first - day).replace(day=1), first),
    }.get(text)


def _lasting(text: str, now: datetime) -> Span | None:
    """The last so many of a unit are whole ones, with the one that has begun; a week ends with today."""
    if match := _DURATION.fullmatch(text):
        unit = _UNIT[match[2]]
        end = _begun(now, min(unit, _UNIT["d"])) + min(unit, _UNIT["d"])
        return Span(end - int(match[1]) * unit, end)
    if match := _OFFSET.fullmatch(text):
        end = now - int(match[3]) * _UNIT[match[4]]
        return Span(end - int(match[1]) * _UNIT[match[2]], end)
    return None


def _begun(now: datetime, unit: timedelta) -> datetime:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + (now - epoch) // unit * unit


def _pair(text: str) -> Span | None:
    if match := _SECONDS.fullmatch(text):
        return Span(*(datetime.fromtimestamp(int(one), UTC) for one in match.groups()))
    start, comma, end = text.partition(",")
    if not comma:
        return None
    moments = [datetime.fromisoformat(one.strip()) for one in (start, end)]
    if any(one.tzinfo is None for one in moments):
        raise ValueError("without a zone")
    return Span(*(one.astimezone(UTC) for one in moments))


def read_sets(params: Params, span: Span) -> list[Span]:
    """The spans that are answered one by one: the whole window unless `step` or `accumulate` says more."""
    accumulate = (params.first("accumulateBy") or params.first("accumulate")).strip().lower()
    if accumulate in (*_TRUE, "all"):
        return [span]
    if accumulate in ("hour", "day", "week", "month", "quarter"):
        return _bounded(_calendar(span, accumulate))
    if accumulate not in (*_FALSE, "none"):
        raise RequestError(f"Invalid 'accumulate' parameter: {accumulate}")
    step = _step(params.first("step").strip().lower())
    return _bounded(_steps(span, step)) if step is not None else [span]


def _step(text: str) -> timedelta | None:
    if not text:
        return None
    words = {"hour": _UNIT["h"], "day": _UNIT["d"], "week": _UNIT["w"]}
    match = _DURATION.fullmatch(text)
    step = words.get(text) or (int(match[1]) * _UNIT[match[2]] if match else None)
    if step is None:
        raise RequestError(f"Invalid step parameter: invalid step {text!r}")
    if not step or step % _UNIT["h"]:
        raise RequestError(f"Invalid step parameter: {text}: the ledger has whole hours")
    return step


def _bounded(spans: Iterator[Span]) -> list[Span]:
    found: list[Span] = []
    for span in spans:
        if len(found) == _MOST_SETS:
            raise RequestError(f"Invalid step parameter: more than {_MOST_SETS} sets; take longer steps")
        found.append(span)
    return found


def _steps(span: Span, step: timedelta) -> Iterator[Span]:
    start = span.start
    while start < span.end:
        yield Span(start, min(start + step, span.end))
        start += step


def _calendar(span: Span, unit: str) -> Iterator[Span]:
    """Whole units that the window touches, as OpenCost accumulates, cut to the window."""
    start = span.start
    while start < span.end:
        end = _next(start, unit)
        yield Span(start, min(end, span.end))
        start = end


def _next(moment: datetime, unit: str) -> datetime:
    if unit == "hour":
        return _begun(moment, _UNIT["h"]) + _UNIT["h"]
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit == "day":
        return day + _UNIT["d"]
    if unit == "week":
        return day + timedelta(days=7 - day.isoweekday() % 7)
    months = 1 if unit == "month" else 3
    count = day.year * 12 + (day.month - 1) // months * months + months
    return day.replace(year=count // 12, month=count % 12 + 1, day=1)


def read_properties(params: Params) -> list[Property]:
    asked = params.first("aggregate").strip() or _DEFAULT
    if asked.lower() == "all":
        return []
    found = [_property(one.strip()) for one in asked.split(",") if one.strip()]
    return [*dict.fromkeys(found)]


def _property(text: str) -> Property:
    name = text.lower()
    if name in _PLAIN:
        return Property(name, _PLAIN[name])
    if name == "controller":
        return Property("controller", Dimension.WORKLOAD, Shown.CONTROLLER)
    if name == "controllerkind":
        return Property("controllerKind", Dimension.WORKLOAD, Shown.KIND)
    if name in _KINDS:
        return Property(name, Dimension.WORKLOAD, Shown.NAME, name)
    label = name.removeprefix("label:").replace("-", "_")
    if name.startswith("label:") and label in _LABELS:
        return Property(f"label:{label}", _LABELS[label])
    known = [*_PLAIN, "controller", "controllerKind", *_KINDS, *(f"label:{one}" for one in _LABELS)]
    raise RequestError(
        f"Invalid 'aggregate' parameter: {text}: the ledger books workloads, not pods or their labels",
        hint=f"take {', '.join(known)}",
    )


def read_idle(params: Params) -> IdleRule:
    share = params.first("shareIdle").strip().lower()
    if share not in (*_TRUE, *_FALSE, "weighted"):
        raise RequestError(f"Invalid 'shareIdle' parameter: {share}: true or false")
    return IdleRule(
        _is_true(params, "includeIdle"), _is_true(params, "idleByNode"), share in (*_TRUE, "weighted")
    )


def _is_true(params: Params, name: str) -> bool:
    text = params.first(name).strip().lower()
    if text not in (*_TRUE, *_FALSE):
        raise RequestError(f"Invalid '{name}' parameter: {text}: true or false")
    return text in _TRUE


def read_filter(params: Params) -> dict[Dimension, tuple[str | None, ...]]:
    """`namespace:"a","b"+cluster:"c"`: any of the values, all of the properties."""
    kept: dict[Dimension, tuple[str | None, ...]] = {}
    for part in _parts(params.first("filter").strip()):
        match = _FILTER.fullmatch(part)
        dimension = _filtered(match[1]) if match else None
        if match is None or dimension is None or dimension in kept:
            known = [*_PLAIN, "controllerName", *(f"label[{one}]" for one in _LABELS)]
            raise RequestError(
                f"Invalid filter: {part}", hint=f'PROPERTY:"VALUE" joined by +, of {", ".join(known)}'
            )
        kept[dimension] = tuple(re.findall(r'"([^"]*)"', match[2]))
    return kept


def _parts(text: str) -> list[str]:
    """At each + outside of quotes. What is not such a list is a part that no filter is."""
    parts = re.findall(r'(?:[^"+]|"[^"]*")+', text)
    return parts if "+".join(parts) == text else [text]


def _filtered(name: str) -> Dimension | None:
    if name.lower() in _PLAIN:
        return _PLAIN[name.lower()]
    if name.lower() in ("controllername", "controller"):
        return Dimension.WORKLOAD
    if name.lower().startswith("label["):
        return _LABELS.get(name[6:-1].replace("-", "_").lower())
    return None
