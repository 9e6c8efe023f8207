"""All that is read from outside."""

from __future__ import annotations

from typing import Final

from bench.torture.fuzz.bundle import BUNDLE
from bench.torture.fuzz.exposition import EXPOSITION
from bench.torture.fuzz.flight import FLIGHT
from bench.torture.fuzz.kubernetes import KUBERNETES
from bench.torture.fuzz.logs import LOGS
from bench.torture.fuzz.otlp import OTLP_METRICS, OTLP_TRACES
from bench.torture.fuzz.promql import PROMQL
from bench.torture.fuzz.remote_write import REMOTE_WRITE
from bench.torture.fuzz.run_records import RUN_RECORDS

TARGETS: Final = (
    EXPOSITION,
    REMOTE_WRITE,
    OTLP_METRICS,
    OTLP_TRACES,
    RUN_RECORDS,
    PROMQL,
    KUBERNETES,
    LOGS,
    FLIGHT,
    BUNDLE,
)
BY_NAME: Final = {target.name: target for target in TARGETS}
