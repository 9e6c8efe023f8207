"""Where everything is put together: the one place that knows every part."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from trilens.alert.delivery.plan import plan_of
from trilens.alert.incidents.incidents import Incidents
from trilens.alert.manager import RuleManager
from trilens.alert.templates.expand import External
from trilens.collect.manager import ScrapeManager
from trilens.collect.runs.intake import RunIntake
from trilens.detect.detectors import all_detectors
from trilens.detect.records import RankRecords
from trilens.detect.watch import Watch
from trilens.ledger.prices.book import price_book
from trilens.model.ledger_sums import Sharing
from trilens.serve.access.build import AccessKeeper
from trilens.serve.access.told_addresses import PodAddresses, ToldAddresses
from trilens.serve.agent_jobs import agent_configs
from trilens.serve.apis import app_of
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.backup_keeper import BackupKeeper
from trilens.serve.cases.about import NoObjects
from trilens.serve.cases.gathering import Cases
from trilens.serve.cases.records import CaseRecords
from trilens.serve.cases.run_records import CaseRuns
from trilens.serve.cases.subjects import Subjects
from trilens.serve.cases.watched_subjects import WatchedSubjects
from trilens.serve.cluster_jobs import monitors_of
from trilens.serve.delivery import FILE, DeliveryKeeper
from trilens.serve.detection.asked import Asked
from trilens.serve.detection.gpu_window import GpuWindow
from trilens.serve.detection.keeper import DetectionKeeper
from trilens.serve.detection.places import GpusSeen
from trilens.serve.detection.scenes import Scenes, Sources
from trilens.serve.detection.scraped_ranks import ScrapedRanks
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.gpu_reports import AskedReports, StoredReports
from trilens.serve.incidents.alerts_elsewhere import AlertsElsewhere
from trilens.serve.incidents.incidents_api import find_incident
from trilens.serve.incidents.keeper import IncidentKeeper
from trilens.serve.incidents.workload_costs import WorkloadCosts
from trilens.serve.kube_state_presence import KubeStatePresence
from trilens.serve.life import Life, Step, in_thread, looped, threaded
from trilens.serve.money.cost import CostRules
from trilens.serve.money.cost_metrics import CostMetrics
from trilens.serve.money.ledger_keeper import LedgerKeeper
from trilens.serve.money.ledger_signals import LedgerSignals
from trilens.serve.own_queries import EmbeddedQueries, UpstreamQueries
from trilens.serve.pages.fleet_machines import KnownMachines
from trilens.serve.pages.fleet_scene import KeptScene
from trilens.serve.pages.workload_table_money import WorkloadMoney
from trilens.serve.questions import clock_ms
from trilens.serve.reloading import Followers, Reloading
from trilens.serve.rule_sight import RuleSight
from trilens.serve.rules import active_alerts, readable_rules
from trilens.serve.rules_elsewhere import RulesElsewhere
from trilens.serve.run_programs import RunPrograms
from trilens.serve.run_verdicts import RunVerdicts
from trilens.serve.runner import QueryRunner
from trilens.serve.scrape_global import external_labels, scrape_global
from trilens.serve.scrape_jobs import ScrapeJobs, scrape_configs
from trilens.serve.self_metrics import SelfMetrics
from trilens.serve.self_series import SelfSeries, scrapes_itself
from trilens.serve.serving_programs import ServingPrograms
from trilens.serve.standing_faults import StandingFaults
from trilens.serve.storage import open_store
from trilens.serve.this_machine import this_machine
from trilens.serve.tracker_figures import RunFigures
from trilens.serve.tracker_readers import follow_trackers, names_trackers
from trilens.serve.trackers import stop_all
from trilens.settings.cure import read_policy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trilens.alert.evaluation import GroupState
    from trilens.alert.rule_file import RuleFile
    from trilens.collect.config import ScrapeConfig
    from trilens.ledger.prices.book import Prices
    from trilens.model.alert import Alert
    from trilens.model.incident import Incident
    from trilens.model.run_commit import RunCommit
    from trilens.model.workload import PodKey
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.cases.about import ObjectSource
    from trilens.serve.cluster_intake import ClusterIntake
    from trilens.serve.cure.keeper import CureKeeper
    from trilens.serve.gpu_reports import ReportSource
    from trilens.serve.otlp_export import OtlpExport
    from trilens.serve.own_queries import OwnQueries
    from trilens.serve.push import SelfPush
    from trilens.serve.scraped_elsewhere import ScrapedPrograms
    from trilens.serve.trackers import Following
    from trilens.serve.upstream import Upstream
    from trilens.settings.cure import CurePolicy
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

_KEPT_S = 5.0  # nobody is told later than that because the disk is full
_ANSWERED_S = 5.0  # when the server stops: its own queries take milliseconds
_PAGE_QUERIES = 2  # of what a page shows, side by side
_INTAKE_THREADS = 16  # mostly waiting for the disk; queries have their own, so neither delays the other


class System:
    """A whole server but for the socket. Made, then `start`, then `stop`; making it opens the store."""

    def __init__(
        self,
        settings: Settings,
        token: str | None,
        load: Callable[[], Settings],
        leads: Callable[[], bool] | None = None,
    ) -> None:
        """`leads`, of several servers: whether this one may still write and tell (serve/replicas)."""
        configs, rules = scrape_configs(settings), readable_rules(settings)  # what may be wrong comes first
        policy = read_policy(settings.cure)
        plan = plan_of(settings, external_labels(settings))
        self.prices = price_book(settings.prices.file)
        self.metrics = SelfMetrics()
        self.runner = QueryRunner(settings.query)
        self.intake_threads = ThreadPoolExecutor(_INTAKE_THREADS, thread_name_prefix="intake")
        self.upstream = _upstream(settings)
        # Records in any case: programs tell of their runs whoever has the samples.
        self.kept = open_store(settings.storage, may_write=leads)
        self.store = self.kept if self.upstream is None else None
        try:
            file = settings.storage.data_dir / FILE
            self.delivery = (
                DeliveryKeeper(plan, file)
                if leads is None
                else DeliveryKeeper(plan, file, mirror=self.kept.notifications, may_tell=leads)
            )
            make = partial(self.kept.back_up, {FILE: self.delivery.copy_to})
            self.backups = BackupKeeper(make, settings.storage)
            self.access = AccessKeeper(settings, token, self.kept.tokens, self.kept.audit)
            self._make_parts(settings, configs, rules, policy)
            self.reloading = Reloading(
                settings,
                load,
                Followers(
                    self._jobs,
                    self.rules,
                    self._monitors,
                    self._use_prices,
                    self.delivery.configure,
                    self.cure.use_policy if self.cure is not None else None,
                    self.access.use,
                ),
            )
            self.app = app_of(self, settings)
            self._life = self._in_order()
        except BaseException:
            self.kept.close()
            raise

    def _make_parts(
        self,
        settings: Settings,
        configs: list[ScrapeConfig],
        rules: RuleFile,
        policy: CurePolicy | None,
    ) -> None:
        self.scrapes = ScrapeManager(configs, self.store) if self.store is not None else None
        self._jobs = ScrapeJobs(self.scrapes, configs) if self.scrapes is not None else None
        self._alert_takers: list[Callable[[Sequence[Alert]], None]] = [self.delivery.take_alerts]
        self.rules = self._rule_manager(settings, rules)
        self.sight = self._rule_sight()
        self.rules_elsewhere = RulesElsewhere(self.upstream) if self.upstream is not None else None
        self._push = _self_push(settings, self.metrics)
        self._own_series = self._self_series(settings)
        self._asked: AskedReports | None = None
        self._monitors = monitors_of(settings, self._jobs) if self._jobs is not None else None
        self.clusters = self._cluster_intake(settings)
        self._presence = self._kube_state_presence()
        self._machine = this_machine(settings)
        self.agents = self._agent_intake(settings)
        self.gpus = self._gpu_bindings()
        kept = self.kept
        self.machines = KnownMachines(kept.machines)
        self.faults = StandingFaults(kept.findings, kept.events, kept.gpus, self.machines, kept.ledger)
        self._export = _otlp_export(settings, self.metrics)
        self._rank_records = RankRecords()
        self.runs = RunIntake(self.kept.runs, on_kept=self._run_records_kept)
        self._pod_addresses = PodAddresses(self._addresses_of_pods)
        self.told_addresses = ToldAddresses(settings, self._pod_addresses)
        self.programs = self._run_programs(settings)
        self.serving = ServingPrograms(self._scraped_programs(settings))
        self.signals = LedgerSignals(self._own_queries())
        self._costs = CostMetrics(self.kept.ledger, self.cost_rules, self.store)
        self.workload_money = WorkloadMoney(self.kept.ledger, lambda: self.prices.currency, clock_ms)
        self.ledger = self._ledger_keeper(settings)
        self.queries = self._own_queries(at_once=_PAGE_QUERIES)
        self._asked_now = Asked(self._own_queries())
        self.detection = self._detection_keeper()
        self.scene = KeptScene()
        self.detection.listen(self.scene.take)
        # What every viewer shares is made before anybody asks: apis.py says by whom.
        self.when_booked: list[Callable[[int], None]] = []
        self.when_begun: list[Callable[[AskedLoop], None]] = []
        self._loop: AskedLoop | None = None
        self.incidents = self._incident_keeper()
        self.cases = self._cases(settings)
        self.cure = self._cure_keeper(settings, policy)
        self._verdicts = RunVerdicts(self.cases, self.kept.workloads, lambda: self.detection.state.open)
        self.figures = RunFigures(
            self.kept.runs,
            self._own_queries(),
            self.kept.ledger,
            self._verdicts.of,
            of_both=bool(self.access.access.doors),  # where nobody is asked, everybody may do everything
        )
        self.trackers = self._followed_trackers(settings)
        self._alerts_elsewhere = (
            AlertsElsewhere(self.upstream, self.incidents.take_alerts) if self.upstream is not None else None
        )
        told = (
            self.clusters,
            self.agents,
            self.gpus,
            self.programs,
            self._costs,
            self.sight,
            self.rules_elsewhere,
            self.detection,
        )
        for part in told:
            if part is not None:
                self.metrics.watch_workloads(part.metrics)

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

    def _self_series(self, settings: Settings) -> SelfSeries | None:
        if self.store is None or self.scrapes is None:  # whoever has the samples scrapes this server
            return None
        scrapes, port = self.scrapes, settings.server.address[1]
        return SelfSeries(
            self.metrics,
            self.store,
            f"{socket.gethostname()}:{port}",
            lambda: scrapes_itself(scrapes.targets(), port),
        )

    def _told_of_alerts(self, alerts: Sequence[Alert]) -> None:
        """In a thread that evaluates rules."""
        for take in self._alert_takers:
            take(alerts)

    def _told_of_incidents(self, incidents: Sequence[Incident]) -> None:
        """Kept before anybody is told: after a kill, it must be known what they were told of."""
        if not self.kept.records_settled(_KEPT_S):
            log.warning("incidents are told of that are not on disk yet")
        self.delivery.take(incidents)

    def _rule_sight(self) -> RuleSight | None:
        if self.store is None:
            return None
        return RuleSight(lambda: [state.group for state in self.rule_states()], self.store)

    def rule_states(self) -> list[GroupState]:
        return self.rules.states() if self.rules is not None else []

    def _kube_state_presence(self) -> KubeStatePresence | None:
        if self.clusters is None:
            return None
        self.metrics.kubernetes = self.clusters.kube_state.page
        return KubeStatePresence(self._own_queries(), self.clusters.kube_state)

    def _own_queries(self, at_once: int = 1) -> OwnQueries:
        if self.upstream is not None:
            return UpstreamQueries(self.upstream)
        assert self.store is not None
        return EmbeddedQueries(self.store, at_once=at_once)

    def _cluster_intake(self, settings: Settings) -> ClusterIntake | None:
        if not settings.kubernetes.clusters:
            return None
        from trilens.serve.cluster_intake import ClusterIntake

        kept = self.kept
        return ClusterIntake(settings, kept.workloads, self.store, self._monitors, kept.events)

    def _agent_intake(self, settings: Settings) -> AgentIntake | None:
        agents = agent_configs(settings)
        if self._machine is not None:
            agents.append(self._machine.scrape_config())
        if not agents:
            return None
        from trilens.serve.agent_intake import AgentIntake

        kept = self.kept
        return AgentIntake(settings, agents, kept.workloads, kept.events, kept.gpus, self.store)

    def _followed_trackers(self, settings: Settings) -> list[Following]:
        if not names_trackers(settings):
            return []
        return follow_trackers(settings, self.kept.tracked_runs, self.store, self.figures.of)

    def _gpu_bindings(self) -> GpuBindings:
        reports: ReportSource
        if self.store is not None:
            reports = StoredReports(self.store)
        else:
            reports = self._asked = AskedReports(self._own_queries())
        others = (self.agents,) if self.agents is not None else ()
        kept = self.kept
        return GpuBindings(kept.gpus, reports, self.clusters, others, self.store, kept.machines)

    def _run_programs(self, settings: Settings) -> RunPrograms:
        scraped = self._scraped_programs(settings)
        return RunPrograms(
            self.runs,
            self.kept.runs,
            self.kept.workloads,
            self.store,
            scraped,
            also_look=self._pod_addresses.look,
        )

    def _addresses_of_pods(self) -> Mapping[str, Sequence[PodKey]]:
        return self.clusters.pods_by_address() if self.clusters is not None else {}

    def _run_records_kept(self, commit: RunCommit) -> None:
        self._rank_records.take(commit, time.time_ns() // 1_000_000)
        if self._export is not None:
            self._export.offer(commit)

    def _detection_keeper(self) -> DetectionKeeper:
        asked, kept = self._asked_now, self.kept
        window = GpuWindow(asked) if self.store is not None else GpuWindow(asked, history=60, again=6)
        sources = Sources(
            window,
            ScrapedRanks(asked),
            self._rank_records,
            self.runs,
            kept.runs,
            self.programs.members,
            lambda: GpusSeen(self.gpus.now.gpus, self.gpus.held, self.gpus.now.told.reports),
            kept.events,
            self.serving.programs,
            self.clusters,
            self.agents,
        )
        return DetectionKeeper(Scenes(sources), Watch(all_detectors()), kept.findings, self.store)

    def _incident_keeper(self) -> IncidentKeeper:
        kept = self.kept
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
        kept, watched = self.kept, WatchedSubjects(self.clusters)
        return Cases(
            Subjects(kept.workloads, kept.gpus, watched.nodes, watched.pods),
            CaseRecords(kept.workloads, kept.gpus, kept.events, kept.findings),
            CaseRuns(kept.runs, kept.workloads),
            self._case_objects(settings),
            self._own_queries(),
            self.agents,
            lambda: self.scrapes.targets() if self.scrapes is not None else (),
            lambda: active_alerts(self.rule_states()),
            lambda id, guard: find_incident(self.incidents, kept.incidents, id, guard),
            self.faults,
        )

    def _case_objects(self, settings: Settings) -> ObjectSource:
        if self.clusters is None:
            return NoObjects()
        from trilens.serve.cases.objects import CaseObjects

        return CaseObjects(settings.kubernetes, settings.base_dir, self.clusters)

    def _cure_keeper(self, settings: Settings, policy: CurePolicy | None) -> CureKeeper | None:
        if self.clusters is None:
            return None
        from trilens.serve.cure.keeper import CureKeeper

        kept = self.kept
        keeper = CureKeeper(
            policy,
            settings.kubernetes,
            settings.base_dir,
            kept.fixes,
            kept.events,
            self.clusters.clusters_with,
        )
        if self.agents is not None:
            self.agents.listen(keeper.take_event)
        self.detection.listen(lambda _scene, changes: keeper.take_findings(changes.opened))
        return keeper

    def cost_rules(self) -> CostRules:
        settings = self.reloading.in_force.settings
        sharing = Sharing(settings.ledger.share_fleet)
        return CostRules(sharing, settings.budgets.limits, self.prices.exchange_rate)

    def _use_prices(self, prices: Prices) -> None:
        self.prices = prices
        self.ledger.use_prices(prices)

    def _ledger_keeper(self, settings: Settings) -> LedgerKeeper:
        kept, storage = self.kept, settings.storage
        return LedgerKeeper(
            kept.ledger_facts,
            self.signals,
            kept.ledger,
            self.prices,
            kept_for=min(storage.retention_records, storage.retention_steps, storage.retention_ledger),
            booked_for=storage.retention_ledger,
            late=kept.ledger_facts,
            imports=kept.imports,
            on_booked=self._hour_booked,
        )

    def _hour_booked(self, now_ms: int) -> None:
        self._costs.tell(now_ms)
        self.workload_money.booked(now_ms)
        for prepare in self.when_booked:
            prepare(now_ms)

    def _scraped_programs(self, settings: Settings) -> ScrapedPrograms | None:
        if self.scrapes is None or self._jobs is None:
            return None
        return self.scrapes, self._jobs, scrape_global(settings)

    async def start(self) -> None:
        await self._life.start()

    async def reload(self) -> None:
        await self.reloading.reload_logged()

    def cancel_queries(self) -> None:
        self.runner.cancel_all()

    async def stop(self) -> None:
        """Those that end first finish what they look at, if that takes no longer than own queries do."""
        late = asyncio.create_task(self._end_asking(_ANSWERED_S))
        try:
            await self._life.stop()
        finally:
            late.cancel()

    def _in_order(self) -> Life:
        """What judges samples ends first, then what brings them in, last the store, which writes out all it
        has; whoever is told of something begins before those that tell."""
        return Life(
            [
                Step(stop=in_thread(self.kept.close)),
                threaded(self.backups),
                threaded(self.access),
                threaded(self.delivery),
                threaded(self.incidents),
                Step(stop=in_thread(self.runner.close)),
                Step(stop=in_thread(self.intake_threads.shutdown)),
                Step(stop=self.cases.objects.close),
                looped(self._export),
                threaded(self.runs),
                looped(self.upstream),
                looped(self._alerts_elsewhere),
                looped(self.rules_elsewhere),
                looped(self._push),
                threaded(self._own_series),
                threaded(self._jobs),
                threaded(self.clusters),
                looped(self._presence),
                threaded(self._machine),
                Step(start=in_thread(self._scrape_this_machine)),
                threaded(self.cure),
                threaded(self.agents),
                Step(self._ask_here, self._end_asking),
                threaded(self.gpus),
                *(Step(start=in_thread(one.start)) for one in self.trackers),
                Step(stop=in_thread(partial(stop_all, self.trackers))),
                threaded(self.programs),
                threaded(self.serving),
                threaded(self.ledger),
                threaded(self.detection),
                threaded(self.sight),
                threaded(self.rules),
            ]
        )

    def _scrape_this_machine(self) -> None:
        if self._machine is not None and self._jobs is not None:
            self._jobs.found("this machine", [self._machine.scrape_config()])

    async def _ask_here(self) -> None:
        """Connections to another server live in this loop; those that ask it, in threads of their own."""
        loop = self._loop = AskedLoop(asyncio.get_running_loop())
        for one in (self._asked, self.figures, self._verdicts, self.signals, self._asked_now):
            if one is not None:
                one.ask_in(loop)
        for begun in self.when_begun:
            begun(loop)

    async def _end_asking(self, after_s: float = 0.0) -> None:
        await asyncio.sleep(after_s)
        if self._loop is not None:
            await self._loop.close()


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
