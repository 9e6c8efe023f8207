"""The routes, and the middleware around them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from trilens.model.errors import TrilensError
from trilens.model.identity import Right
from trilens.serve import status
from trilens.serve.access.gate import Gate
from trilens.serve.catalog import CatalogApi
from trilens.serve.envelope import on_trilens_error, on_unexpected_error
from trilens.serve.federate import FederateApi
from trilens.serve.missing import on_http_error
from trilens.serve.openapi import openapi
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.doctor import DoctorApi
from trilens.serve.queries import QueryApi
from trilens.serve.routes import route
from trilens.serve.self_metrics import Meter
from trilens.serve.web_app import WebApp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, StatelessLifespan

    from trilens.promql.source import SeriesSource
    from trilens.serve.access.access import Access
    from trilens.serve.access.build import AccessApis
    from trilens.serve.backup_apis import BackupApis
    from trilens.serve.delivery_apis import DeliveryApis
    from trilens.serve.fleet_apis import FleetApis
    from trilens.serve.intake_apis import IntakeApis
    from trilens.serve.money.apis import MoneyApis
    from trilens.serve.ports import Catalog, EngineFactory
    from trilens.serve.probes import Probes
    from trilens.serve.prometheus_apis import PrometheusApis
    from trilens.serve.routes import GuardedRoute
    from trilens.serve.run_apis import RunApis
    from trilens.serve.runner import QueryRunner
    from trilens.serve.self_metrics import SelfMetrics
    from trilens.serve.upstream import Upstream
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
    """What the routes are made of; apis.py fills it in."""

    settings: Settings
    access: Access
    access_apis: AccessApis
    source: Embedded | Upstream
    runner: QueryRunner
    metrics: SelfMetrics
    probes: Probes
    prometheus: PrometheusApis
    intake: IntakeApis
    fleet: FleetApis
    runs: RunApis
    money: MoneyApis
    delivery: DeliveryApis
    backups: BackupApis
    pages: PageApis = field(default_factory=PageApis)


def build_app(parts: Parts, lifespan: StatelessLifespan[Starlette] | None = None) -> ASGIApp:
    routes = all_routes(parts)
    intake = frozenset(one.path for one in routes if one.needs is Right.INTAKE)
    handlers: dict[object, str] = {one.endpoint: _metric_label(one.path) for one in routes}
    return Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            TrilensError: on_trilens_error,
            HTTPException: on_http_error([one.path for one in routes]),
            Exception: on_unexpected_error,
        },
        middleware=[
            Middleware(Meter, metrics=parts.metrics, handlers=handlers),
            Middleware(Gate, server=parts.settings.server, access=parts.access, intake=intake),
        ],
    )


def all_routes(parts: Parts) -> list[GuardedRoute]:
    source = parts.source
    source_routes = _embedded(parts, source) if isinstance(source, Embedded) else _sent_on(parts, source)
    asked = (
        parts.intake,
        parts.prometheus,
        parts.fleet,
        parts.runs,
        parts.money,
        parts.delivery,
        parts.backups,
        parts.access_apis,
        parts.pages,
    )
    routes = [
        *source_routes,
        *(one for apis in asked for one in apis.routes()),
        *_own_routes(parts.probes),
        *WebApp().routes(),
    ]
    doctor = DoctorApi(tuple(routes))
    parts.pages.add(doctor)
    return routes + doctor.routes()


_SENT_ON = (
    "query",
    "query_range",
    "series",
    "labels",
    "label/{name}/values",
    "metadata",
    "query_exemplars",
)


def _own_routes(probes: Probes) -> list[GuardedRoute]:
    return [
        route("/api/openapi.json", openapi, narrowed=True),
        route("/healthz", probes.healthz, needs=None),
        route("/readyz", probes.readyz, needs=None),
        route("/-/healthy", probes.healthy, narrowed=True),
        route("/-/ready", probes.ready, narrowed=True),
        route("/-/reload", probes.reload, "POST", "PUT", needs=Right.ADMIN),
        route("/metrics", probes.metrics),
        route("/metrics/workloads", probes.workload_metrics),
        route("/metrics/kubernetes", probes.kubernetes_metrics),
    ]


# What is asked of the samples: here, or of the server that has them. The most frequent come first.


def _embedded(parts: Parts, source: Embedded) -> list[GuardedRoute]:
    max_body = parts.settings.server.max_body
    lookback_ms = round(parts.settings.query.lookback_delta.total_seconds() * 1000)
    queries = QueryApi(
        source.engines, source.samples, parts.runner, lookback_ms=lookback_ms, max_body=max_body
    )
    catalog = CatalogApi(source.catalog, parts.runner, max_body=max_body)
    federation = FederateApi(source.samples, parts.runner, lookback_ms=lookback_ms)
    return [
        route("/api/v1/query", queries.instant, "GET", "POST", narrowed=True),
        route("/api/v1/query_range", queries.range, "GET", "POST", narrowed=True),
        route("/api/v1/series", catalog.series, "GET", "POST", narrowed=True),
        route("/api/v1/labels", catalog.labels, "GET", "POST", narrowed=True),
        route("/api/v1/label/{name}/values", catalog.label_values, narrowed=True),
        route("/api/v1/metadata", catalog.metadata, narrowed=True),
        route("/api/v1/query_exemplars", status.exemplars, "GET", "POST", narrowed=True),
        route("/federate", federation.federate, narrowed=True),
    ]


def _sent_on(parts: Parts, source: Upstream) -> list[GuardedRoute]:
    # A partial each, so that requests are counted by route: the endpoint is what tells routes apart.
    return [
        route(f"/api/v1/{path}", partial(source.forward, parts.runner), "GET", "POST", narrowed=True)
        for path in _SENT_ON
    ]


def _metric_label(path: str) -> str:
    return path.replace("{", ":").replace("}", "")
