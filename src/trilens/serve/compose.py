"""Where everything is put together: the one place that knows every part."""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from trilens.alert.delivery.plan import plan_of
from trilens.alert.incidents.incidents import Incidents
from trilens.alert.manager import RuleManager
from trilens.alert.templates.expand import External
from trilens.collect.backfill import BackfillReceiver
from trilens.collect.manager import ScrapeManager
from trilens.collect.remote_write import RemoteWriteReceiver
from trilens.collect.runs.intake import RunIntake
from trilens.detect.detectors import all_detectors
from trilens.detect.records import RankRecords
from trilens.detect.watch import Watch
from trilens.ledger.prices.book import price_book
from trilens.model.ledger_sums import Sharing
from trilens.promql.engine import Engine
from trilens.serve.agent_jobs import agent_configs
from trilens.serve.app import Embedded, Parts, build_app
from trilens.serve.backfill import BackfillApi
from trilens.serve.cases.about import NoObjects
from trilens.serve.cases.cases_api import CasesApi
from trilens.serve.cases.gathering import Cases
from trilens.serve.cases.records import CaseRecords
from trilens.serve.cases.run_records import CaseRuns
from trilens.serve.cases.subjects import Subjects
from trilens.serve.cluster_jobs import monitors_of
from trilens.serve.delivery import FILE, DeliveryKeeper
from trilens.serve.delivery_apis import DeliveryApis
from trilens.serve.detection.asked import Asked
from trilens.serve.detection.findings import FindingsApi
from trilens.serve.detection.gpu_window import GpuWindow
from trilens.serve.detection.keeper import DetectionKeeper
from trilens.serve.detection.places import GpusSeen
from trilens.serve.detection.scenes import Scenes, Sources
from trilens.serve.detection.scraped_ranks import ScrapedRanks
from trilens.serve.events import EventsApi
from trilens.serve.experiments import ExperimentsApi
from trilens.serve.fleet_apis import FleetApis
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.gpu_reports import AskedReports, StoredReports
from trilens.serve.gpus import GpusApi
from trilens.serve.incidents.alerts_elsewhere import AlertsElsewhere
from trilens.serve.incidents.incidents_api import IncidentsApi
from trilens.serve.incidents.keeper import IncidentKeeper
from trilens.serve.incidents.workload_costs import WorkloadCosts
from trilens.serve.intake_apis import IntakeApis
from trilens.serve.intakes import Intakes
from trilens.serve.kube_state_presence import KubeStatePresence
from trilens.serve.lineage import LineageApi
from trilens.serve.money.apis import MoneyApis
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
from trilens.serve.prometheus_apis import PrometheusApis
from trilens.serve.questions import Questions
from trilens.serve.reloading import Followers, Reloading
from trilens.serve.rule_sight import RuleSight
from trilens.serve.rules import RulesApi, active_alerts, readable_rules, rule_metrics
from trilens.serve.run_apis import RunApis
from trilens.serve.run_programs import RunPrograms
from trilens.serve.run_traces import RunTracesApi
from trilens.serve.run_verdicts import RunVerdicts
from trilens.serve.runner import QueryRunner
from trilens.serve.runs import RunsApi
from trilens.serve.runs_intake import RunRecordsApi
from trilens.serve.scrape_global import external_labels, scrape_global
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
    from collections.abc import Callable, Iterator, Sequence

    from starlette.types import ASGIApp

    from trilens.alert.evaluation import GroupState
    from trilens.alert.rule_file import RuleFile
    from trilens.collect.config import ScrapeConfig
    from trilens.ledger.prices.book import Prices
    from trilens.model.alert import Alert
    from trilens.model.incident import Incident
    from trilens.model.run_commit import RunCommit
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.cases.about import ObjectSource
    from trilens.serve.cluster_intake import ClusterIntake
    from trilens.serve.gpu_reports import ReportSource
    from trilens.serve.otlp_export import OtlpExport
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.push import SelfPush
    from trilens.serve.scraped_elsewhere import ScrapedPrograms
    from trilens.serve.trackers import Following
    from trilens.serve.upstream import Upstream
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

_KEPT_S = 5.0  # nobody is told later than that because the disk is full
_INTAKE_THREADS = 16  # mostly waiting for the disk; queries have their own, so neither delays the other


