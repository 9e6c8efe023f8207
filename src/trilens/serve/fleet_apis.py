"""What is asked of workloads and the machines under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.serve.openapi import ONE_WORKLOAD
from trilens.serve.routes import route

if TYPE_CHECKING:
    from starlette.routing import Route

    from trilens.serve.cases.cases_api import CasesApi
    from trilens.serve.cure.cure_api import CureApi
    from trilens.serve.detection.findings import FindingsApi
    from trilens.serve.events import EventsApi
    from trilens.serve.gpus import GpusApi
    from trilens.serve.incidents.incidents_api import IncidentsApi
    from trilens.serve.output import OutputApi
    from trilens.serve.workloads import WorkloadsApi


@dataclass(frozen=True, slots=True)
class FleetApis:
    workloads: WorkloadsApi
    gpus: GpusApi
    events: EventsApi
    output: OutputApi
    findings: FindingsApi
    incidents: IncidentsApi
    cases: CasesApi
    cure: CureApi

    def routes(self) -> list[Route]:
        return [
            route("/api/workloads", self.workloads.every),
            route(ONE_WORKLOAD, self.workloads.one),
            route("/api/gpus", self.gpus.every),
            route("/api/events", self.events.every),
            route("/api/output", self.output.of_pod),
            route("/api/findings", self.findings.every),
            route("/api/why", self.cases.why),
            route("/api/case", self.cases.case),
            route("/api/fixes", self.cure.every),
            route("/api/fixes", self.cure.tell, "POST"),
            route("/api/fixes/proposals", self.cure.proposals),
            route("/api/fixes/{id}/approve", self.cure.approve, "POST"),
            route("/api/fixes/{id}/undo", self.cure.undo, "POST"),
            route("/api/incidents", self.incidents.every),
            route("/api/incidents/{id}", self.incidents.one),
            route("/api/incidents/{id}/acknowledge", self.incidents.acknowledge, "POST"),
        ]
