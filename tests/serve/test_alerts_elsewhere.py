"""Alerts of another server become symptoms of incidents, and end when it says so, not when it is silent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from trilens.alert.incidents.incidents import Incidents
from trilens.model.alert import Alert, AlertState
from trilens.model.errors import SourceError
from trilens.serve.incidents.alerts_elsewhere import AlertsElsewhere
from trilens.serve.incidents.keeper import IncidentKeeper
from trilens.serve.upstream import Upstream
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.model.incident import Incident

T0_MS = 1_790_000_000_000
STALLED = {
    "labels": {"alertname": "TrainingStalled", "severity": "critical", "namespace": "ml", "workload": "llm"},
    "annotations": {"summary": "ml/llm has finished no step", "action": "Restart it."},
    "state": "firing",
    "activeAt": "2026-09-21T14:13:20.123456789Z",
    "value": "7.2e+02",
}
SLOW = {**STALLED, "labels": {**STALLED["labels"], "alertname": "TrainingSlow"}}  # type: ignore[dict-item]
WAITS = {**STALLED, "labels": {"alertname": "GpuHot", "node": "n1"}, "state": "pending"}


class Kept:
    """No disk."""

    def put(self, incidents: Sequence[Incident]) -> None: ...

    def during(self, _from_ms: int, _to_ms: int) -> Sequence[Incident]:
        return ()

    def open(self) -> Sequence[Incident]:
        return ()


@contextlib.contextmanager
def server(bodies: list[bytes]) -> Iterator[str]:
    """Gives one answer after the other at /api/v1/alerts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/api/v1/alerts" else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(bodies.pop(0))

        def log_message(self, *_: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


def answer(*alerts: dict[str, Any]) -> bytes:
    return json.dumps({"status": "success", "data": {"alerts": alerts}}).encode()


def test_what_fires_there_is_an_incident_here_until_it_is_over_there() -> None:
    now = {"ms": T0_MS}
    keeper = IncidentKeeper(Incidents(), Kept(), clock_ms=lambda: now["ms"])
    told: list[list[Alert]] = []
    bodies = [answer(STALLED, SLOW, WAITS), b"{}", b"no JSON", answer(SLOW), answer()]

    def take(alerts: Sequence[Alert]) -> None:
        told.append(list(alerts))
        keeper.take_alerts(alerts)
        keeper.work()

    async def story(url: str) -> None:
        upstream = Upstream(load_settings(overrides={"source.url": url}, environ={}).source, 1_000_000)
        await upstream.start()
        elsewhere = AlertsElsewhere(upstream, take, clock_ms=lambda: now["ms"])
        await elsewhere.look()
        for _ in range(2):
            with pytest.raises(SourceError, match="does not tell its alerts"):
                await elsewhere.look()
        now["ms"] += 300_000
        keeper.work()
        assert len(keeper.open()) == 1  # silence is no end
        await elsewhere.look()
        await elsewhere.look()
        await upstream.stop()

    with server(bodies) as url:
        asyncio.run(story(url))
    first, second, third = told
    assert {dict(one.labels)["alertname"]: one.state for one in first} == {
        "TrainingStalled": AlertState.FIRING,
        "TrainingSlow": AlertState.FIRING,
    }
    assert first[0].active_ms == 1_790_000_000_123
    assert first[0].value == 720
    assert {dict(one.labels)["alertname"]: one.state for one in second} == {
        "TrainingSlow": AlertState.FIRING,
        "TrainingStalled": AlertState.RESOLVED,
    }
    assert [one.state for one in third] == [AlertState.RESOLVED]
    (incident,) = keeper.open()  # it settles for some minutes
    assert [one.name for one in incident.symptoms] == ["TrainingStalled", "TrainingSlow"]
    assert all(one.ended_ms is not None for one in incident.symptoms)


@pytest.mark.parametrize("change", [{"activeAt": "now"}, {"labels": 7}, {"value": "much"}], ids=str)
def test_what_is_not_an_alert_is_a_clear_error(change: dict[str, Any]) -> None:
    class Source:
        async def alerts(self) -> list[dict[str, Any]]:
            return [{**STALLED, **change}]

    with pytest.raises(SourceError, match="not Prometheus's"):
        asyncio.run(AlertsElsewhere(Source(), lambda _: None).look())
