"""The page at `/` as HTML. Everything that is shown is escaped here and nowhere else."""

from __future__ import annotations

import time
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from trilens import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.collect.target import TargetStatus

_SHOWN = 200  # a page, not a report: the API has them all
_ORDER = ("down", "unknown", "up")  # trouble first


class Overview(NamedTuple):
    """What is running."""

    uptime_s: float
    source: str  # who answers queries, where that is another server
    notices: Sequence[str]
    facts: Sequence[tuple[str, str]]  # label, value
    targets: Sequence[TargetStatus]
    takes_writes: bool


class Asked(NamedTuple):
    query: str
    envelope: dict[str, Any]  # as /api/v1/query answers


class Visit(NamedTuple):
    """Of one request: the address that the visitor knows this server by, and what was asked."""

    url: str
    has_token: bool
    asked: Asked | None


@cache
def template_text() -> str:
    return files(__package__).joinpath("page.html").read_text(encoding="utf-8")


def render(overview: Overview, visit: Visit) -> str:
    return Template(template_text()).substitute(
        version=escape(__version__),
        uptime=_span(overview.uptime_s),
        source=escape(overview.source),
        query=escape(visit.asked.query if visit.asked is not None else ""),
        answer=_answer(visit.asked) if visit.asked is not None else "",
        notices="".join(f'<p class="notice">{escape(notice)}</p>' for notice in overview.notices),
        cards="".join(
            f'<div class="card"><b>{escape(value)}</b><span>{escape(label)}</span></div>'
            for label, value in overview.facts
        ),
        targets=_targets(overview.targets) if overview.takes_writes else "",
        connect=_connect(visit, overview.takes_writes),
    )


def _answer(asked: Asked) -> str:
    envelope = asked.envelope
    if envelope.get("status") != "success":
        return f'<p class="notice">{escape(str(envelope.get("error", "no answer")))}</p>'
    data = envelope["data"]
    kind, result = data["resultType"], data["result"]
    notes = [*envelope.get("warnings", ()), *envelope.get("infos", ())]
    shown = "".join(f"<p>{escape(str(note))}</p>" for note in notes)
    if kind in ("scalar", "string"):
        return f"{shown}<pre>{escape(str(result[1]))}</pre>"
    if not result:
        return f"{shown}<p>No series match, or none has a sample in the last minutes.</p>"
    count = f"{len(result):,} series" + (f", the first {_SHOWN} of them" if len(result) > _SHOWN else "")
    return f"{shown}<p>{count}</p>{_series_table(result[:_SHOWN])}"


def _series_table(result: Sequence[Mapping[str, Any]]) -> str:
    """What all series have in common stands above; after the value, a column for each label that differs."""
    metrics = [series["metric"] for series in result]
    first = metrics[0]
    shared = {name: v for name, v in first.items() if all(metric.get(name) == v for metric in metrics)}
    names = sorted({name for metric in metrics for name in metric} - shared.keys())
    head = '<th class="number">value</th>' + "".join(f"<th>{escape(name)}</th>" for name in names)
    rows = []
    for series in result:
        cells = "".join(f"<td>{escape(series['metric'].get(name, ''))}</td>" for name in names)
        rows.append(f'<tr><td class="number">{escape(_value_text(series))}</td>{cells}</tr>')
    above = f"<p><code>{escape(_series_text(shared))}</code></p>" if shared else ""
    return f'{above}<div class="wide"><table class="rows"><tr>{head}</tr>{"".join(rows)}</table></div>'


def _value_text(series: Mapping[str, Any]) -> str:
    """Another server may answer with native histograms, which have no place in a cell: said, not shown."""
    if "value" in series:
        return str(series["value"][1])
    if "histogram" in series:
        return "a native histogram"
    samples, histograms = len(series.get("values", ())), len(series.get("histograms", ()))
    if not histograms:
        return f"{samples:,} samples"
    told = f"{histograms:,} native histograms"
    return f"{samples:,} samples, {told}" if samples else told


def _series_text(metric: Mapping[str, str]) -> str:
    name = metric.get("__name__", "")
    labels = ", ".join(f'{key}="{value}"' for key, value in metric.items() if key != "__name__")
    return f"{name}{{{labels}}}" if labels or not name else name


def _targets(targets: Sequence[TargetStatus]) -> str:
    if not targets:
        return (
            "<h2>Targets</h2><p>Nothing is scraped. Add a <code>scrape</code> section to trilens.yaml, or "
            "send metrics here as below.</p>"
        )
    now = time.time()
    troubled_first = sorted(targets, key=lambda t: (_ORDER.index(t.health), t.job, t.scrape_url))
    rows = "".join(_target_row(target, now) for target in troubled_first[:_SHOWN])
    more = f"<p>{len(targets) - _SHOWN:,} more.</p>" if len(targets) > _SHOWN else ""
    head = "<tr><th>job</th><th>target</th><th>state</th><th class='soft'>last scrape</th></tr>"
    return f'<h2>Targets</h2><div class="wide"><table>{head}{rows}</table></div>{more}'


def _target_row(target: TargetStatus, now: float) -> str:
    state = "waiting" if target.health == "unknown" else target.health
    if target.last_scrape_s is None or target.last_duration_s is None:
        last = "not yet"
    else:
        ago = _span(max(0.0, now - target.last_scrape_s))
        last = f"{ago} ago, in {target.last_duration_s * 1000:,.0f} ms"
    error = f'<div class="down">{escape(target.last_error)}</div>' if target.last_error else ""
    return (
        f"<tr><td>{escape(target.job)}</td><td><code>{escape(target.scrape_url)}</code>{error}</td>"
        f'<td class="{state}">{state}</td><td class="soft">{last}</td></tr>'
    )


def _connect(visit: Visit, takes_writes: bool) -> str:
    """What to paste where, with the address that the visitor came by."""
    cards = []
    if takes_writes:
        snippet = f"remote_write:\n  - url: {visit.url}/api/v1/write"
        if visit.has_token:
            snippet += "\n    authorization: {credentials: YOUR-TOKEN}"
        cards.append(("Send metrics here, from a prometheus.yml", snippet, ""))
    login = "Basic auth: any user, and the token as password." if visit.has_token else "No login."
    cards.append(("Read metrics: a Grafana data source of the type Prometheus", visit.url, login))
    return "".join(
        f'<div class="card"><span>{title}</span><pre>{escape(text)}</pre><span>{note}</span></div>'
        for title, text, note in cards
    )


def _span(seconds: float) -> str:
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86_400)
    if days:
        return f"{days} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{int(seconds)} s"


def bytes_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1024
    return f"{count:,.1f} TiB"
