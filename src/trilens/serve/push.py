"""Trilens's own series, sent to a server by remote write."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

import aiohttp

from trilens import __version__
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.errors import ConfigError
from trilens.model.labels import METRIC_NAME, Labels, make_labels
from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trilens.serve.self_metrics import SelfMetrics
    from trilens.settings.endpoint import RemoteWriteSettings

log = logging.getLogger(__name__)


class SelfPush:
    """A loop that sends all own metrics every `interval`; a failure is logged once until it works again."""

    def __init__(self, settings: RemoteWriteSettings, metrics: SelfMetrics) -> None:
        self._settings = settings
        self._shown_url = without_passwords(settings.url or "")
        self._metrics = metrics
        self._task: asyncio.Task[None] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._failing = False

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout.total_seconds()),
            connector=aiohttp.TCPConnector(ssl=self._settings.tls()),
        )
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Send a last time, so that the end of this process is seen up to its end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self._send()
        if self._session is not None:
            await self._session.close()

    async def _run(self) -> None:
        while True:
            await self._send()
            await asyncio.sleep(self._settings.interval.total_seconds())

    async def _send(self) -> None:
        assert self._session is not None
        assert self._settings.url is not None
        body = encode(rows_of(self._metrics, self._settings.labels, int(time.time() * 1000)))
        try:
            headers = {
                **self._settings.request_headers(),
                **HEADERS,
                "User-Agent": f"trilens/{__version__}",
            }
            async with self._session.post(self._settings.url, data=body, headers=headers) as answer:
                if answer.status >= 300:
                    text = (await answer.text(errors="replace"))[:200].strip()
                    self._failed(f"HTTP {answer.status}: {text}")
                    return
        except (aiohttp.ClientError, TimeoutError, ConfigError) as e:  # a secret's file may be gone
            self._failed(without_passwords(str(e)) or type(e).__name__)
            return
        if self._failing:
            log.info("own series are sent again", extra={"url": self._shown_url})
        self._failing = False

    def _failed(self, reason: str) -> None:
        if not self._failing:
            log.warning("cannot send own series", extra={"url": self._shown_url, "error": reason})
        self._failing = True


def rows_of(metrics: SelfMetrics, extra: Mapping[str, str], t_ms: int) -> Iterable[tuple[Labels, int, float]]:
    for family in metrics.collect():
        for sample in family.samples:
            yield make_labels({**extra, **sample.labels, METRIC_NAME: sample.name}), t_ms, sample.value
