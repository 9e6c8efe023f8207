"""A discovery at work in a test: what it published last, and what it said in the log."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from watching import IMPATIENT, PATIENCE_S

from trilens.collect.config import ScrapeConfig, load_scrape_configs
from trilens.collect.discovery.kubernetes.discovery import KubernetesDiscovery

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from kubernetes_api import KubernetesServer
    from trilens.collect.discovery import TargetLabels


def config_of(server: KubernetesServer, jobs: dict[str, Any]) -> dict[str, Any]:
    """Nothing is scraped: the addresses are made up, and dropped targets show what was discovered."""
    drop = [{"action": "drop", "source_labels": ["job"]}]
    key = server.admin.certificate
    tls = {"ca_file": str(server.authority), "cert_file": f"{key}.pem", "key_file": f"{key}.key"}
    access = {"api_server": server.url, "tls_config": tls}
    sections = [
        {
            "job_name": name,
            "relabel_configs": drop,
            "kubernetes_sd_configs": [job if "kubeconfig_file" in job else {**access, **job}],
        }
        for name, job in jobs.items()
    ]
    return {"global": {"scrape_interval": "1m", "scrape_timeout": "10s"}, "scrape_configs": sections}


class Discovered:
    """What a discovery published last."""

    def __init__(self, config: ScrapeConfig) -> None:
        self.config = config
        self.by_source: dict[str, Sequence[TargetLabels]] = {}
        self._changed = asyncio.Event()

    def __call__(self, source: str, targets: Sequence[TargetLabels]) -> None:
        self.by_source[source] = targets
        self._changed.set()

    def targets(self) -> list[TargetLabels]:
        return [target for targets in self.by_source.values() for target in targets]

    def names(self) -> set[str]:
        return {target["__meta_kubernetes_pod_name"] for target in self.targets()}

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Warnings(logging.Handler):
    """What a discovery says in the log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._records: list[logging.LogRecord] = []
        self._said = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._records.append(record)
        self._said.set()

    async def until(self, condition: Callable[[logging.LogRecord], bool]) -> dict[str, Any]:
        """What the first such warning is about."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := [record for record in self._records if condition(record)]):
                self._said.clear()
                await self._said.wait()
        about = ("job", "role", "namespace", "remedy", "reason")
        return {name: value for name, value in vars(found[0]).items() if name in about}


@asynccontextmanager
async def discovering(
    server: KubernetesServer, job: dict[str, Any], name: str = "job"
) -> AsyncIterator[Discovered]:
    (config,) = load_scrape_configs(config_of(server, {name: job}), server.authority.parent)
    async with following(config) as discovered:
        yield discovered


@asynccontextmanager
async def following(config: ScrapeConfig) -> AsyncIterator[Discovered]:
    (section,) = config.kubernetes_sd_configs
    discovered = Discovered(config)
    discovery = KubernetesDiscovery(section, job=config.job_name, publish_every_s=0.01, timing=IMPATIENT)
    task = asyncio.create_task(discovery.run(discovered))
    try:
        yield discovered
    finally:
        assert not task.done(), task.exception()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
