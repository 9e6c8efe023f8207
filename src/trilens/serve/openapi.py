"""The OpenAPI schema of the typed part of the API, made from the types that it answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response

from trilens import __version__
from trilens.model.life import Phase
from trilens.serve.access.access_openapi import ACCESS_TYPES, access_paths
from trilens.serve.backup_openapi import BACKUP_TYPES, backup_paths
from trilens.serve.cases.cases_openapi import CASE_TYPES, case_paths
from trilens.serve.cure.cure_openapi import CURE_TYPES, cure_paths
from trilens.serve.delivery_openapi import DELIVERY_TYPES, delivery_paths
from trilens.serve.detection.finding_answers import FindingAnswer
from trilens.serve.envelope import JSON
from trilens.serve.event_answers import EventAnswer, PodOutputAnswer
from trilens.serve.experiments_openapi import EXPERIMENT_TYPES, experiment_paths
from trilens.serve.gpu_answers import GpuAnswer
from trilens.serve.incidents.incidents_openapi import INCIDENT_TYPES, incident_paths
from trilens.serve.money.cost_openapi import COST_TYPES, cost_paths
from trilens.serve.money.ledger_openapi import LEDGER_TYPES, ledger_paths
from trilens.serve.money.prices_openapi import PRICE_TYPES, price_paths
from trilens.serve.openapi_pieces import list_of, operation, parameter
from trilens.serve.pages.openapi import PAGE_TYPES, page_paths
from trilens.serve.run_openapi import RUN_TYPES, run_paths
from trilens.serve.workload_answers import WorkloadAnswer, WorkloadDetail

if TYPE_CHECKING:
    from starlette.requests import Request

ONE_WORKLOAD = "/api/workloads/{cluster}/{namespace}/{kind}/{name}"


class _Failure(msgspec.Struct, rename={"error_type": "errorType"}):
    """`error` ends with the hint, in brackets, where there is one."""

    status: str
    error_type: str
    error: str
    hint: str | None = None


async def openapi(_request: Request) -> Response:
    return Response(msgspec.json.encode(document()), media_type=JSON)


def document() -> dict[str, Any]:
    told: tuple[type, ...] = (
        FindingAnswer,
        *ACCESS_TYPES,
        *CASE_TYPES,
        *CURE_TYPES,
        *INCIDENT_TYPES,
        *DELIVERY_TYPES,
        *BACKUP_TYPES,
        *RUN_TYPES,
        *EXPERIMENT_TYPES,
        *LEDGER_TYPES,
        *COST_TYPES,
        *PRICE_TYPES,
        *PAGE_TYPES,
    )
    (summary, whole, gpu, event, output, failure, *others), components = msgspec.json.schema_components(
        [WorkloadAnswer, WorkloadDetail, GpuAnswer, EventAnswer, PodOutputAnswer, _Failure, *told],
        ref_template="#/components/schemas/{name}",
    )
    schemas = dict(zip(told, others, strict=True))
    at = parameter("at", "query", "The moment asked about, Unix seconds or RFC 3339; now if left out.")
    named = [
        parameter("cluster", "path", "As it is called in kubernetes.clusters."),
        parameter("namespace", "path", "Its namespace."),
        parameter("kind", "path", "Its kind; `Kind.group` where two groups have one of that kind and name."),
        parameter("name", "path", "Its name."),
    ]
    listed = parameter("limit", "query", "At most so many members and GPUs, those that are there first.")
    phases = {"type": "string", "enum": [phase.value for phase in Phase]}
    filters = [
        parameter("cluster", "query", "Only of this cluster."),
        parameter("namespace", "query", "Only of this namespace."),
        parameter("name", "query", "Only of this name."),
        {**parameter("phase", "query", "Only those in this phase, or gone in it."), "schema": phases},
        parameter("from", "query", "Also those that were there since this moment and are gone."),
    ]
    several = {"type": "array", "items": summary}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trilens", "version": __version__},
        "paths": {
            "/api/workloads": {"get": operation("Workloads at a moment.", [at, *filters], several, failure)},
            "/api/gpus": {"get": operation("GPUs at a moment.", [at, *_GPU_FILTERS], list_of(gpu), failure)},
            "/api/events": {
                "get": operation("Faults and warnings.", _EVENT_FILTERS, list_of(event), failure)
            },
            "/api/output": {"get": operation("The end of a pod's output.", _POD, list_of(output), failure)},
            "/api/findings": {
                "get": operation(
                    "What detectors find.", _FINDING_FILTERS, list_of(schemas[FindingAnswer]), failure
                )
            },
            ONE_WORKLOAD: {
                "get": operation("One workload until a moment.", [*named, at, listed], whole, failure)
            },
            **access_paths(schemas, failure),
            **case_paths(schemas, failure),
            **cure_paths(schemas, failure),
            **incident_paths(schemas, failure),
            **delivery_paths(schemas, failure),
            **backup_paths(schemas, failure),
            **run_paths(schemas, failure),
            **experiment_paths(schemas, failure),
            **ledger_paths(schemas, failure),
            **cost_paths(schemas, failure),
            **price_paths(schemas, failure),
            **page_paths(schemas, failure),
        },
        "components": {"schemas": components},
    }


_GPU_FILTERS: Final = [
    parameter("cluster", "query", "Only of this cluster, or held by something there."),
    parameter("node", "query", "Only of this node."),
    parameter("namespace", "query", "Only those that a pod of this namespace holds."),
    parameter("workload", "query", "Only those that a workload of this name holds."),
    {
        **parameter("lost", "query", "Only those that should be there and do not report."),
        "schema": {"type": "string", "enum": ["true", "false"]},
    },
]
_EVENT_FILTERS: Final = [
    parameter("workload", "query", "Only what hit this one: a name, NAMESPACE/NAME, KIND/NAME or all four."),
    parameter("node", "query", "Only of this node."),
    parameter("from", "query", "The first moment, Unix seconds or RFC 3339; a day before `to` if left out."),
    parameter("to", "query", "The last moment; now if left out."),
    parameter("limit", "query", "The latest so many; 100 if left out."),
]
_FINDING_FILTERS: Final = [
    parameter("all", "query", "`true`: also those of the last day that are over."),
    parameter("from", "query", "Also those that lasted since this moment; a day before `to` if left out."),
    parameter("to", "query", "The last moment; now if left out."),
    parameter("code", "query", "Only of this detector: D001, ..."),
    parameter("severity", "query", "Only critical, warning or info."),
    parameter("workload", "query", "Only of the workload of this name."),
    parameter("namespace", "query", "Only of this namespace."),
    parameter("run", "query", "Only of this run."),
    parameter("node", "query", "Only of this node."),
]
_POD: Final = [
    {**parameter("namespace", "query", "The pod's namespace."), "required": True},
    {**parameter("pod", "query", "Its name."), "required": True},
    parameter("cluster", "query", "Its cluster, where several have a pod of that name."),
]
