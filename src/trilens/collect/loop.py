"""One target's life: wait for its moment, scrape, append, again; at the end, mark its series stale."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trilens.collect.ingest import Batch, TargetIngest, join
from trilens.collect.target import Health, Target, TargetStatus
from trilens.model.errors import ConfigError, IntakeError, ScrapeError, StoreError
from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    from trilens.collect.appender import Appender
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.exposition import FamilyMetadata
    from trilens.collect.http_client import HttpClient
    from trilens.model.series import Handles

log = logging.getLogger(__name__)

_OPENMETRICS: Final = "application/openmetrics-text"
_TEXT: Final = "text/plain"
_ACCEPT: Final = {
    "OpenMetricsText1.0.0": f"{_OPENMETRICS};version=1.0.0",
    "OpenMetricsText0.0.1": f"{_OPENMETRICS};version=0.0.1",
    "PrometheusText1.0.0": f"{_TEXT};version=1.0.0",
    "PrometheusText0.0.4": f"{_TEXT};version=0.0.4",
}


@dataclass(frozen=True, slots=True)
class Timing:
    seed: str
    tolerance_s: float  # how far a scrape may be from its tick and still carry the tick's time


class ScrapeLoop:
    def __init__(
        self,
        target: Target,
        config: ScrapeConfig,
        client: HttpClient,
        appender: Appender,
        timing: Timing,
    ) -> None:
        self.target = target
        self.metadata: dict[str, FamilyMetadata] = {}
        self.forced_error: str | None = None  # set when the job as a whole is over a limit
        self._config = config
        self._client = client
        self._appender = appender
        self._stats = appender.stats
        self._timing = timing
        self._ingest = TargetIngest(config, target.labels, appender.sink)
        self._headers = _headers(config, target.timeout_s)
        self._stopped = False
        self._wake: asyncio.Future[None] | None = None  # while it waits
        self.next_tick = 0.0  # on the event loop's clock
        self.busy = False
        self._health: Health = "unknown"
        self._last_error = ""
        self._last_scrape_s: float | None = None
        self._last_duration_s: float | None = None

    def living(self) -> Handles:
        return self._ingest.living()

    def status(self) -> TargetStatus:
        target = self.target
        return TargetStatus(
            job=target.job,
            labels=dict(target.labels),
            discovered_labels=dict(target.discovered),
            scrape_url=target.shown_url,
            health=self._health,
            last_error=self._last_error,
            last_scrape_s=self._last_scrape_s,
            last_duration_s=self._last_duration_s,
            interval_s=target.interval_s,
            timeout_s=target.timeout_s,
        )

    def fault(self, error: BaseException) -> None:
        """Scraping ended by a defect of ours: say so where people look."""
        self._health, self._last_error = "down", without_passwords(f"scraping stopped: {error!r}")

    def stop(self) -> None:
        """End after the scrape that may be under way."""
        self._stopped = True
        _wake(self._wake)

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        now_ms = _now_ms()
        wait_ms = self.target.wait_ms(self._timing.seed, now_ms)
        self.next_tick, aligned_ms = clock() + wait_ms / 1000, now_ms + wait_ms
        while not await self._stopped_before(self.next_tick):
            aligned_ms, t_ms = align(
                aligned_ms, _now_ms(), self.target.interval_ms, self._timing.tolerance_s * 1000
            )
            await self._scrape(t_ms)
            self.next_tick += self.target.interval_s
            missed = max(0, int((clock() - self.next_tick) // self.target.interval_s))
            self._stats.missed_ticks += missed
            self.next_tick += missed * self.target.interval_s

    async def _stopped_before(self, tick: float) -> bool:
        """A plain future and a timer: a timeout that expires costs an exception, at every scrape."""
        if not self._stopped:
            loop = asyncio.get_running_loop()
            self._wake = loop.create_future()
            timer = loop.call_at(tick, _wake, self._wake)
            try:
                await self._wake
            finally:
                timer.cancel()
                self._wake = None
        return self._stopped

    async def _scrape(self, t_ms: int) -> None:
        started = time.perf_counter()
        self.busy = True
        batches: list[Batch] = []
        try:
            batches, scraped, kept, added = await self._fetch(t_ms)
            if self._health == "down":
                log.info("target is up again", extra={"url": self.target.shown_url})
            self._health, self._last_error, up = "up", "", 1.0
        except (IntakeError, ConfigError, StoreError) as e:
            self._stats.failures += 1
            if self._health != "down":  # said once, not at every scrape
                log.warning("target is down", extra={"url": self.target.shown_url, "reason": str(e)})
            batches = [self._appender.stale(self._ingest.fail(), t_ms)]
            self._health, self._last_error, up = "down", str(e), 0.0
            scraped = kept = added = 0
        finally:
            self.busy = False
        self._last_duration_s = time.perf_counter() - started
        self._last_scrape_s = t_ms / 1000
        self._stats.scrapes += 1
        batches.append(self._ingest.report(t_ms, (up, self._last_duration_s, scraped, kept, added)))
        self._append(join(batches))

    async def _fetch(self, t_ms: int) -> tuple[list[Batch], int, int, int]:
        if self.forced_error is not None:
            raise ScrapeError(self.forced_error)
        config = self._config
        response = await self._client.get(
            self.target.url,
            self._headers,
            timeout_s=self.target.timeout_s,
            body_limit=config.body_size_limit,
            gzip=config.enable_compression,
        )
        self._stats.body_bytes += len(response.body)
        openmetrics = _is_openmetrics(response.content_type, config.fallback_scrape_protocol)
        found = self._ingest.read(response.body, openmetrics=openmetrics, t_ms=t_ms)
        self._describe(found.families)
        self._stats.samples_scraped += found.scraped
        self._stats.samples_too_far_ahead += found.too_far_ahead
        return [found.batch, self._appender.stale(found.stale, t_ms)], found.scraped, found.kept, found.added

    def _append(self, batch: Batch) -> None:
        error = self._appender.append(batch)
        if error is not None:
            self._last_error = str(error)

    def _describe(self, families: tuple[FamilyMetadata, ...]) -> None:
        for family in families:
            if self.metadata.get(family.metric) != family:
                self.metadata[family.metric] = family
                self._appender.sink.describe(family.metric, family.kind, family.help_text, family.unit)


def align(aligned_ms: int, now_ms: int, interval_ms: int, tolerance_ms: float) -> tuple[int, int]:
    """(the tick nearest to now, the time that the scrape's samples carry), from an earlier tick.

    Samples that lie exactly one interval apart compress far better than those that jitter. A scrape that is
    further than the tolerance from its tick keeps its own time.
    """
    aligned_ms += max(0, round((now_ms - aligned_ms) / interval_ms)) * interval_ms
    near = abs(now_ms - aligned_ms) <= min(tolerance_ms, interval_ms / 100)
    return aligned_ms, aligned_ms if near else now_ms


def _wake(waiting: asyncio.Future[None] | None) -> None:
    if waiting is not None and not waiting.done():
        waiting.set_result(None)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _headers(config: ScrapeConfig, timeout_s: float) -> dict[str, str]:
    wanted = [_ACCEPT[protocol] for protocol in config.scrape_protocols if protocol in _ACCEPT]
    escaping = f";escaping={config.metric_name_escaping_scheme}"
    weighted = [
        f"{kind}{escaping if kind.endswith('1.0.0') else ''};q=0.{9 - i}" for i, kind in enumerate(wanted)
    ]
    return {
        "Accept": ",".join([*weighted, "*/*;q=0.1"]),
        "X-Prometheus-Scrape-Timeout-Seconds": f"{timeout_s:g}",
    }


def _is_openmetrics(content_type: str, fallback: str | None) -> bool:
    """A type that is neither is the fallback, or Prometheus text: an exporter without a type is still one."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in (_OPENMETRICS, _TEXT) and fallback is not None:
        return fallback.startswith("OpenMetrics")
    return kind == _OPENMETRICS
