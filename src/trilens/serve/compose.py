"""Where everything is put together: the one place that knows every part."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trilens.collect.backfill import BackfillReceiver
from trilens.collect.config import load_scrape_configs, read_scrape_configs
from trilens.collect.manager import ScrapeManager
from trilens.collect.remote_write import RemoteWriteReceiver
from trilens.model.errors import ConfigError, TrilensError
from trilens.promql.engine import Engine
from trilens.serve.app import Embedded, Parts, build_app
from trilens.serve.backfill import BackfillApi
from trilens.serve.lean import keep_pandas_out
from trilens.serve.probes import Probes
from trilens.serve.runner import QueryRunner
from trilens.serve.self_metrics import SelfMetrics
from trilens.serve.state import SystemState
from trilens.serve.status import StatusApi
from trilens.serve.targets import TargetsApi
from trilens.serve.workloads import WorkloadsApi
from trilens.serve.write import WriteApi
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.collect.config import ScrapeConfig
    from trilens.serve.cluster_intake import ClusterIntake
    from trilens.serve.push import SelfPush
    from trilens.serve.upstream import Upstream
    from trilens.settings.storage import StorageSettings
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

_INTAKE_THREADS = 16  # mostly waiting for the disk; queries have their own, so neither delays the other


class System:
    """A whole server but for the socket. Made, then `start`, then `stop`; making it opens the store."""

    def __init__(self, settings: Settings, token: str | None, load: Callable[[], Settings]) -> None:
        self.settings = settings
        self._load = load
        configs = scrape_configs(settings)
        self.metrics = SelfMetrics()
        self.runner = QueryRunner(settings.query)
        self._intake = ThreadPoolExecutor(_INTAKE_THREADS, thread_name_prefix="intake")
        max_body = settings.server.max_body
        self.upstream = _upstream(settings)
        self._storage = open_store(settings.storage) if _keeps_anything(settings) else None
        self.store = self._storage if self.upstream is None else None
        self.scrapes = ScrapeManager(configs, self.store) if self.store is not None else None
        self._push = _self_push(settings, self.metrics)
        self.clusters = self._cluster_intake(settings)
        receiver: RemoteWriteReceiver | None = None
        backfill: BackfillReceiver | None = None
        if self.store is not None:
            receiver = RemoteWriteReceiver(self.store)
            backfill = BackfillReceiver(self.store, settings.storage.retention)
        state = SystemState(
            self.runner,
            self.store,
            self.scrapes,
            receiver,
            self.upstream,
            self.clusters,
            settings.storage.retention,
        )
        self.metrics.watch(state.metrics)
        if self.clusters is not None:
            self.metrics.watch_workloads(self.clusters.metrics)
        self._status = StatusApi(lambda: self.settings, self.store, self.runner)
        self.app = build_app(
            Parts(
                settings=settings,
                token=token,
                source=self._source(),
                runner=self.runner,
                metrics=self.metrics,
                probes=Probes(state.readiness, self.reload, self.metrics),
                overview=state.overview,
                status=self._status,
                targets=TargetsApi(self.scrapes),
                write=WriteApi(receiver, self._intake, max_body),
                backfill=BackfillApi(backfill, self._intake, max_body),
                workloads=WorkloadsApi(
                    self._storage.workloads if self._storage is not None else None,
                    self.clusters,
                    self.runner,
                    max_body,
                ),
            )
        )

    def _source(self) -> Embedded | Upstream:
        if self.upstream is not None:
            return self.upstream
        store = self.store
        assert store is not None
        return Embedded(lambda lookback_ms: Engine(store, lookback_ms=lookback_ms), store, store)

    def _cluster_intake(self, settings: Settings) -> ClusterIntake | None:
        if not settings.kubernetes.clusters:
            return None
        from trilens.serve.cluster_intake import ClusterIntake

        assert self._storage is not None
        try:
            return ClusterIntake(settings, self._storage.workloads, self.store)
        except ConfigError:
            self._storage.close()
            raise

    async def start(self) -> None:
        if self.upstream is not None:
            await self.upstream.start()
        if self.scrapes is not None:
            await asyncio.to_thread(self.scrapes.start)
        if self.clusters is not None:
            await asyncio.to_thread(self.clusters.start)
        if self._push is not None:
            await self._push.start()

    def cancel_queries(self) -> None:
        self.runner.cancel_all()

    async def stop(self) -> None:
        """First what brings samples in, then what reads, last the store, which writes out all it has.

        The stack unwinds from its end, and goes on when a step fails: the store is closed in any case.
        """
        async with AsyncExitStack() as steps:
            if self._storage is not None:
                steps.push_async_callback(asyncio.to_thread, self._storage.close)
            steps.push_async_callback(asyncio.to_thread, self.runner.close)
            steps.push_async_callback(asyncio.to_thread, self._intake.shutdown)
            if self.upstream is not None:
                steps.push_async_callback(self.upstream.stop)
            if self._push is not None:
                steps.push_async_callback(self._push.stop)
            if self.clusters is not None:
                steps.push_async_callback(asyncio.to_thread, self.clusters.stop)
            if self.scrapes is not None:
                steps.push_async_callback(asyncio.to_thread, self.scrapes.stop)

    async def reload(self) -> None:
        """Read the settings again and take over what may change while running: the scrape configuration."""
        try:
            settings = await asyncio.to_thread(self._load)
            configs = await asyncio.to_thread(scrape_configs, settings)
            if self.scrapes is not None:
                await asyncio.to_thread(self.scrapes.reload, configs)
        except TrilensError:
            self._status.reload_succeeded = False
            raise
        self.settings = self.settings.model_copy(update={"scrape": settings.scrape})
        self._status.reload_succeeded = True
        self._status.loaded = datetime.now(UTC)
        log.info("settings reloaded", extra={"jobs": len(configs)})

    async def reload_logged(self) -> None:
        """For a signal, which has nobody to tell of an error."""
        try:
            await self.reload()
        except TrilensError as e:
            log.error("reload failed, the old settings stay", extra={"error": str(e)})


def _keeps_anything(settings: Settings) -> bool:
    """Samples, unless another server has them; records in any case."""
    return settings.source.url is None or bool(settings.kubernetes.clusters)


# Few servers have either of these, and their HTTP client takes a fifth of a second to load.


def _upstream(settings: Settings) -> Upstream | None:
    if settings.source.url is None:
        return None
    from trilens.serve.upstream import Upstream

    return Upstream(settings.source, settings.server.max_body)


def _self_push(settings: Settings, metrics: SelfMetrics) -> SelfPush | None:
    if settings.remote_write.url is None:
        return None
    from trilens.serve.push import SelfPush

    return SelfPush(settings.remote_write, metrics)


def scrape_configs(settings: Settings) -> list[ScrapeConfig]:
    """The jobs to scrape, from trilens.yaml itself or from the prometheus.yml it names."""
    file = settings.scrape.config_file
    if file is not None:
        return read_scrape_configs(file, "scrape.config_file")
    return load_scrape_configs(settings.scrape.inline_document(), settings.base_dir, settings.scrape_place)


def open_store(storage: StorageSettings, *, upkeep: bool = True) -> Store:
    keep_pandas_out()
    return Store.open(
        StoreOptions(
            data_dir=storage.data_dir,
            url=storage.url,
            username=storage.username,
            password=storage.read_password(),
            retention=storage.retention,
            retention_5m=storage.retention_5m,
            retention_1h=storage.retention_1h,
            out_of_order=storage.out_of_order_time_window,
            series_in_memory=storage.series_in_memory,
            recent_bytes=int(storage.recent_memory),
            strips_bytes=int(storage.recent_memory) // 10,
            memory_bytes=int(storage.memory_limit),
        ),
        upkeep=upkeep,
    )