class System:
    """A whole server but for the socket. Made, then `start`, then `stop`; making it opens the store."""

    def __init__(self, settings: Settings, token: str | None, load: Callable[[], Settings]) -> None:
        configs, rules = scrape_configs(settings), readable_rules(settings)  # what may be wrong comes first
        plan = plan_of(settings, external_labels(settings))
        self.prices = price_book(settings.prices.file)
        self.metrics = SelfMetrics()
        self.runner = QueryRunner(settings.query)
        self._intake = ThreadPoolExecutor(_INTAKE_THREADS, thread_name_prefix="intake")
        self.upstream = _upstream(settings)
        # Records in any case: programs tell of their runs whoever has the samples.
        self._storage = open_store(settings.storage)
        self.store = self._storage if self.upstream is None else None
        try:
            self.delivery = DeliveryKeeper(plan, settings.storage.data_dir / FILE)
            self._make_parts(settings, configs, rules)
            self.reloading = Reloading(
                settings,
                load,
                Followers(self._jobs, self.rules, self._monitors, self._use_prices, self.delivery.configure),
            )
            self.app = self._make_app(settings, token)
        except BaseException:
            self._storage.close()
            raise

    def _make_parts(self, settings: Settings, configs: list[ScrapeConfig], rules: RuleFile) -> None:
        self.scrapes = ScrapeManager(configs, self.store) if self.store is not None else None
        self._jobs = ScrapeJobs(self.scrapes, configs) if self.scrapes is not None else None
        self._alert_takers: list[Callable[[Sequence[Alert]], None]] = [self.delivery.take_alerts]
        self.rules = self._rule_manager(settings, rules)
        self._sight = RuleSight(lambda: [state.group for state in self._rule_states()], self.store)
        self._push = _self_push(settings, self.metrics)
        self._asked: AskedReports | None = None
        self._monitors = monitors_of(settings, self._jobs) if self._jobs is not None else None
        self.clusters = self._cluster_intake(settings)
        self._presence = self._kube_state_presence()
        self._machine = this_machine(settings)
        self.agents = self._agent_intake(settings)
        self.gpus = self._gpu_bindings()
        self._export = _otlp_export(settings, self.metrics)
        self._rank_records = RankRecords()
        self.runs = RunIntake(self._storage.runs, on_kept=self._run_records_kept)
        self._programs = self._run_programs(settings)
        self._serving = ServingPrograms(self._scraped_programs(settings))
        self._signals = LedgerSignals(self._own_queries())
        self._costs = CostMetrics(self._storage.ledger, self._cost_rules, self.store)
        self.ledger = self._ledger_keeper(settings)
        self._asked_now = Asked(self._own_queries())
        self.detection = self._detection_keeper()
        self.incidents = self._incident_keeper()
        self.cases = self._cases(settings)
        self._verdicts = RunVerdicts(self.cases, self._storage.workloads, lambda: self.detection.state.open)
        self._figures = RunFigures(
            self._storage.runs, self._own_queries(), self._storage.ledger, self._verdicts.of
        )
        self.trackers = self._followed_trackers(settings)
        self._alerts_elsewhere = (
            AlertsElsewhere(self.upstream, self.incidents.take_alerts) if self.upstream is not None else None
        )
        told = (
            self.clusters,
            self.agents,
            self.gpus,
            self._programs,
            self._costs,
            self._sight,
            self.detection,
        )
        for part in told:
            if part is not None:
                self.metrics.watch_workloads(part.metrics)

    def _make_app(self, settings: Settings, token: str | None) -> ASGIApp:
        receiver = RemoteWriteReceiver(self.store) if self.store is not None else None
        otlp = OtlpIntake(self.store, self.runs, self._storage.runs)
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
            rules=self.rules,
        )
        self.metrics.watch(state.metrics)
        self.metrics.watch(lambda: rule_metrics(self._rule_states()))
        self.metrics.watch(otlp.own_metrics)
        self.metrics.watch(lambda: run_metrics(self.runs))
        self.metrics.watch(lambda: ledger_metrics(self.ledger))
        self.metrics.watch(self.detection.own_metrics)
        self.metrics.watch(self.incidents.own_metrics)
        self.metrics.watch(self.delivery.metrics)
        questions = Questions(self.runner, settings.server.max_body)
        return build_app(
            Parts(
                settings=settings,
                token=token,
                source=self._source(),
                runner=self.runner,
                metrics=self.metrics,
                probes=Probes(state.readiness, self.reloading.reload, self.metrics),
                overview=state.overview,
                prometheus=self._prometheus_apis(),
                intake=self._intake_apis(settings, receiver, otlp),
                fleet=self._fleet_apis(questions),
                runs=self._run_apis(questions),
                money=self._money_apis(questions),
                delivery=DeliveryApis(self.delivery, questions),
            )
        )

    def _prometheus_apis(self) -> PrometheusApis:
        programs = (self._programs, self.clusters, self._serving)
        return PrometheusApis(
            TargetsApi(self.scrapes),
            ProgramsApi([one for one in programs if one is not None]),
            RulesApi(self._rule_states, self._sight.blind),
            StatusApi(lambda: self.reloading.in_force, self.store, self.runner),
        )

    def _intake_apis(
        self, settings: Settings, receiver: RemoteWriteReceiver | None, otlp: OtlpIntake
    ) -> IntakeApis:
        threads, max_body, storage = self._intake, settings.server.max_body, settings.storage
        backfill = BackfillReceiver(self.store, storage.retention) if self.store is not None else None
        return IntakeApis(
            WriteApi(receiver, threads, max_body),
            RunRecordsApi(self.runs, threads, max_body),
            HeartbeatApi(self._serving),
            OtlpApi(otlp.metrics, otlp.traces, threads, max_body),
            BackfillApi(backfill, threads, max_body),
            ImportsApi(
                self._storage.imports, self.ledger.imported, storage.retention_ledger, threads, max_body
            ),
        )

    def _fleet_apis(self, questions: Questions) -> FleetApis:
        kept, intakes = self._storage, Intakes.of(self.clusters, self.agents)
        return FleetApis(
            WorkloadsApi(kept.workloads, kept.gpus, self.gpus, kept.ledger, intakes, questions),
            GpusApi(kept.gpus, kept.workloads, self.gpus, intakes, questions),
            EventsApi(kept.events, kept.workloads, self.agents, questions),
            OutputApi(kept.workloads, self.agents, questions),
            FindingsApi(lambda: self.detection.state, kept.findings, questions),
            IncidentsApi(self.incidents, kept.incidents, self.delivery, questions),
            CasesApi(self.cases, questions),
        )

    def _run_apis(self, questions: Questions) -> RunApis:
        kept, utilization = self._storage, self._figures.utilization
        return RunApis(
            RunsApi(kept.runs, kept.workloads, kept.ledger, questions),
            LineageApi(kept.runs, questions),
            RunTracesApi(kept.runs, questions),
            ExperimentsApi(kept.runs, kept.tracked_runs, kept.ledger, utilization, questions),
            TrackersApi(self.trackers),
        )

    def _money_apis(self, questions: Questions) -> MoneyApis:
        kept, book = self._storage, self._storage.ledger
        return MoneyApis(
            LedgerApi(book, self.ledger, questions),
            CostApi(book, kept.ledger_facts, self._cost_rules, questions),
            FocusApi(book, questions),
            CostUnitsApi(book, kept.ledger_facts, self._signals, kept.runs, questions),
            PricesApi(lambda: self.prices, kept.machines, questions),
            OpenCostApi(book, questions),
        )

    def _source(self) -> Embedded | Upstream:
        if self.upstream is not None:
            return self.upstream
        store = self.store
        assert store is not None
        return Embedded(lambda lookback_ms: Engine(store, lookback_ms=lookback_ms), store, store)

    def _rule_manager(self, settings: Settings, rules: RuleFile) -> RuleManager | None:
        if self.store is None:
            return None
        for trouble in rules.troubles:
            log.error("rules were left out", extra={"error": str(trouble)})
        return RuleManager(
            rules.groups,
            self.store,
            self.store,
            self.runner.guard,
            lookback_ms=round(settings.query.lookback_delta.total_seconds() * 1000),
            external=External(settings.server.links_begin, external_labels(settings)),
            unread=rules.troubles,
            on_alerts=self._told_of_alerts,
        )

    def _told_of_alerts(self, alerts: Sequence[Alert]) -> None:
        """In a thread that evaluates rules."""
        for take in self._alert_takers:
            take(alerts)

    def _told_of_incidents(self, incidents: Sequence[Incident]) -> None:
        """Kept before anybody is told: after a kill, it must be known what they were told of."""
        if not self._storage.records_settled(_KEPT_S):
            log.warning("incidents are told of that are not on disk yet")
        self.delivery.take(incidents)

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

    def _run_records_kept(self, commit: RunCommit) -> None:
        self._rank_records.take(commit, time.time_ns() // 1_000_000)
        if self._export is not None:
            self._export.offer(commit)

    def _detection_keeper(self) -> DetectionKeeper:
        asked, kept = self._asked_now, self._storage
        window = GpuWindow(asked) if self.store is not None else GpuWindow(asked, history=60, again=6)
        sources = Sources(
            window,
            ScrapedRanks(asked),
            self._rank_records,
            self.runs,
            kept.runs,
            self._programs.members,
            lambda: GpusSeen(self.gpus.now.gpus, self.gpus.held, self.gpus.now.told.reports),
            kept.events,
            self._serving.programs,
            self.clusters,
            self.agents,
        )
        return DetectionKeeper(Scenes(sources), Watch(all_detectors()), kept.findings, self.store)

    def _incident_keeper(self) -> IncidentKeeper:
        kept = self._storage
        costs = WorkloadCosts(lambda: self.prices, kept.machines, lambda: self.gpus.held)
        keeper = IncidentKeeper(Incidents(costs), kept.incidents, costs)
        self._alert_takers.append(keeper.take_alerts)
        self.detection.listen(keeper.take_look)
        self.detection.listen(lambda _scene, changes: self.ledger.found([*changes.opened, *changes.ended]))
        keeper.listen(self._told_of_incidents)
        self.delivery.listen(keeper.notified)
        self.delivery.ask(keeper.open)
        return keeper

    def _cases(self, settings: Settings) -> Cases:
        kept = self._storage
        return Cases(
            Subjects(kept.workloads, kept.gpus, self._nodes_now),
            CaseRecords(kept.workloads, kept.gpus, kept.events, kept.findings),
            CaseRuns(kept.runs, kept.workloads),
            self._case_objects(settings),
            self._own_queries(),
            self.agents,
            lambda: self.scrapes.targets() if self.scrapes is not None else (),
            lambda: active_alerts(self._rule_states()),
        )

    def _case_objects(self, settings: Settings) -> ObjectSource:
        if self.clusters is None:
            return NoObjects()
        from trilens.serve.cases.objects import CaseObjects

        return CaseObjects(settings.kubernetes, settings.base_dir, self.clusters)

    def _nodes_now(self) -> Iterator[tuple[str, str]]:
        for state in self.clusters.present() if self.clusters is not None else ():
            yield from ((state.cluster, node.node) for node in state.nodes)

    def _cost_rules(self) -> CostRules:
        settings = self.reloading.in_force.settings
        sharing = Sharing(settings.ledger.share_fleet)
        return CostRules(sharing, settings.budgets.limits, self.prices.exchange_rate)

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
        self._verdicts.ask_in(asyncio.get_running_loop())
        for tracker in self.trackers:
            await asyncio.to_thread(tracker.start)
        self._signals.ask_in(asyncio.get_running_loop())
        self._asked_now.ask_in(asyncio.get_running_loop())
        self.delivery.start()
        self.incidents.start()
        if self._alerts_elsewhere is not None:
            await self._alerts_elsewhere.start()
        self.detection.start()
        self.ledger.start()
        if self.rules is not None:
            self.rules.start()
        self._sight.start()
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
            steps.push_async_callback(asyncio.to_thread, self.delivery.stop)
            steps.push_async_callback(asyncio.to_thread, self.incidents.stop)
            steps.push_async_callback(asyncio.to_thread, self.runner.close)
            steps.push_async_callback(asyncio.to_thread, self._intake.shutdown)
            steps.push_async_callback(self.cases.objects.close)
            if self._export is not None:
                steps.push_async_callback(self._export.stop)
            steps.push_async_callback(asyncio.to_thread, self.runs.stop)
            if self.upstream is not None:
                steps.push_async_callback(self.upstream.stop)
            if self._alerts_elsewhere is not None:
                steps.push_async_callback(self._alerts_elsewhere.stop)
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
            steps.push_async_callback(asyncio.to_thread, self.detection.stop)
            steps.push_async_callback(asyncio.to_thread, self._serving.stop)
            steps.push_async_callback(asyncio.to_thread, self._sight.stop)
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
