"""Where everything is put together: the one place that knows every part."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from trilens.alert.manager import RuleManager
from trilens.collect.backfill import BackfillReceiver
from trilens.collect.config import load_scrape_configs, read_scrape_configs
from trilens.collect.manager import ScrapeManager
from trilens.collect.remote_write import RemoteWriteReceiver
from trilens.model.errors import ConfigError, TrilensError
from trilens.promql.engine import Engine
from trilens.serve.agent_jobs import agent_configs, jobs_of_agents
from trilens.serve.app import Embedded, Parts, build_app
from trilens.serve.backfill import BackfillApi
from trilens.serve.cluster_jobs import jobs_of_clusters, monitors_of
from trilens.serve.events import EventsApi
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.gpu_reports import AskedReports, StoredReports
from trilens.serve.gpus import GpusApi
from trilens.serve.intakes import Intakes
from trilens.serve.kube_state_presence import KubeStatePresence
from trilens.serve.lean import keep_pandas_out
from trilens.serve.output import OutputApi
from trilens.serve.own_queries import EmbeddedQueries, UpstreamQueries
from trilens.serve.probes import Probes
from trilens.serve.programs import ProgramsApi
from trilens.serve.rules import RulesApi, rule_groups, rule_metrics
from trilens.serve.runner import QueryRunner
from trilens.serve.scrape_jobs import ScrapeJobs
from trilens.serve.self_metrics import SelfMetrics
from trilens.serve.state import SystemState
from trilens.serve.status import StatusApi
from trilens.serve.targets import TargetsApi
from trilens.serve.this_machine import this_machine
from trilens.serve.workloads import WorkloadsApi
from trilens.serve.write import WriteApi
from trilens.settings.differences import differing
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.alert.evaluation import GroupState
    from trilens.alert.rule import RuleGroup
    from trilens.collect.config import ScrapeConfig
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.cluster_intake import ClusterIntake
    from trilens.serve.gpu_reports import ReportSource
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.push import SelfPush
    from trilens.serve.this_machine import ThisMachine
    from trilens.serve.upstream import Upstream
    from trilens.settings.storage import StorageSettings
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

_INTAKE_THREADS = 16  # mostly waiting for the disk; queries have their own, so neither delays the other

_RELOADABLE = ("scrape", "rules")


class System:
    """A whole server but for the socket. Made, then `start`, then `stop`; making it opens the store."""

    def __init__(self, settings: Settings, token: str | None, load: Callable[[], Settings]) -> None:
        self.settings = settings
        self._load = load
        configs = scrape_configs(settings)
        groups = rule_groups(settings)
        self.metrics = SelfMetrics()
        self.runner = QueryRunner(settings.query)
        self._intake = ThreadPoolExecutor(_INTAKE_THREADS, thread_name_prefix="intake")
        max_body = settings.server.max_body
        self.upstream = _upstream(settings)
        self._storage = open_store(settings.storage) if _keeps_anything(settings) else None
        self.store = self._storage if self.upstream is None else None
        self.scrapes = ScrapeManager(configs, self.store) if self.store is not None else None
        self._jobs = ScrapeJobs(self.scrapes, configs) if self.scrapes is not None else None
        self.rules = self._rule_manager(settings, groups)
        self._push = _self_push(settings, self.metrics)
        self._asked: AskedReports | None = None
        self.clusters = self._cluster_intake(settings)
        self._machine = self._this_machine(settings)
        self.agents = self._agent_intake(settings)
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
            self.agents,
            settings.storage.retention,
        )
        self.metrics.watch(state.metrics)
        self.metrics.watch(lambda: rule_metrics(self._rule_states()))
        if self.clusters is not None:
            self.metrics.watch_workloads(self.clusters.metrics)
        self._presence = self._kube_state_presence()
        if self.agents is not None:
            self.metrics.watch_workloads(self.agents.metrics)
        self.gpus = self._gpu_bindings()
        if self.gpus is not None:
            self.metrics.watch_workloads(self.gpus.metrics)
        records = self._storage.workloads if self._storage is not None else None
        intakes = Intakes.of(self.clusters, self.agents)
        gpu_records = self._storage.gpus if self._storage is not None else None
        events = self._storage.events if self._storage is not None else None
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
                rules=RulesApi(self._rule_states),
                programs=ProgramsApi([self.clusters] if self.clusters is not None else []),
                write=WriteApi(receiver, self._intake, max_body),
                backfill=BackfillApi(backfill, self._intake, max_body),
                workloads=WorkloadsApi(records, intakes, self.runner, max_body, gpu_records),
                gpus=GpusApi(gpu_records, records, self.gpus, intakes, self.runner, max_body),
                events=EventsApi(events, records, self.agents, self.runner, max_body),
                output=OutputApi(records, self.agents, self.runner, max_body),
            )
        )

    def _source(self) -> Embedded | Upstream:
        if self.upstream is not None:
            return self.upstream
        store = self.store
        assert store is not None
        return Embedded(lambda lookback_ms: Engine(store, lookback_ms=lookback_ms), store, store)

    def _rule_manager(self, settings: Settings, groups: list[RuleGroup]) -> RuleManager | None:
        if self.store is None:
            return None
        lookback_ms = round(settings.query.lookback_delta.total_seconds() * 1000)
        return RuleManager(groups, self.store, self.store, self.runner.guard, lookback_ms=lookback_ms)

    def _rule_states(self) -> list[GroupState]:
        return self.rules.states() if self.rules is not None else []

    def _kube_state_presence(self) -> KubeStatePresence | None:
        if self.clusters is None:
            return None
        self.metrics.kubernetes = self.clusters.kube_state.page
        return KubeStatePresence(self._own_queries(), self.clusters.kube_state)

    def _own_queries(self) -> OwnQueries:
        if self.upstream is not None:
            return UpstreamQueries(self.upstream)
        assert self.store is not None
        return EmbeddedQueries(self.store)

    def _cluster_intake(self, settings: Settings) -> ClusterIntake | None:
        if not settings.kubernetes.clusters:
            return None
        from trilens.serve.cluster_intake import ClusterIntake

        assert self._storage is not None
        try:
            monitors = monitors_of(settings, self._jobs) if self._jobs is not None else None
            return ClusterIntake(
                settings, self._storage.workloads, self.store, monitors, self._storage.events
            )
        except ConfigError:
            self._storage.close()
            raise

    def _this_machine(self, settings: Settings) -> ThisMachine | None:
        if self._storage is None:
            return None
        try:
            return this_machine(settings)
        except ConfigError:
            self._storage.close()
            raise

    def _agent_intake(self, settings: Settings) -> AgentIntake | None:
        agents = agent_configs(settings)
        if self._machine is not None:
            agents.append(self._machine.scrape_config())
        if not agents:
            return None
        from trilens.serve.agent_intake import AgentIntake

        assert self._storage is not None
        return AgentIntake(settings, agents, self._storage.workloads, self._storage.events, self.store)

    def _gpu_bindings(self) -> GpuBindings | None:
        if self._storage is None:
            return None
        reports: ReportSource
        if self.store is not None:
            reports = StoredReports(self.store)
        else:
            reports = self._asked = AskedReports(self._own_queries())
        others = (self.agents,) if self.agents is not None else ()
        return GpuBindings(self._storage.gpus, reports, self.clusters, others, self.store)

    async def start(self) -> None:
        if self.upstream is not None:
            await self.upstream.start()
        if self._jobs is not None:
            await asyncio.to_thread(self._jobs.start)
        if self.clusters is not None:
            await asyncio.to_thread(self.clusters.start)
        if self._presence is not None:
            await self._presence.start()
        if self._machine is not None:
            await asyncio.to_thread(self._machine.start)
            if self._jobs is not None:
                await asyncio.to_thread(self._jobs.found, "this machine", [self._machine.scrape_config()])
        if self.agents is not None:
            await asyncio.to_thread(self.agents.start)
        if self.gpus is not None:
            if self._asked is not None:
                self._asked.ask_in(asyncio.get_running_loop())
            await asyncio.to_thread(self.gpus.start)
        if self.rules is not None:
            self.rules.start()
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
            if self._presence is not None:
                steps.push_async_callback(self._presence.stop)
            if self.clusters is not None:
                steps.push_async_callback(asyncio.to_thread, self.clusters.stop)
            if self._machine is not None:
                steps.push_async_callback(asyncio.to_thread, self._machine.stop)
            if self.agents is not None:
                steps.push_async_callback(asyncio.to_thread, self.agents.stop)
            if self.gpus is not None:
                steps.push_async_callback(asyncio.to_thread, self.gpus.stop)
            if self._jobs is not None:
                steps.push_async_callback(asyncio.to_thread, self._jobs.stop)
            if self.rules is not None:
                steps.push_async_callback(asyncio.to_thread, self.rules.stop)

    async def reload(self) -> None:
        """Read the settings again and take over what may change while running: scraping and rules."""
        try:
            settings = await asyncio.to_thread(self._load)
            _refuse_other_changes(self.settings, settings)
            configs = await asyncio.to_thread(scrape_configs, settings)
            groups = await asyncio.to_thread(rule_groups, settings)
            if self._jobs is not None:
                await asyncio.to_thread(self._jobs.configure, configs)
            if self.rules is not None:
                await asyncio.to_thread(self.rules.reload, groups)
        except TrilensError:
            self._status.reload_succeeded = False
            raise
        self.settings = self.settings.model_copy(
            update={group: getattr(settings, group) for group in _RELOADABLE}
        )
        self._status.reload_succeeded = True
        self._status.loaded = datetime.now(UTC)
        log.info("settings reloaded", extra={"jobs": len(configs)})

    async def reload_logged(self) -> None:
        """For a signal, which has nobody to tell of an error."""
        try:
            await self.reload()
        except TrilensError as e:
            log.error("reload failed, the old settings stay", extra={"error": str(e)})


def _refuse_other_changes(now: Settings, wanted: Settings) -> None:
    """Half of a file in force would be worse than an error: who changed these expects them to count."""
    if paths := differing(now, wanted, besides=_RELOADABLE):
        raise ConfigError(
            f"{', '.join(paths)}: cannot change while the server runs; nothing was taken over",
            hint="restart it, or undo these and reload again",
        )


def _keeps_anything(settings: Settings) -> bool:
    """Samples, unless another server has them; records in any case."""
    agents = settings.agents.scrape_config or settings.agents.this_machine == "on"
    return bool(settings.source.url is None or settings.kubernetes.clusters or agents)


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
    """The jobs to scrape, from trilens.yaml itself or from the prometheus.yml it names, and what the
    settings of clusters and agents ask for."""
    scrape = settings.scrape
    if scrape.config_file is not None:
        written = read_scrape_configs(scrape.config_file, "scrape.config_file")
    else:
        written = load_scrape_configs(scrape.inline_document(), settings.base_dir, settings.scrape_place)
    found = [*written, *jobs_of_clusters(settings, written)]
    return [*found, *jobs_of_agents(settings, found)]


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
            retention_records=storage.retention_records,
            out_of_order=storage.out_of_order_time_window,
            series_in_memory=storage.series_in_memory,
            recent_bytes=int(storage.recent_memory),
            strips_bytes=int(storage.recent_memory) // 10,
            memory_bytes=int(storage.memory_limit),
        ),
        upkeep=upkeep,
    )
