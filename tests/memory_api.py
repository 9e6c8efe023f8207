"""A real server on a free port, with samples in memory and everything else as in production."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import uvicorn

from empty_records import NobodyLooks, NoFacts, NoFaults, NoReceivers, NoRecords, NoSignals, no_backups
from memory_access import MemoryAudit, MemoryTokens
from memory_book import MemoryBook
from memory_findings import MemoryFindings
from memory_runs import MemoryRuns
from trilens.ledger.prices.book import Prices, default_book
from trilens.model.query import QueryGuard
from trilens.model.series import SelectRequest
from trilens.promql.engine import Engine
from trilens.promql.memory import MemorySource
from trilens.serve.access.build import AccessKeeper
from trilens.serve.access.known_names import KnownNames
from trilens.serve.access.seen_runs import RunsSeen
from trilens.serve.access.told_addresses import ToldAddresses
from trilens.serve.app import Embedded, Parts, build_app
from trilens.serve.backfill import BackfillApi
from trilens.serve.backup_apis import BackupApis
from trilens.serve.cases.cases_api import CasesApi
from trilens.serve.cure.cure_api import CureApi
from trilens.serve.delivery_apis import DeliveryApis
from trilens.serve.detection.findings import FindingsApi
from trilens.serve.detection.keeper import DetectionState
from trilens.serve.events import EventsApi
from trilens.serve.experiments import ExperimentsApi
from trilens.serve.fleet_apis import FleetApis
from trilens.serve.gpus import GpusApi
from trilens.serve.incidents.incidents_api import IncidentsApi
from trilens.serve.intake_apis import IntakeApis
from trilens.serve.lineage import LineageApi
from trilens.serve.money.apis import MoneyApis
from trilens.serve.money.cost import CostApi, CostRules
from trilens.serve.money.cost_units import CostUnitsApi
from trilens.serve.money.focus import FocusApi
from trilens.serve.money.imports import ImportsApi
from trilens.serve.money.ledger import LedgerApi
from trilens.serve.money.opencost import OpenCostApi
from trilens.serve.money.prices import PricesApi
from trilens.serve.otlp import OtlpApi
from trilens.serve.output import OutputApi
from trilens.serve.params import MAX_TIME_MS, MIN_TIME_MS
from trilens.serve.probes import Probes, Readiness
from trilens.serve.programs import ProgramsApi
from trilens.serve.prometheus_apis import PrometheusApis
from trilens.serve.questions import Questions, clock_ms
from trilens.serve.reloading import InForce
from trilens.serve.rules import Blind, RulesApi
from trilens.serve.run_apis import RunApis
from trilens.serve.run_steps import RunStepsApi
from trilens.serve.run_traces import RunTracesApi
from trilens.serve.runner import QueryRunner
from trilens.serve.runs import RunsApi
from trilens.serve.runs_intake import RunRecordsApi
from trilens.serve.self_metrics import SelfMetrics
from trilens.serve.serving_programs import HeartbeatApi, ServingPrograms
from trilens.serve.status import StatusApi
from trilens.serve.targets import TargetsApi
from trilens.serve.trackers_api import TrackersApi
from trilens.serve.workloads import WorkloadsApi
from trilens.serve.write import WriteApi
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from trilens.alert.evaluation import GroupState
    from trilens.collect.runs.intake import RunIntake
    from trilens.ledger.source import FactSource, LedgerBook, SignalSource
    from trilens.lineage.source import RunSource
    from trilens.model.labels import LabelFrame
    from trilens.model.machine import MachineInterval
    from trilens.model.matcher import Matcher
    from trilens.serve.access.doors import Door
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.backup_keeper import BackupKeeper
    from trilens.serve.compose import System
    from trilens.serve.delivery import DeliveryKeeper
    from trilens.serve.intakes import Intakes
    from trilens.serve.money.imports import ImportStore
    from trilens.serve.money.ledger_keeper import LedgerKeeper
    from trilens.serve.money.prices import KnownMachines
    from trilens.serve.standing_faults import GpuFaults
    from trilens.serve.trackers import Following
    from trilens.store.events import EventRecords
    from trilens.store.gpus import GpuRecords
    from trilens.store.tracked_runs import TrackedRunRecords
    from trilens.store.workloads import WorkloadRecords


@dataclass
class Description:
    kind: str
    help: str
    unit: str = ""


class MemoryCatalog:
    """Label questions answered from a MemorySource by selecting everything."""

    def __init__(self, source: MemorySource) -> None:
        self._source = source
        self.described: dict[str, list[Description]] = {}

    def series_labels(
        self, matchers: tuple[Matcher, ...], start_ms: int, end_ms: int, guard: QueryGuard
    ) -> LabelFrame:
        return self._source.select(SelectRequest(matchers, start_ms - 1, end_ms), guard).labels

    def labels_in_memory(self) -> LabelFrame:
        return self.series_labels((), MIN_TIME_MS, MAX_TIME_MS, QueryGuard())

    def label_names(
        self, matchers: tuple[Matcher, ...] | None, start_ms: int, end_ms: int, guard: QueryGuard
    ) -> list[str]:
        frame = self.series_labels(matchers or (), start_ms, end_ms, guard)
        return [name for name in frame.names if frame.column(name).any()]

    def label_values(
        self, name: str, matchers: tuple[Matcher, ...] | None, start_ms: int, end_ms: int, guard: QueryGuard
    ) -> list[str]:
        frame = self.series_labels(matchers or (), start_ms, end_ms, guard)
        return sorted(set(frame.symbols.texts(c for c in frame.column(name).tolist() if c)))

    def metadata(self, metric: str | None) -> Mapping[str, Sequence[Description]]:
        return {name: d for name, d in self.described.items() if metric in (None, name)}


@dataclass
class MemoryMachines:
    intervals: list[MachineInterval] = field(default_factory=list)

    def during(
        self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Sequence[MachineInterval]:
        return [x for x in self.intervals if x.from_ms < to_ms and (x.to_ms is None or x.to_ms > from_ms)]

    def clusters(self, *, guard: QueryGuard | None = None) -> list[str]:
        return sorted({one.machine.cluster for one in self.intervals})


@dataclass
class Api:
    """The parts of a server that a test may want to reach."""

    source: MemorySource = field(default_factory=MemorySource)
    overrides: dict[str, Any] = field(default_factory=dict)
    reloads: list[str] = field(default_factory=list)
    ready: bool = True
    lacks: str = ""
    readiness: dict[str, Any] = field(default_factory=lambda: {"store": {"damage": []}})
    workloads: WorkloadRecords | NoRecords = field(default_factory=NoRecords)
    detection: DetectionState = field(default_factory=DetectionState)
    findings: MemoryFindings = field(default_factory=MemoryFindings)
    faults: GpuFaults = field(default_factory=NoFaults)
    open_incidents: Any = field(default_factory=NoRecords)
    untold: Any = field(default_factory=NoRecords)
    incidents: Any = field(default_factory=NoRecords)
    delivery: DeliveryKeeper | NoReceivers = field(default_factory=NoReceivers)
    gpus: GpuRecords | NoRecords = field(default_factory=NoRecords)
    rules: list[GroupState] = field(default_factory=list)
    blind: Blind = field(default_factory=dict)
    events: EventRecords | NoRecords = field(default_factory=NoRecords)
    agents: AgentIntake | None = None
    intakes: Intakes | None = None
    runs: RunSource = field(default_factory=MemoryRuns)
    cases: Any = None
    cure: Any = None
    fixes: Any = field(default_factory=NoRecords)
    run_intake: RunIntake | None = None
    tracked: TrackedRunRecords | NoRecords = field(default_factory=NoRecords)
    followed: list[Following] = field(default_factory=list)
    serving: ServingPrograms = field(default_factory=lambda: ServingPrograms(None))
    book: LedgerBook = field(default_factory=MemoryBook)
    imports: ImportStore | None = None
    imported_hours: list[int] = field(default_factory=list)
    keeper: LedgerKeeper | None = None
    facts: FactSource | NoFacts = field(default_factory=NoFacts)
    signals: SignalSource = field(default_factory=NoSignals)
    cost_rules: CostRules = field(default_factory=CostRules)
    now_ms: Callable[[], int] = clock_ms
    prices: Prices = field(default_factory=default_book)
    machines: KnownMachines = field(default_factory=MemoryMachines)
    backups: BackupKeeper = field(default_factory=no_backups)
    doors: list[Door] = field(default_factory=list)
    tokens: MemoryTokens = field(default_factory=MemoryTokens)
    audit: MemoryAudit = field(default_factory=MemoryAudit)

    def __post_init__(self) -> None:
        self.settings = load_settings(overrides=self.overrides, environ={})
        self.in_force = InForce(self.settings, datetime.now(UTC))
        self.runner = QueryRunner(self.settings.query)
        self.questions = Questions(self.runner, 1 << 20, self.now_ms)
        self.metrics = SelfMetrics()
        self.catalog = MemoryCatalog(self.source)
        self.engines: Any = lambda lookback_ms: Engine(self.source, lookback_ms=lookback_ms)

    def _access(self) -> AccessKeeper:
        keeper = AccessKeeper(self.settings, self.settings.server.read_token(), self.tokens, self.audit)
        keeper.access.doors = [*self.doors, *keeper.access.doors]
        return keeper

    def _known_names(self) -> KnownNames:
        return KnownNames(self.workloads, self.machines, self.intakes, lambda: self.settings)

    def build(self) -> Any:
        return build_app(self.parts())

    def parts(self) -> Parts:
        async def reload() -> None:
            self.reloads.append("reload")

        async def readiness() -> Readiness:
            return Readiness(self.ready, self.readiness, self.lacks)

        access = self._access()
        return Parts(
            settings=self.settings,
            access=access.access,
            access_apis=access.apis(self.questions, self._known_names()),
            source=Embedded(lambda lookback_ms: self.engines(lookback_ms), self.catalog, self.source),
            runner=self.runner,
            metrics=self.metrics,
            probes=Probes(readiness, reload, self.metrics),
            prometheus=PrometheusApis(
                TargetsApi(None),
                ProgramsApi([self.serving]),
                RulesApi(lambda: self.rules, lambda: self.blind),
                StatusApi(lambda: self.in_force, self.catalog, self.runner),
            ),
            intake=self._intake_apis(),
            fleet=self._fleet_apis(),
            runs=self._run_apis(),
            money=self._money_apis(),
            delivery=DeliveryApis(self.delivery, self.questions),
            backups=BackupApis(self.backups, self.questions),
        )

    def _intake_apis(self) -> IntakeApis:
        threads, max_body = ThreadPoolExecutor(1), 1 << 20
        kept_for = self.settings.storage.retention_ledger
        return IntakeApis(
            WriteApi(None, threads, max_body),
            RunRecordsApi(self.run_intake, ToldAddresses(self.settings), threads, max_body),
            HeartbeatApi(self.serving, ToldAddresses(self.settings)),
            OtlpApi(None, None, threads, max_body),
            BackfillApi(None, threads, max_body),
            ImportsApi(self.imports, self.imported_hours.extend, kept_for, threads, max_body),
        )

    def _fleet_apis(self) -> FleetApis:
        now, asked = NobodyLooks(), self.questions
        return FleetApis(
            WorkloadsApi(self.workloads, self.gpus, now, self.book, self.intakes, asked),
            GpusApi(self.gpus, self.workloads, now, self.faults, self.intakes, asked),
            EventsApi(self.events, self.workloads, self.agents, asked),
            OutputApi(self.workloads, self.agents, asked),
            FindingsApi(lambda: self.detection, self.findings, self.workloads, asked),
            IncidentsApi(self.open_incidents, self.incidents, self.untold, self.workloads, asked),
            CasesApi(self.cases, asked),
            CureApi(self.cure, self.fixes, self.cases, self.workloads, asked),
        )

    def _run_apis(self) -> RunApis:
        runs = RunsSeen(self.runs, self.workloads)
        return RunApis(
            RunsApi(runs, self.book, self.questions),
            LineageApi(runs, self.questions),
            RunStepsApi(runs, self.questions),
            RunTracesApi(runs, self.questions),
            ExperimentsApi(runs, self.tracked, self.book, lambda _run: None, self.questions),
            TrackersApi(self.followed),
        )

    def _money_apis(self) -> MoneyApis:
        return MoneyApis(
            LedgerApi(self.book, self.keeper, self.questions),
            CostApi(self.book, self.facts, lambda: self.cost_rules, self.questions),
            FocusApi(self.book, self.questions),
            CostUnitsApi(
                self.book, self.facts, self.signals, RunsSeen(self.runs, self.workloads), self.questions
            ),
            PricesApi(lambda: self.prices, self.machines, self.questions),
            OpenCostApi(self.book, self.questions),
        )


@contextmanager
def working(system: System) -> Iterator[asyncio.Runner]:
    """From its start to its stop, in one loop: what is still asked at the end belongs to the start's."""
    with asyncio.Runner() as loop:
        loop.run(system.start())
        try:
            yield loop
        finally:
            loop.run(system.stop())


@contextmanager
def running(
    app: Any,
    port: int = 0,
    *,
    make: Callable[[uvicorn.Config], uvicorn.Server] = uvicorn.Server,
    **options: Any,
) -> Iterator[str]:
    """The app behind uvicorn, in a thread; yields the base URL."""
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error", access_log=False, **options)
    server = make(config)
    listener = config.bind_socket()
    started = threading.Event()
    startup = server.startup

    async def noticed(sockets: Any = None) -> None:
        await startup(sockets=sockets)
        started.set()

    server.startup = noticed  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
