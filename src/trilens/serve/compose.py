"""Where everything is put together: the one place that knows every part."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from trilens.alert.manager import RuleManager
from trilens.collect.backfill import BackfillReceiver
from trilens.collect.manager import ScrapeManager
from trilens.collect.remote_write import RemoteWriteReceiver
from trilens.collect.runs.intake import RunIntake
from trilens.ledger.prices.book import price_book
from trilens.model.ledger_sums import Sharing
from trilens.promql.engine import Engine
from trilens.serve.agent_jobs import agent_configs
from trilens.serve.app import Embedded, Parts, build_app
from trilens.serve.backfill import BackfillApi
from trilens.serve.cluster_jobs import monitors_of
from trilens.serve.events import EventsApi
from trilens.serve.experiments import ExperimentsApi
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.gpu_reports import AskedReports, StoredReports
from trilens.serve.gpus import GpusApi
from trilens.serve.intakes import Intakes
from trilens.serve.kube_state_presence import KubeStatePresence
from trilens.serve.lineage import LineageApi
from trilens.serve.money.cost import CostApi, CostRules
from trilens.serve.money.cost_metrics import CostMetrics
from trilens.serve.money.cost_units import CostUnitsApi
from trilens.serve.money.focus import FocusApi
from trilens.serve.money.imports import ImportsApi
from trilens.serve.money.ledger import LedgerApi
from trilens.serve.money.ledger_keeper import LedgerKeeper
from trilens.serve.money.ledger_signals import LedgerSignals
from trilens.serve.money.opencost import OpenCostApi
from trilens.serve.money.prices import PricesApi
from trilens.serve.otlp import OtlpApi
from trilens.serve.otlp_intake import OtlpIntake
from trilens.serve.output import OutputApi
from trilens.serve.own_queries import EmbeddedQueries, UpstreamQueries
from trilens.serve.probes import Probes
from trilens.serve.programs import ProgramsApi
from trilens.serve.reloading import Followers, Reloading
from trilens.serve.rules import RulesApi, rule_groups, rule_metrics
from trilens.serve.run_programs import RunPrograms
from trilens.serve.run_traces import RunTracesApi
from trilens.serve.runner import QueryRunner
from trilens.serve.runs import RunsApi
from trilens.serve.runs_intake import RunRecordsApi
from trilens.serve.scrape_global import scrape_global
from trilens.serve.scrape_jobs import ScrapeJobs, scrape_configs
from trilens.serve.self_metrics import SelfMetrics
from trilens.serve.serving_programs import HeartbeatApi, ServingPrograms
from trilens.serve.state import SystemState
from trilens.serve.state_metrics import ledger_metrics, run_metrics
from trilens.serve.status import StatusApi
from trilens.serve.storage import open_store
from trilens.serve.targets import TargetsApi
from trilens.serve.this_machine import this_machine
from trilens.serve.tracker_figures import RunFigures
from trilens.serve.tracker_readers import follow_trackers, names_trackers
from trilens.serve.trackers import stop_all
from trilens.serve.trackers_api import TrackersApi
from trilens.serve.workloads import WorkloadsApi
from trilens.serve.write import WriteApi

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp

    from trilens.alert.evaluation import GroupState
    from trilens.alert.rule import RuleGroup
    from trilens.collect.config import ScrapeConfig
    from trilens.ledger.prices.book import Prices
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.cluster_intake import ClusterIntake
    from trilens.serve.gpu_reports import ReportSource
    from trilens.serve.otlp_export import OtlpExport
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.push import SelfPush
    from trilens.serve.scraped_elsewhere import ScrapedPrograms
    from trilens.serve.trackers import Following
    from trilens.serve.upstream import Upstream
    from trilens.settings.tree import Settings

_INTAKE_THREADS = 16  # mostly waiting for the disk; queries have their own, so neither delays the other


class System:
    """A whole server but for the socket. Made, then `start`, then `stop`; making it opens the store."""

    def __init__(self, settings: Settings, token: str | None, load: Callable[[], Settings]) -> None:
        configs, groups = scrape_configs(settings), rule_groups(settings)  # what may be wrong comes first
        self.prices = price_book(settings.prices.file)
        self.metrics = SelfMetrics()
        self.runner = QueryRunner(settings.query)
        self._intake = ThreadPoolExecutor(_INTAKE_THREADS, thread_name_prefix="intake")
        self.upstream = _upstream(settings)
        # Records in any case: programs tell of their runs whoever has the samples.
        self._storage = open_store(settings.storage)
        self.store = self._storage if self.upstream is None else None
        try:
            self._make_parts(settings, configs, groups)
            self.reloading = Reloading(
                settings, load, Followers(self._jobs, self.rules, self._monitors, self._use_prices)
            )
            self.app = self._make_app(settings, token)
        except BaseException:
            self._storage.close()
            raise

    def _make_parts(self, settings: Settings, configs: list[ScrapeConfig], groups: list[RuleGroup]) -> None:
        self.scrapes = ScrapeManager(configs, self.store) if self.store is not None else None
        self._jobs = ScrapeJobs(self.scrapes, configs) if self.scrapes is not None else None
        self.rules = self._rule_manager(settings, groups)
        self._push = _self_push(settings, self.metrics)
        self._asked: AskedReports | None = None
        self._monitors = monitors_of(settings, self._jobs) if self._jobs is not None else None
        self.clusters = self._cluster_intake(settings)
        self._presence = self._kube_state_presence()
        self._machine = this_machine(settings)
        self.agents = self._agent_intake(settings)
        self.gpus = self._gpu_bindings()
        self._export = _otlp_export(settings, self.metrics)
        on_kept = self._export.offer if self._export is not None else None
        self.runs = RunIntake(self._storage.runs, on_kept=on_kept)
        self._programs = self._run_programs(settings)
        self._serving = ServingPrograms(self._scraped_programs(settings))
        self._figures = RunFigures(self._storage.runs, self._own_queries(), self._storage.ledger)
        self.trackers = self._followed_trackers(settings)
        self._signals = LedgerSignals(self._own_queries())
        self._costs = CostMetrics(self._storage.ledger, lambda: self._cost_rules().budgets, self.store)
        self.ledger = self._ledger_keeper(settings)
        for part in (self.clusters, self.agents, self.gpus, self._programs, self._costs):
            if part is not None:
                self.metrics.watch_workloads(part.metrics)

    def _make_app(self, settings: Settings, token: str | None) -> ASGIApp:
        max_body = settings.server.max_body
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
            self.ledger,
        )
        self.metrics.watch(state.metrics)
        self.metrics.watch(lambda: rule_metrics(self._rule_states()))
        otlp = OtlpIntake(self.store, self.runs, self._storage.runs)
        self.metrics.watch(otlp.own_metrics)
        self.metrics.watch(lambda: run_metrics(self.runs))
        self.metrics.watch(lambda: ledger_metrics(self.ledger))
        kept = self._storage
        intakes = Intakes.of(self.clusters, self.agents)
        return build_app(
            Parts(
                settings=settings,
                token=token,
                source=self._source(),
                runner=self.runner,
                metrics=self.metrics,
                probes=Probes(state.readiness, self.reloading.reload, self.metrics),
                overview=state.overview,
                status=StatusApi(lambda: self.reloading.in_force, self.store, self.runner),
                targets=TargetsApi(self.scrapes),
                rules=RulesApi(self._rule_states),
                programs=ProgramsApi(
                    [one for one in (self._programs, self.clusters, self._serving) if one is not None]
                ),
                heartbeats=HeartbeatApi(self._serving),
                write=WriteApi(receiver, self._intake, max_body),
                run_records=RunRecordsApi(self.runs, self._intake, max_body),
                otlp=OtlpApi(otlp.metrics, otlp.traces, self._intake, max_body),
                backfill=BackfillApi(backfill, self._intake, max_body),
                imports=ImportsApi(
                    kept.imports,
                    self.ledger.imported,
                    settings.storage.retention_ledger,
                    self._intake,
                    max_body,
                ),
                workloads=WorkloadsApi(
                    kept.workloads, intakes, self.runner, max_body, kept.gpus, self.gpus, kept.ledger
                ),
                gpus=GpusApi(kept.gpus, kept.workloads, self.gpus, intakes, self.runner, max_body),
                events=EventsApi(kept.events, kept.workloads, self.agents, self.runner, max_body),
                output=OutputApi(kept.workloads, self.agents, self.runner, max_body),
                runs=RunsApi(kept.runs, kept.workloads, self.runner, max_body, kept.ledger),
                lineage=LineageApi(kept.runs, self.runner, max_body),
                run_traces=RunTracesApi(kept.runs, self.runner),
                experiments=ExperimentsApi(
                    kept.runs,
                    kept.tracked_runs,
                    self.runner,
                    max_body,
                    kept.ledger,
                    self._figures.utilization,
                ),
                trackers=TrackersApi(self.trackers),
                ledger=LedgerApi(kept.ledger, self.ledger, self.runner, max_body),
                cost=CostApi(kept.ledger, kept.ledger_facts, self._cost_rules, self.runner, max_body),
                focus=FocusApi(kept.ledger, self.runner, max_body),
                cost_units=CostUnitsApi(
                    kept.ledger, kept.ledger_facts, self._signals, kept.runs, self.runner, max_body
                ),
                prices=PricesApi(lambda: self.prices, max_body),
                opencost=OpenCostApi(kept.ledger, self.runner, max_body),
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

        kept = self._storage
        return ClusterIntake(settings, kept.workloads, self.store, self._monitors, kept.events)

    def _agent_intake(self, settings: Settings) -> AgentIntake | None:
        agents = agent_configs(settings)
        if self._machine is not None:
            agents.append(self._machine.scrape_config())
        if not agents:
            return None
        from trilens.serve.agent_intake import AgentIntake

        kept = self._storage
        return AgentIntake(settings, agents, kept.workloads, kept.events, kept.gpus, self.store)

    def _followed_trackers(self, settings: Settings) -> list[Following]:
        if not names_trackers(settings):
            return []
        return follow_trackers(settings, self._storage.tracked_runs, self.store, self._figures.of)

    def _gpu_bindings(self) -> GpuBindings:
        reports: ReportSource
        if self.store is not None:
            reports = StoredReports(self.store)
        else:
            reports = self._asked = AskedReports(self._own_queries())
        others = (self.agents,) if self.agents is not None else ()
        kept = self._storage
        return GpuBindings(kept.gpus, reports, self.clusters, others, self.store, kept.machines)

    def _run_programs(self, settings: Settings) -> RunPrograms:
        scraped = self._scraped_programs(settings)
        return RunPrograms(self.runs, self._storage.runs, self._storage.workloads, self.store, scraped)

    def _cost_rules(self) -> CostRules:
        settings = self.reloading.in_force.settings
        return CostRules(Sharing(settings.ledger.share_fleet), settings.budgets.limits)

    def _use_prices(self, prices: Prices) -> None:
        self.prices = prices
        self.ledger.use_prices(prices)

    def _ledger_keeper(self, settings: Settings) -> LedgerKeeper:
        kept, storage = self._storage, settings.storage
        return LedgerKeeper(
            kept.ledger_facts,
            self._signals,
            kept.ledger,
            self.prices,
            kept_for=min(storage.retention_records, storage.retention_steps, storage.retention_ledger),
            booked_for=storage.retention_ledger,
            late=kept.ledger_facts,
            imports=kept.imports,
            on_booked=self._costs.tell,
        )

    def _scraped_programs(self, settings: Settings) -> ScrapedPrograms | None:
        if self.scrapes is None or self._jobs is None:
            return None
        return self.scrapes, self._jobs, scrape_global(settings)

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
        if self._asked is not None:
            self._asked.ask_in(asyncio.get_running_loop())
        await asyncio.to_thread(self.gpus.start)
        await asyncio.to_thread(self.runs.start)
        await asyncio.to_thread(self._programs.start)
        self._serving.start()
        self._figures.ask_in(asyncio.get_running_loop())
        for tracker in self.trackers:
            await asyncio.to_thread(tracker.start)
        self._signals.ask_in(asyncio.get_running_loop())
        self.ledger.start()
        if self.rules is not None:
            self.rules.start()
        if self._push is not None:
            await self._push.start()
        if self._export is not None:
            await self._export.start()

    def cancel_queries(self) -> None:
        self.runner.cancel_all()

    async def stop(self) -> None:
        """First what brings samples in, then what reads, last the store, which writes out all it has.

        The stack unwinds from its end, and goes on when a step fails: the store is closed in any case.
        """
        async with AsyncExitStack() as steps:
            steps.push_async_callback(asyncio.to_thread, self._storage.close)
            steps.push_async_callback(asyncio.to_thread, self.runner.close)
            steps.push_async_callback(asyncio.to_thread, self._intake.shutdown)
            if self._export is not None:
                steps.push_async_callback(self._export.stop)
            steps.push_async_callback(asyncio.to_thread, self.runs.stop)
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
            steps.push_async_callback(asyncio.to_thread, self.gpus.stop)
            if self.trackers:
                steps.push_async_callback(asyncio.to_thread, stop_all, self.trackers)
            if self._jobs is not None:
                steps.push_async_callback(asyncio.to_thread, self._jobs.stop)
            steps.push_async_callback(asyncio.to_thread, self._programs.stop)
            steps.push_async_callback(asyncio.to_thread, self.ledger.stop)
            steps.push_async_callback(asyncio.to_thread, self._serving.stop)
            if self.rules is not None:
                steps.push_async_callback(asyncio.to_thread, self.rules.stop)


# Few servers have any of these, and their HTTP client takes a fifth of a second to load.


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


def _otlp_export(settings: Settings, metrics: SelfMetrics) -> OtlpExport | None:
    if settings.otlp.url is None:
        return None
    from trilens.serve.otlp_export import OtlpExport

    export = OtlpExport(settings.otlp)
    metrics.watch(export.metrics)
    return export
