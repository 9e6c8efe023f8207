"""What is asked of workloads and the machines under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.model.identity import Right
from trilens.serve.openapi import ONE_WORKLOAD
from trilens.serve.routes import route

if TYPE_CHECKING:
    from trilens.serve.cases.cases_api import CasesApi
    from trilens.serve.cure.cure_api import CureApi
    from trilens.serve.detection.findings import FindingsApi
    from trilens.serve.events import EventsApi
    from trilens.serve.gpus import GpusApi
    from trilens.serve.incidents.incidents_api import IncidentsApi
    from trilens.serve.output import OutputApi
    from trilens.serve.routes import GuardedRoute
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

    def routes(self) -> list[GuardedRoute]:
        return [
            route("/api/workloads", self.workloads.every, narrowed=True),
            route(ONE_WORKLOAD, self.workloads.one, narrowed=True),
            route("/api/gpus", self.gpus.every, narrowed=True),
            route("/api/events", self.events.every, narrowed=True),
            route("/api/output", self.output.of_pod, narrowed=True),
            route("/api/findings", self.findings.every, narrowed=True),
            route("/api/why", self.cases.why, narrowed=True),
            route("/api/why", self.cases.why, "POST", needs=Right.FIX, narrowed=True),
            route("/api/case", self.cases.case, narrowed=True),
            route("/api/case", self.cases.case, "POST", needs=Right.FIX, narrowed=True),
            route("/api/fixes", self.cure.every, narrowed=True),
            route("/api/fixes", self.cure.tell, "POST", needs=Right.FIX, narrowed=True),
            route("/api/fixes/proposals", self.cure.proposals, narrowed=True),
            route("/api/fixes/{id}/approve", self.cure.approve, "POST", needs=Right.FIX, narrowed=True),
            route("/api/fixes/{id}/undo", self.cure.undo, "POST", needs=Right.FIX, narrowed=True),
            route("/api/incidents", self.incidents.every, narrowed=True),
            route("/api/incidents/{id}", self.incidents.one, narrowed=True),
            route(
                "/api/incidents/{id}/acknowledge",
                self.incidents.acknowledge,
                "POST",
                needs=Right.FIX,
                narrowed=True,
            ),
        ]
