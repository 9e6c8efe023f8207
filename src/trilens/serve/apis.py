"""All that is asked over HTTP, made of the parts of a system."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.backfill import BackfillReceiver
from trilens.collect.remote_write import RemoteWriteReceiver
from trilens.promql.engine import Engine
from trilens.serve.access.known_names import KnownNames
from trilens.serve.access.seen_runs import RunsSeen
from trilens.serve.app import Embedded, Parts, build_app
from trilens.serve.backfill import BackfillApi
from trilens.serve.backup_apis import BackupApis
from trilens.serve.cases.cases_api import CasesApi
from trilens.serve.cure.cure_api import CureApi
from trilens.serve.delivery_apis import DeliveryApis
from trilens.serve.detection.findings import FindingsApi
from trilens.serve.events import EventsApi
from trilens.serve.experiments import ExperimentsApi
from trilens.serve.fleet_apis import FleetApis
from trilens.serve.gpus import GpusApi
from trilens.serve.incidents.incidents_api import IncidentsApi
from trilens.serve.incidents.workload_costs import WorkloadCosts
from trilens.serve.intake_apis import IntakeApis
from trilens.serve.intakes import Intakes
from trilens.serve.lineage import LineageApi
from trilens.serve.logs import log_metrics
from trilens.serve.money.apis import MoneyApis
from trilens.serve.money.cost import CostApi
from trilens.serve.money.cost_units import CostUnitsApi
from trilens.serve.money.focus import FocusApi
from trilens.serve.money.imports import ImportsApi
from trilens.serve.money.ledger import LedgerApi
from trilens.serve.money.opencost import OpenCostApi
from trilens.serve.money.prices import PricesApi
from trilens.serve.otlp import OtlpApi
from trilens.serve.otlp_intake import OtlpIntake
from trilens.serve.output import OutputApi
from trilens.serve.own_health import OwnHealth
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.fleet_map import FleetApi
from trilens.serve.pages.gpu_life import GpuLifeApi
from trilens.serve.pages.now import NowApi
from trilens.serve.pages.rank_heat import RankHeatApi
from trilens.serve.pages.services import ObjectivesInForce, ServicesApi
from trilens.serve.pages.timeline import TimelineApi, TimelineSources
from trilens.serve.pages.timeline_subject import Subjects
from trilens.serve.pages.workload_table import WorkloadTableApi
from trilens.serve.probes import Probes
from trilens.serve.programs import ProgramsApi
from trilens.serve.prometheus_apis import PrometheusApis
from trilens.serve.questions import Questions
from trilens.serve.rules import RulesApi, rule_metrics
from trilens.serve.run_apis import RunApis
from trilens.serve.run_steps import RunStepsApi
from trilens.serve.run_traces import RunTracesApi
from trilens.serve.runs import RunsApi
from trilens.serve.runs_intake import RunRecordsApi
from trilens.serve.serving_programs import HeartbeatApi
from trilens.serve.state import SystemState
from trilens.serve.state_metrics import ledger_metrics, run_metrics
from trilens.serve.status import StatusApi
from trilens.serve.targets import TargetsApi
from trilens.serve.trackers_api import TrackersApi
from trilens.serve.workloads import WorkloadsApi
from trilens.serve.write import WriteApi

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from trilens.serve.compose import System
    from trilens.serve.pages.apis import PageApi
    from trilens.serve.upstream import Upstream
    from trilens.settings.tree import Settings


def app_of(system: System, settings: Settings) -> ASGIApp:
    receiver = RemoteWriteReceiver(system.store) if system.store is not None else None
    otlp = OtlpIntake(system.store, system.runs, system.kept.runs)
    state = SystemState(
        system.runner,
        system.store,
        system.scrapes,
        receiver,
        system.upstream,
        system.clusters,
        system.agents,
        system.ledger,
        rules=system.rules,
        access_troubles=lambda: system.access.troubles,
        unnamed_proxy=lambda: system.access.access.callers.unnamed,
        disbelieved_proxy=lambda: system.access.access.callers.disbelieved,
        certificate_trouble=lambda: system.metrics.certificate_trouble,
    )
    system.metrics.watch(state.metrics)
    system.metrics.watch(lambda: rule_metrics(system.rule_states()))
    system.metrics.watch(otlp.own_metrics)
    system.metrics.watch(lambda: run_metrics(system.runs))
    system.metrics.watch(lambda: ledger_metrics(system.ledger))
    system.metrics.watch(system.detection.own_metrics)
    system.metrics.watch(system.incidents.own_metrics)
    system.metrics.watch(system.delivery.metrics)
    system.metrics.watch(system.backups.metrics)
    system.metrics.watch(_own_health(system, settings).metrics)
    system.metrics.watch(log_metrics)
    if system.cure is not None:
        system.metrics.watch(system.cure.metrics)
    questions = Questions(system.runner, settings.server.max_body)
    pages, money = _page_apis(system, questions), _money_apis(system, questions)
    system.detection.listen(pages.looked)
    system.when_booked += [pages.booked, money.units.booked]
    system.when_begun.append(pages.begun)
    return build_app(
        Parts(
            settings=settings,
            access=system.access.access,
            access_apis=system.access.apis(questions, _known_names(system)),
            source=_source(system),
            runner=system.runner,
            metrics=system.metrics,
            probes=Probes(state.readiness, system.reloading.reload, system.metrics),
            prometheus=_prometheus_apis(system),
            intake=_intake_apis(system, settings, receiver, otlp),
            fleet=_fleet_apis(system, questions),
            runs=_run_apis(system, questions),
            money=money,
            delivery=DeliveryApis(system.delivery, questions),
            backups=BackupApis(system.backups, questions),
            pages=pages,
        )
    )


def _known_names(system: System) -> KnownNames:
    return KnownNames(
        system.kept.workloads,
        system.kept.machines,
        Intakes.of(system.clusters, system.agents),
        lambda: system.reloading.in_force.settings,
    )


def _own_health(system: System, settings: Settings) -> OwnHealth:
    return OwnHealth(
        settings.storage.data_dir,
        lambda: system.reloading.in_force,
        system.scrapes,
        system.rules,
        system.clusters,
        system.agents,
        system.upstream,
        lambda: system.metrics.certificate_ends_s,
        lambda: system.kept.disks,
        lambda: system.kept.disk_syncs,
    )


def _prometheus_apis(system: System) -> PrometheusApis:
    programs = (system.programs, system.clusters, system.serving)
    return PrometheusApis(
        TargetsApi(system.scrapes),
        ProgramsApi([one for one in programs if one is not None]),
        _rules_api(system),
        StatusApi(lambda: system.reloading.in_force, system.store, system.runner),
    )


def _rules_api(system: System) -> RulesApi:
    if system.rules_elsewhere is not None:
        return RulesApi(list, elsewhere=system.rules_elsewhere.groups)
    assert system.sight is not None
    return RulesApi(system.rule_states, system.sight.blind)


def _intake_apis(
    system: System, settings: Settings, receiver: RemoteWriteReceiver | None, otlp: OtlpIntake
) -> IntakeApis:
    threads, max_body, storage = system.intake_threads, settings.server.max_body, settings.storage
    backfill = BackfillReceiver(system.store, storage.retention) if system.store is not None else None
    return IntakeApis(
        WriteApi(receiver, threads, max_body),
        RunRecordsApi(system.runs, system.told_addresses, threads, max_body),
        HeartbeatApi(system.serving, system.told_addresses),
        OtlpApi(otlp.metrics, otlp.traces, threads, max_body),
        BackfillApi(backfill, threads, max_body),
        ImportsApi(system.kept.imports, system.ledger.imported, storage.retention_ledger, threads, max_body),
    )


def _fleet_apis(system: System, questions: Questions) -> FleetApis:
    kept, intakes = system.kept, Intakes.of(system.clusters, system.agents)
    return FleetApis(
        WorkloadsApi(kept.workloads, kept.gpus, system.gpus, kept.ledger, intakes, questions),
        GpusApi(kept.gpus, kept.workloads, system.gpus, system.faults, intakes, questions),
        EventsApi(kept.events, kept.workloads, system.agents, questions),
        OutputApi(kept.workloads, system.agents, questions),
        FindingsApi(lambda: system.detection.state, kept.findings, kept.workloads, questions),
        IncidentsApi(system.incidents, kept.incidents, system.delivery, kept.workloads, questions),
        CasesApi(system.cases, questions),
        CureApi(system.cure, kept.fixes, system.cases, kept.workloads, questions),
    )


def _run_apis(system: System, questions: Questions) -> RunApis:
    kept, utilization = system.kept, system.figures.utilization
    runs = RunsSeen(kept.runs, kept.workloads)
    return RunApis(
        RunsApi(runs, kept.ledger, questions),
        LineageApi(runs, questions),
        RunStepsApi(runs, questions),
        RunTracesApi(runs, questions),
        ExperimentsApi(runs, kept.tracked_runs, kept.ledger, utilization, questions),
        TrackersApi(system.trackers),
    )


def _money_apis(system: System, questions: Questions) -> MoneyApis:
    kept, book = system.kept, system.kept.ledger
    return MoneyApis(
        LedgerApi(book, system.ledger, questions),
        CostApi(book, kept.ledger_facts, system.cost_rules, questions),
        FocusApi(book, questions),
        CostUnitsApi(book, kept.ledger_facts, system.signals, RunsSeen(kept.runs, kept.workloads), questions),
        PricesApi(lambda: system.prices, kept.machines, questions),
        OpenCostApi(book, questions),
    )


def _page_apis(system: System, questions: Questions) -> PageApis:
    kept = system.kept
    objectives = ObjectivesInForce(lambda: system.reloading.in_force.settings)
    return PageApis(
        (
            NowApi(
                kept.ledger,
                kept.ledger_facts,
                system.incidents,
                kept.incidents,
                system.gpus,
                kept.workloads,
                questions,
            ),
            ServicesApi(system.queries, objectives, questions),
            *_fleet_pages(system, questions),
            *_workload_page(system, questions),
        )
    )


def _fleet_pages(system: System, questions: Questions) -> list[PageApi]:
    kept, intakes = system.kept, Intakes.of(system.clusters, system.agents)
    costs = WorkloadCosts(lambda: system.prices, system.machines, lambda: system.gpus.held)
    found, incidents = (lambda: system.detection.state), system.incidents.open
    return [
        WorkloadTableApi(
            system.scene,
            kept.workloads,
            system.workload_money,
            costs,
            system.gpus,
            found,
            incidents,
            intakes,
            questions,
        ),
        FleetApi(
            system.scene,
            system.gpus,
            system.faults,
            system.machines,
            kept.workloads,
            found,
            incidents,
            intakes,
            questions,
        ),
        GpuLifeApi(
            kept.gpus,
            kept.workloads,
            kept.events,
            kept.findings,
            kept.ledger,
            system.queries,
            system.gpus,
            questions,
        ),
    ]


def _workload_page(system: System, questions: Questions) -> list[PageApi]:
    kept = system.kept
    subjects = Subjects(kept.workloads, kept.runs, kept.step_grids)
    sources = TimelineSources(
        subjects, kept.gpus, kept.events, kept.findings, kept.incidents, kept.ledger, system.queries
    )
    return [TimelineApi(sources, questions), RankHeatApi(subjects, questions)]


def _source(system: System) -> Embedded | Upstream:
    if system.upstream is not None:
        return system.upstream
    store = system.store
    assert store is not None
    return Embedded(lambda lookback_ms: Engine(store, lookback_ms=lookback_ms), store, store)
