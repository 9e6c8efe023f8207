"""The routes, and the middleware around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from trilens.model.errors import TrilensError
from trilens.serve import status
from trilens.serve.catalog import CatalogApi
from trilens.serve.envelope import on_trilens_error, on_unexpected_error
from trilens.serve.federate import FederateApi
from trilens.serve.home import HomePage
from trilens.serve.missing import on_http_error
from trilens.serve.openapi import ONE_WORKLOAD, openapi
from trilens.serve.queries import QueryApi
from trilens.serve.run_openapi import ONE_RUN
from trilens.serve.security import Gate
from trilens.serve.self_metrics import Meter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, StatelessLifespan

    from trilens.promql.source import SeriesSource
    from trilens.serve.backfill import BackfillApi
    from trilens.serve.events import EventsApi
    from trilens.serve.experiments import ExperimentsApi
    from trilens.serve.gpus import GpusApi
    from trilens.serve.home import Ask
    from trilens.serve.lineage import LineageApi
    from trilens.serve.money.cost import CostApi
    from trilens.serve.money.cost_units import CostUnitsApi
    from trilens.serve.money.focus import FocusApi
    from trilens.serve.money.imports import ImportsApi
    from trilens.serve.money.ledger import LedgerApi
    from trilens.serve.money.opencost import OpenCostApi
    from trilens.serve.money.prices import PricesApi
    from trilens.serve.otlp import OtlpApi
    from trilens.serve.output import OutputApi
    from trilens.serve.page import Overview
    from trilens.serve.ports import Catalog, EngineFactory
    from trilens.serve.probes import Probes
    from trilens.serve.programs import ProgramsApi
    from trilens.serve.rules import RulesApi
    from trilens.serve.run_traces import RunTracesApi
    from trilens.serve.runner import QueryRunner
    from trilens.serve.runs import RunsApi
    from trilens.serve.runs_intake import RunRecordsApi
    from trilens.serve.self_metrics import SelfMetrics
    from trilens.serve.serving_programs import HeartbeatApi
    from trilens.serve.status import StatusApi
    from trilens.serve.targets import TargetsApi
    from trilens.serve.trackers_api import TrackersApi
    from trilens.serve.upstream import Upstream
    from trilens.serve.workloads import WorkloadsApi
    from trilens.serve.write import WriteApi
    from trilens.settings.tree import Settings

    Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Embedded:
    """Queries answered here."""

    engines: EngineFactory
    catalog: Catalog
    samples: SeriesSource


@dataclass(frozen=True, slots=True)
class Parts:
    """What the routes are made of; compose.py fills it in."""

    settings: Settings
    token: str | None
    source: Embedded | Upstream
    runner: QueryRunner
    metrics: SelfMetrics
    probes: Probes
    overview: Callable[[], Awaitable[Overview]]
    status: StatusApi
    targets: TargetsApi
    rules: RulesApi
    programs: ProgramsApi
    heartbeats: HeartbeatApi
    write: WriteApi
    run_records: RunRecordsApi
    otlp: OtlpApi
    run_traces: RunTracesApi
    backfill: BackfillApi
    imports: ImportsApi
    workloads: WorkloadsApi
    gpus: GpusApi
    events: EventsApi
    output: OutputApi
    runs: RunsApi
    lineage: LineageApi
    experiments: ExperimentsApi
    trackers: TrackersApi
    ledger: LedgerApi
    cost: CostApi
    focus: FocusApi
    cost_units: CostUnitsApi
    prices: PricesApi
    opencost: OpenCostApi


def build_app(parts: Parts, lifespan: StatelessLifespan[Starlette] | None = None) -> ASGIApp:
    source = parts.source
    ask, source_routes = _embedded(parts, source) if isinstance(source, Embedded) else _sent_on(source)
    home = HomePage(parts.overview, ask, has_token=parts.token is not None)
    routes = [
        *source_routes,
        _route("/api/v1/write", parts.write.write, "POST"),
        _route("/api/v1/runs/records", parts.run_records.take, "POST"),
        _route("/v1/metrics", parts.otlp.metrics, "POST"),
        _route("/v1/traces", parts.otlp.traces, "POST"),
        _route("/api/v1/import/openmetrics", parts.backfill.openmetrics, "POST"),
        _route("/api/v1/import/prometheus", parts.backfill.prometheus, "POST"),
        _route("/api/v1/import/jobs", parts.imports.jobs, "POST"),
        _route("/api/v1/import/usage", parts.imports.usage, "POST"),
        _route("/api/v1/targets", parts.targets.targets),
        _route("/api/v1/targets/metadata", parts.targets.metadata),
        _route("/api/v1/scrape_pools", parts.targets.pools),
        _route("/api/v1/sd/programs", parts.programs.programs),
        _route("/api/v1/programs/heartbeat", parts.heartbeats.take, "POST"),
        _route("/api/v1/rules", parts.rules.rules),
        _route("/api/v1/alerts", status.alerts),
        _route("/api/v1/alertmanagers", status.alertmanagers),
        _route("/api/v1/status/buildinfo", parts.status.buildinfo),
        _route("/api/v1/status/config", parts.status.config),
        _route("/api/v1/status/flags", parts.status.flags),
        _route("/api/v1/status/runtimeinfo", parts.status.runtimeinfo),
        _route("/api/v1/status/tsdb", parts.status.tsdb),
        _route("/api/v1/format_query", parts.status.format_query, "GET", "POST"),
        _route("/api/workloads", parts.workloads.every),
        _route(ONE_WORKLOAD, parts.workloads.one),
        _route("/api/gpus", parts.gpus.every),
        _route("/api/events", parts.events.every),
        _route("/api/output", parts.output.of_pod),
        _route("/api/experiments", parts.experiments.every),
        _route("/api/trackers", parts.trackers.every),
        _route("/api/cost", parts.cost.every),
        _route("/api/cost/why", parts.cost.why),
        _route("/api/cost/now", parts.cost.now),
        _route("/api/cost/focus", parts.focus.export),
        _route("/api/cost/units", parts.cost_units.every),
        _route("/api/prices", parts.prices.every),
        _route("/api/prices/choice", parts.prices.choice),
        _route("/api/ledger", parts.ledger.state),
        _route("/api/ledger/hours", parts.ledger.hours),
        _route("/api/ledger/verify", parts.ledger.verify),
        _route("/api/ledger/recompute", parts.ledger.recompute, "POST"),
        _route("/api/runs", parts.runs.every),
        _route(ONE_RUN, parts.runs.one),
        _route(f"{ONE_RUN}/artifacts/{{artifact}}", parts.runs.artifact),
        _route(f"{ONE_RUN}/checkpoints", parts.runs.checkpoints),
        _route(f"{ONE_RUN}/checkpoints/{{step}}", parts.lineage.checkpoint),
        _route(f"{ONE_RUN}/checkpoints/{{step}}/batches", parts.lineage.batches),
        _route(f"{ONE_RUN}/steps/{{step}}", parts.lineage.step),
        _route(f"{ONE_RUN}/spikes", parts.lineage.spikes),
        _route(f"{ONE_RUN}/traces", parts.run_traces.traces),
        _route("/api/samples/{sample:path}", parts.lineage.sample),
        # Each a partial: the endpoint is what tells routes apart where requests are counted.
        *(_route(path, partial(parts.opencost.compute)) for path in _OPENCOST),
        _route("/api/openapi.json", openapi),
        _route("/healthz", parts.probes.healthz),
        _route("/readyz", parts.probes.readyz),
        _route("/-/healthy", parts.probes.healthy),
        _route("/-/ready", parts.probes.ready),
        _route("/-/reload", parts.probes.reload, "POST", "PUT"),
        _route("/metrics", parts.probes.metrics),
        _route("/metrics/workloads", parts.probes.workload_metrics),
        _route("/metrics/kubernetes", parts.probes.kubernetes_metrics),
        _route("/", home.show),
    ]
    handlers: dict[object, str] = {route.endpoint: _metric_label(route.path) for route in routes}
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            TrilensError: on_trilens_error,
            HTTPException: on_http_error([route.path for route in routes]),
            Exception: on_unexpected_error,
        },
        middleware=[
            Middleware(Meter, metrics=parts.metrics, handlers=handlers),
            Middleware(Gate, server=parts.settings.server, token=parts.token),
        ],
    )


_OPENCOST = ("/allocation", "/allocation/compute", "/model/allocation", "/model/allocation/compute")
_SENT_ON = (
    "query",
    "query_range",
    "series",
    "labels",
    "label/{name}/values",
    "metadata",
    "query_exemplars",
)


# What is asked of the samples: here, or of the server that has them. The most frequent come first.


def _embedded(parts: Parts, source: Embedded) -> tuple[Ask, list[Route]]:
    max_body = parts.settings.server.max_body
    lookback_ms = round(parts.settings.query.lookback_delta.total_seconds() * 1000)
    queries = QueryApi(source.engines, parts.runner, lookback_ms=lookback_ms, max_body=max_body)
    catalog = CatalogApi(source.catalog, parts.runner, max_body=max_body)
    federation = FederateApi(source.samples, parts.runner, lookback_ms=lookback_ms)
    return queries.envelope, [
        _route("/api/v1/query", queries.instant, "GET", "POST"),
        _route("/api/v1/query_range", queries.range, "GET", "POST"),
        _route("/api/v1/series", catalog.series, "GET", "POST"),
        _route("/api/v1/labels", catalog.labels, "GET", "POST"),
        _route("/api/v1/label/{name}/values", catalog.label_values),
        _route("/api/v1/metadata", catalog.metadata),
        _route("/api/v1/query_exemplars", status.exemplars, "GET", "POST"),
        _route("/federate", federation.federate),
    ]


def _sent_on(source: Upstream) -> tuple[Ask, list[Route]]:
    # A partial each, so that requests are counted by route: the endpoint is what tells routes apart.
    routes = [_route(f"/api/v1/{path}", partial(source.forward), "GET", "POST") for path in _SENT_ON]
    return source.envelope, routes


def _metric_label(path: str) -> str:
    return path.replace("{", ":").replace("}", "")


def _route(path: str, handler: Any, *methods: str) -> Route:
    return Route(path, handler, methods=methods or ("GET",))
