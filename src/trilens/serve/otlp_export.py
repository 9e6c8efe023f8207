"""Steps and checkpoints of runs, sent to a collector as OTLP traces while they come in."""

from __future__ import annotations

import asyncio
import gzip
import logging
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from prometheus_client.core import CounterMetricFamily

from trilens import __version__
from trilens.collect.otlp.step_spans import StepWithBatch, trace_request, with_batches
from trilens.model.errors import ConfigError
from trilens.model.masking import without_passwords
from trilens.serve.state_metrics import gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from trilens.model.run import CheckpointRecord
    from trilens.model.run_commit import RunCommit
    from trilens.settings.endpoint import OtlpSettings

log = logging.getLogger(__name__)

_AT_ONCE: Final = 1_000  # steps in a request
_MOST_WAITING: Final = 50_000  # steps and checkpoints; about 50 MB of them
_LONGEST_WAIT_S: Final = 60.0
_STOP_S: Final = 10.0  # for what waits when the server stops
_AGAIN: Final = frozenset({429, 502, 503, 504})  # what OTLP says is worth another try


@dataclass(slots=True)
class ExportStats:
    """Records, counted since start."""

    sent: int = 0
    dropped: int = 0  # the queue was full
    refused: int = 0  # by the collector, for good
    failures: int = 0  # requests


class _Failed(Exception):
    """Worth another try, after `wait_s` if the collector said so."""

    def __init__(self, reason: str, wait_s: float | None = None) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class OtlpExport:
    """`offer` may be called by any thread and never waits; the rest belongs to the event loop."""

    def __init__(self, settings: OtlpSettings) -> None:
        self._settings = settings
        self._url = f"{settings.url}/v1/traces"
        self._waiting: deque[StepWithBatch | CheckpointRecord] = deque()
        self._lock = threading.Lock()
        self._session: aiohttp.ClientSession | None = None
        self._task: asyncio.Task[None] | None = None
        self._failing = False
        self.stats = ExportStats()

    def offer(self, commit: RunCommit) -> None:
        steps = with_batches(commit.steps, commit.batches)
        with self._lock:
            self._waiting.extend(steps)
            self._waiting.extend(commit.checkpoints)
            while len(self._waiting) > _MOST_WAITING:
                self._waiting.popleft()
                self.stats.dropped += 1

    async def start(self) -> None:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout.total_seconds()),
            connector=aiohttp.TCPConnector(ssl=self._settings.tls()),
        )
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Tries once more for what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            try:
                async with asyncio.timeout(_STOP_S):
                    while self._waiting:
                        await self._send()
            except (_Failed, TimeoutError):
                self.stats.dropped += len(self._waiting)
        if self._session is not None:
            await self._session.close()

    def metrics(self) -> Iterator[Metric]:
        yield gauge("trilens_otlp_export_waiting", "Records that wait to be sent.", len(self._waiting))
        outcomes = {
            "sent": self.stats.sent,
            "dropped": self.stats.dropped,
            "refused": self.stats.refused,
        }
        help_text = "Steps and checkpoints, by what became of them."
        family = CounterMetricFamily("trilens_otlp_export_records", help_text, labels=["outcome"])
        for outcome, count in outcomes.items():
            family.add_metric([outcome], count)
        yield family
        failures = CounterMetricFamily(
            "trilens_otlp_export_failures", "Requests that were not answered well."
        )
        failures.add_metric([], self.stats.failures)
        yield failures

    async def _run(self) -> None:
        pause_s = interval_s = self._settings.interval.total_seconds()
        while True:
            await asyncio.sleep(pause_s)
            try:
                while self._waiting:
                    await self._send()
                pause_s = interval_s
            except _Failed as e:
                pause_s = min(e.wait_s or max(2 * pause_s, 1.0), _LONGEST_WAIT_S)

    async def _send(self) -> None:
        """The oldest ones; they leave the queue once it is known what became of them."""
        with self._lock:
            taken = [self._waiting[i] for i in range(min(_AT_ONCE, len(self._waiting)))]
        try:
            body = await asyncio.to_thread(_body, taken)
        except Exception:  # a record that OTLP has no room for must not keep all others from being sent
            log.exception("steps that cannot be written as OTLP are left out", extra={"records": len(taken)})
            refused = len(taken)
        else:
            refused = await self._post(body, len(taken))
        with self._lock:
            for one in taken:
                if self._waiting and self._waiting[0] is one:  # else it was dropped meanwhile
                    self._waiting.popleft()
        self.stats.sent += len(taken) - refused
        self.stats.refused += refused

    async def _post(self, body: bytes, records: int) -> int:
        """How many were refused for good."""
        assert self._session is not None
        try:
            headers = {
                **self._settings.request_headers(),
                "Content-Type": "application/x-protobuf",
                "Content-Encoding": "gzip",
                "User-Agent": f"trilens/{__version__}",
            }
            async with self._session.post(self._url, data=body, headers=headers) as answer:
                content = await answer.read()
                status, wait = answer.status, answer.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError, ConfigError) as e:  # a secret's file may be gone
            reason = without_passwords(str(e)) or type(e).__name__
            self._say(reason)
            raise _Failed(reason) from e
        if status in _AGAIN:
            self._say(f"HTTP {status}")
            raise _Failed(f"HTTP {status}", float(wait) if wait.isdecimal() else None)
        if status >= 300:
            self._say(f"HTTP {status}: {content[:200].decode(errors='replace').strip()}")
            return records
        if self._failing:
            log.info("steps are sent again", extra={"url": without_passwords(self._url)})
        self._failing = False
        return _refused(content, records)

    def _say(self, reason: str) -> None:
        self.stats.failures += 1
        if not self._failing:
            log.warning("cannot send steps", extra={"url": without_passwords(self._url), "error": reason})
        self._failing = True


def _body(records: list[StepWithBatch | CheckpointRecord]) -> bytes:
    return gzip.compress(trace_request(records).SerializeToString(), 1)


def _refused(content: bytes, records: int) -> int:
    """What a collector says it did not take, which it counts in spans."""
    try:
        told = ExportTraceServiceResponse.FromString(content).partial_success
    except DecodeError:
        return 0  # some answer with text, and with 200
    return min(records, told.rejected_spans)
