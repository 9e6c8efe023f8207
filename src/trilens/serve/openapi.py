"""The OpenAPI schema of the typed part of the API, made from the types that it answers with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.responses import Response

from trilens import __version__
from trilens.model.life import Phase
from trilens.serve.envelope import JSON
from trilens.serve.event_answers import EventAnswer, PodOutputAnswer
from trilens.serve.gpu_answers import GpuAnswer
from trilens.serve.workload_answers import WorkloadAnswer, WorkloadDetail

if TYPE_CHECKING:
    from starlette.requests import Request

ONE_WORKLOAD = "/api/workloads/{cluster}/{namespace}/{kind}/{name}"


class _Failure(msgspec.Struct, rename={"error_type": "errorType"}):
    status: str
    error_type: str
    error: str


async def openapi(_request: Request) -> Response:
    return Response(msgspec.json.encode(document()), media_type=JSON)


def document() -> dict[str, Any]:
    (summary, whole, gpu, event, output, failure), components = msgspec.json.schema_components(
        [WorkloadAnswer, WorkloadDetail, GpuAnswer, EventAnswer, PodOutputAnswer, _Failure],
        ref_template="#/components/schemas/{name}",
    )
    at = _parameter("at", "query", "The moment asked about, Unix seconds or RFC 3339; now if left out.")
    named = [
        _parameter("cluster", "path", "As it is called in kubernetes.clusters."),
        _parameter("namespace", "path", "Its namespace."),
        _parameter("kind", "path", "Its kind; `Kind.group` where two groups have one of that kind and name."),
        _parameter("name", "path", "Its name."),
    ]
    phases = {"type": "string", "enum": [phase.value for phase in Phase]}
    filters = [
        _parameter("cluster", "query", "Only of this cluster."),
        _parameter("namespace", "query", "Only of this namespace."),
        _parameter("name", "query", "Only of this name."),
        {**_parameter("phase", "query", "Only those in this phase, or gone in it."), "schema": phases},
        _parameter("from", "query", "Also those that were there since this moment and are gone."),
    ]
    several = {"type": "array", "items": summary}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Trilens", "version": __version__},
        "paths": {
            "/api/workloads": {"get": _operation("Workloads at a moment.", [at, *filters], several, failure)},
            "/api/gpus": {
                "get": _operation("GPUs at a moment.", [at, *_GPU_FILTERS], _list_of(gpu), failure)
            },
            "/api/events": {
                "get": _operation("Faults and warnings.", _EVENT_FILTERS, _list_of(event), failure)
            },
            "/api/output": {"get": _operation("The end of a pod's output.", _POD, _list_of(output), failure)},
            ONE_WORKLOAD: {"get": _operation("One workload until a moment.", [*named, at], whole, failure)},
        },
        "components": {"schemas": components},
    }


def _parameter(name: str, place: str, text: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": place,
        "required": place == "path",
        "description": text,
        "schema": {"type": "string"},
    }


def _list_of(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


_GPU_FILTERS: Final = [
    _parameter("cluster", "query", "Only of this cluster, or held by something there."),
    _parameter("node", "query", "Only of this node."),
    _parameter("namespace", "query", "Only those that a pod of this namespace holds."),
    _parameter("workload", "query", "Only those that a workload of this name holds."),
    {
        **_parameter("lost", "query", "Only those that should be there and do not report."),
        "schema": {"type": "string", "enum": ["true", "false"]},
    },
]
_EVENT_FILTERS: Final = [
    _parameter("workload", "query", "Only what hit this one: a name, NAMESPACE/NAME, KIND/NAME or all four."),
    _parameter("node", "query", "Only of this node."),
    _parameter("from", "query", "The first moment, Unix seconds or RFC 3339; a day before `to` if left out."),
    _parameter("to", "query", "The last moment; now if left out."),
    _parameter("limit", "query", "The latest so many; 100 if left out."),
]
_POD: Final = [
    {**_parameter("namespace", "query", "The pod's namespace."), "required": True},
    {**_parameter("pod", "query", "Its name."), "required": True},
    _parameter("cluster", "query", "Its cluster, where several have a pod of that name."),
]


def _operation(
    text: str, parameters: list[dict[str, Any]], data: dict[str, Any], failure: dict[str, Any]
) -> dict[str, Any]:
    envelope = {
        "type": "object",
        "required": ["status", "data"],
        "properties": {
            "status": {"const": "success"},
            "data": data,
            "warnings": {"type": "array", "items": {"type": "string"}},
        },
    }
    return {
        "summary": text,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": {JSON: {"schema": envelope}}},
            "default": {"description": "What is wrong.", "content": {JSON: {"schema": failure}}},
        },
    }
