"""What takes in samples, records and tables that others send."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.model.identity import Right
from trilens.serve.routes import route

if TYPE_CHECKING:
    from trilens.serve.backfill import BackfillApi
    from trilens.serve.money.imports import ImportsApi
    from trilens.serve.otlp import OtlpApi
    from trilens.serve.routes import GuardedRoute
    from trilens.serve.runs_intake import RunRecordsApi
    from trilens.serve.serving_programs import HeartbeatApi
    from trilens.serve.write import WriteApi


@dataclass(frozen=True, slots=True)
class IntakeApis:
    write: WriteApi
    run_records: RunRecordsApi
    heartbeats: HeartbeatApi
    otlp: OtlpApi
    backfill: BackfillApi
    imports: ImportsApi

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/api/v1/write", self.write.write, "POST", needs=Right.INTAKE),
            route("/api/v1/runs/records", self.run_records.take, "POST", needs=Right.INTAKE),
            route("/api/v1/programs/heartbeat", self.heartbeats.take, "POST", needs=Right.INTAKE),
            route("/v1/metrics", self.otlp.metrics, "POST", needs=Right.INTAKE),
            route("/v1/traces", self.otlp.traces, "POST", needs=Right.INTAKE),
            route("/api/v1/import/openmetrics", self.backfill.openmetrics, "POST", needs=Right.ADMIN),
            route("/api/v1/import/prometheus", self.backfill.prometheus, "POST", needs=Right.ADMIN),
            route("/api/v1/import/jobs", self.imports.jobs, "POST", needs=Right.ADMIN),
            route("/api/v1/import/usage", self.imports.usage, "POST", needs=Right.ADMIN),
        ]
