"""What the OpenAPI document says of services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.openapi_pieces import operation, parameter
from trilens.serve.pages.services_answers import ServiceDetail, ServicesAnswer

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_TYPES: Final[tuple[type, ...]] = (ServicesAnswer, ServiceDetail)

_AT: Final = parameter("at", "query", "The moment asked about, Unix seconds or RFC 3339; now if left out.")
_NAMED: Final = [
    parameter("cluster", "path", "Its cluster; `-` where it has none."),
    parameter("namespace", "path", "Its namespace; `-` where it has none."),
    parameter("name", "path", "The workload's name, or the job's where no workload is known."),
]
_SPAN: Final = [
    parameter("from", "query", "The first moment; 12 hours before `to` if left out."),
    parameter("to", "query", "The last moment; now if left out."),
]


def service_paths(schemas: Mapping[type, dict[str, Any]], failure: dict[str, Any]) -> dict[str, Any]:
    every = operation("Services and their objectives.", [_AT], schemas[ServicesAnswer], failure)
    one = operation("One service over time.", [*_NAMED, *_SPAN], schemas[ServiceDetail], failure)
    return {"/api/services": {"get": every}, "/api/services/{cluster}/{namespace}/{name}": {"get": one}}
