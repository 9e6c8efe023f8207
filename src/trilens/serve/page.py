"""The page at `/`: what is running, in plain HTML."""

from __future__ import annotations

import time
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from trilens import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.collect.target import TargetStatus

_SHOWN = 200  # a page, not a report: the API has them all
_ORDER = ("down", "unknown", "up")  # trouble first


class Overview(NamedTuple):
    uptime_s: float
    source: str
    notices: Sequence[str]
    facts: Sequence[tuple[str, str]]  # label, value
    targets: Sequence[TargetStatus]


def render(overview: Overview) -> str:
    template = Template(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        version=escape(__version__),
        uptime=_span(overview.uptime_s),
        source=escape(overview.source),
        notices="".join(f'<p class="notice">{escape(notice)}</p>' for notice in overview.notices),
        cards="".join(
            f'<div class="card"><b>{escape(value)}</b><span>{escape(label)}</span></div>'
            for label, value in overview.facts
        ),
        targets=_targets(overview.targets),
    )


def _targets(targets: Sequence[TargetStatus]) -> str:
    if not targets:
        return ""
    now = time.time()
    troubled_first = sorted(targets, key=lambda t: (_ORDER.index(t.health), t.job, t.scrape_url))
    rows = "".join(_target_row(target, now) for target in troubled_first[:_SHOWN])
    more = f"<p>{len(targets) - _SHOWN:,} more.</p>" if len(targets) > _SHOWN else ""
    head = "<tr><th>job</th><th>target</th><th>state</th><th>last scrape</th></tr>"
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
        f'<td class="{state}">{state}</td><td>{last}</td></tr>'
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
