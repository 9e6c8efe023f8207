"""What becomes of steps on their way to a collector that does not take them."""

from __future__ import annotations

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from servers import free_port
from trilens.model.run import RunId, StepRecord
from trilens.model.run_commit import RunCommit
from trilens.serve import otlp_export
from trilens.serve.otlp_export import OtlpExport
from trilens.settings.endpoint import OtlpSettings

if TYPE_CHECKING:
    from collections.abc import Iterator


def steps(*numbers: int) -> RunCommit:
    return RunCommit(steps=[StepRecord(RunId("r"), n, 0, 0, n, 1_000 * n, 10) for n in numbers])


@pytest.fixture
def refusing() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b"no such tenant")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def sent_until_the_end(export: OtlpExport) -> None:
    async def run() -> None:
        await export.start()
        await export.stop()  # tries for what waits

    asyncio.run(run())


def test_the_oldest_go_when_too_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_export, "_MOST_WAITING", 3)
    export = OtlpExport(OtlpSettings(url="http://127.0.0.1:1"))
    export.offer(steps(0, 1))
    export.offer(steps(2, 3, 4))
    assert export.stats.dropped == 2
    shown = {sample.name: sample.value for family in export.metrics() for sample in family.samples}
    assert shown["trilens_otlp_export_waiting"] == 3


def test_a_collector_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    export = OtlpExport(OtlpSettings(url=f"http://127.0.0.1:{free_port()}"))
    export.offer(steps(0, 1))
    sent_until_the_end(export)
    assert (export.stats.sent, export.stats.dropped, export.stats.failures) == (0, 2, 1)
    assert [record.message for record in caplog.records] == ["cannot send steps"]


def test_a_record_that_otlp_has_no_room_for_does_not_end_the_export(
    refusing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp_export, "_AT_ONCE", 1)
    export = OtlpExport(OtlpSettings(url=refusing))
    export.offer(steps(-1, 1))  # before 1970
    sent_until_the_end(export)
    assert export.stats.refused == 2
    assert export.stats.failures == 1, "only the second could be sent"


def test_what_a_collector_refuses_is_not_sent_again(refusing: str, caplog: pytest.LogCaptureFixture) -> None:
    export = OtlpExport(OtlpSettings(url=refusing))
    export.offer(steps(0, 1))
    sent_until_the_end(export)
    assert (export.stats.sent, export.stats.refused, export.stats.dropped) == (0, 2, 0)
    (record,) = caplog.records
    assert record.__dict__["error"] == "HTTP 400: no such tenant"
