"""Targets from an HTTP endpoint that answers with JSON."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING, Final

from trilens.collect.discovery.base import Publish, TargetLabels, parse_target_groups
from trilens.collect.http_client import HttpClient
from trilens.model.errors import ConfigError, DiscoveryError, ScrapeError
from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    from trilens.collect.config import HttpSdConfig

log = logging.getLogger(__name__)

_TIMEOUT_S: Final = 30.0


class HttpDiscovery:
    def __init__(self, section: HttpSdConfig) -> None:
        self._section = section
        self._client = HttpClient(section)

    async def run(self, publish: Publish) -> None:
        try:
            while True:
                try:
                    publish(self._section.url, await self.fetch())
                except (ScrapeError, DiscoveryError, ConfigError) as e:
                    log.warning(
                        "target list not usable, keeping what it said before", extra={"reason": str(e)}
                    )
                await asyncio.sleep(self._section.refresh_interval.total_seconds())
        finally:
            await self.close()

    async def close(self) -> None:
        await self._client.close()

    async def fetch(self) -> list[TargetLabels]:
        url, refresh_s = self._section.url, self._section.refresh_interval.total_seconds()
        shown = without_passwords(url)
        headers = {"Accept": "application/json", "X-Prometheus-Refresh-Interval-Seconds": f"{refresh_s:g}"}
        response = await self._client.get(url, headers, timeout_s=min(_TIMEOUT_S, refresh_s))
        if response.content_type.partition(";")[0].strip().lower() != "application/json":
            raise DiscoveryError(f"{shown}: expected JSON, got {response.content_type!r}")
        try:
            return parse_target_groups(json.loads(response.body), {"__meta_url": url})
        except ValueError as e:
            raise DiscoveryError(f"{shown}: {e}") from e
        except DiscoveryError as e:
            raise DiscoveryError(f"{shown}: {e.message}") from e
