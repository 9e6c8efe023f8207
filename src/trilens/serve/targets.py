"""/api/v1/targets."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import re2

from trilens.serve.catalog import selector_of
from trilens.serve.envelope import reply
from trilens.serve.params import read_params
from trilens.settings.duration import format_duration

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from trilens.collect.manager import ScrapeManager, TargetMetadata
    from trilens.collect.target import TargetStatus
    from trilens.model.matcher import Matcher


class TargetsApi:
    def __init__(self, scrapes: ScrapeManager | None) -> None:
        self._scrapes = scrapes

    async def targets(self, request: Request) -> Response:
        params = await read_params(request, 0)
        state, pool = params.first("state").lower(), params.first("scrapePool")
        active = self._scrapes.targets() if self._scrapes is not None else ()
        dropped = self._scrapes.dropped_targets() if self._scrapes is not None else ()
        data: dict[str, Any] = {"activeTargets": [], "droppedTargets": []}
        if state in ("", "any", "active"):
            data["activeTargets"] = [target_json(t) for t in active if pool in ("", t.job)]
        if state in ("", "any", "dropped"):
            shown = [t for t in dropped if pool in ("", t.job)]
            data["droppedTargets"] = [
                {"discoveredLabels": dict(t.discovered_labels), "scrapePool": t.job} for t in shown
            ]
            data["droppedTargetCounts"] = dict(Counter(t.job for t in shown))
        return reply(request, data)

    async def pools(self, request: Request) -> Response:
        found: set[str] = set()
        if self._scrapes is not None:
            found = {target.job for target in self._scrapes.targets()}
            found |= {target.job for target in self._scrapes.dropped_targets()}
        return reply(request, {"scrapePools": sorted(found)})

    async def metadata(self, request: Request) -> Response:
        """What each target says about its metrics, for the targets that `match_target` selects."""
        params = await read_params(request, 0)
        metric, limit = params.first("metric"), params.count("limit")
        matchers = selector_of("match_target", text) if (text := params.first("match_target")) else ()
        found = [
            _metadata_json(entry, with_name=not metric)
            for entry in (self._scrapes.target_metadata() if self._scrapes is not None else ())
            if metric in ("", entry.family.metric) and all(_matches(m, entry.target) for m in matchers)
        ]
        return reply(request, found[:limit])


def _metadata_json(entry: TargetMetadata, *, with_name: bool) -> dict[str, Any]:
    family = entry.family
    name = {"metric": family.metric} if with_name else {}
    return {
        "target": entry.target,
        **name,
        "type": family.kind,
        "help": family.help_text,
        "unit": family.unit,
    }


def _matches(matcher: Matcher, labels: dict[str, str]) -> bool:
    value = labels.get(matcher.name, "")
    if matcher.op in ("=", "!="):
        return (value == matcher.value) == (matcher.op == "=")
    return (re2.fullmatch(matcher.value, value) is not None) == (matcher.op == "=~")


def target_json(target: TargetStatus) -> dict[str, Any]:
    scraped = target.last_scrape_s
    when = datetime.fromtimestamp(scraped, UTC).isoformat() if scraped is not None else "0001-01-01T00:00:00Z"
    return {
        "discoveredLabels": dict(target.discovered_labels),
        "labels": dict(target.labels),
        "scrapePool": target.job,
        "scrapeUrl": target.scrape_url,
        "globalUrl": target.scrape_url,
        "lastError": target.last_error,
        "lastScrape": when.replace("+00:00", "Z"),
        "lastScrapeDuration": target.last_duration_s or 0,
        "health": target.health,
        "scrapeInterval": format_duration(timedelta(seconds=target.interval_s)),
        "scrapeTimeout": format_duration(timedelta(seconds=target.timeout_s)),
    }
