"""What the server tells about itself on /metrics, of workloads on /metrics/workloads, and of clusters on
/metrics/kubernetes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder

from trilens import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class SelfMetrics:
    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each counter, which nothing here reads
        self.registry = CollectorRegistry()
        # Apart: the store has them already, and a Trilens that scrapes itself must not have every pod twice.
        self.workloads = CollectorRegistry()
        self.kubernetes: Callable[[], bytes] = bytes  # the page: too many series for a registry
        self.certificate_ends_s: float | None = None  # since the epoch; whoever uses one says so
        self.certificate_trouble = ""  # why the one that is on disk now is not in use
        ProcessCollector(registry=self.registry)
        build = Gauge(
            "trilens_build_info", "The running version, as a label.", ["version"], registry=self.registry
        )
        build.labels(__version__).set(1)
        self.requests = Counter(
            "trilens_http_requests_total",
            "HTTP requests answered, by route and status.",
            ["handler", "code"],
            registry=self.registry,
        )
        self.durations = Histogram(
            "trilens_http_request_duration_seconds",
            "Time from a request's arrival to the end of its answer, by route.",
            ["handler"],
            buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 120),
            registry=self.registry,
        )
        self.loop_delays = Histogram(
            "trilens_event_loop_delay_seconds",
            "By how much the event loop that answers requests came late to what was due, every second.",
            buckets=(0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10),
            registry=self.registry,
        )

    def watch(self, collect: Callable[[], Iterable[Metric]]) -> None:
        """Metrics that are read off the system's state when someone asks for them."""
        self.registry.register(_StateCollector(collect))

    def watch_workloads(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.workloads.register(_StateCollector(collect))

    def collect(self) -> Iterator[Metric]:
        """All of both, for another server."""
        yield from self.registry.collect()
        yield from self.workloads.collect()


def exposition(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """The text and its content type: OpenMetrics where the client asks for it."""
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


class _StateCollector:
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collect

    def describe(self) -> Iterable[Metric]:
        return ()  # or the registry would collect once just to learn the names


class Meter:
    """ASGI middleware that counts and times requests by the route that took them."""

    def __init__(self, app: ASGIApp, metrics: SelfMetrics, handlers: dict[object, str]) -> None:
        self._app = app
        self._metrics = metrics
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun = time.perf_counter()
        status = 500

        async def watching(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watching)
        finally:
            # Only known routes: a label must not grow with whatever paths strangers try.
            handler = self._handlers.get(scope.get("endpoint"), "other")
            self._metrics.requests.labels(handler, str(status)).inc()
            self._metrics.durations.labels(handler).observe(time.perf_counter() - begun)
