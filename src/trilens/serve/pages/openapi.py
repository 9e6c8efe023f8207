"""The OpenAPI paths of what pages are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.openapi_pieces import operation, parameter
from trilens.serve.pages.doctor_answers import DoctorAnswer
from trilens.serve.pages.fleet_openapi import FLEET_TYPES, fleet_paths
from trilens.serve.pages.now_answers import NowPageAnswer
from trilens.serve.pages.services_openapi import SERVICE_TYPES, service_paths
from trilens.serve.pages.timeline_openapi import TIMELINE_TYPES, timeline_paths
from trilens.serve.query_check import CheckedQuery

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

PAGE_TYPES: Final[tuple[type, ...]] = (
    NowPageAnswer,
    DoctorAnswer,
    CheckedQuery,
    *SERVICE_TYPES,
    *FLEET_TYPES,
    *TIMELINE_TYPES,
)

_SPAN: Final = [
    parameter("from", "query", "Unix seconds or RFC 3339, cut down to the hour; 12 hours before the end."),
    parameter("to", "query", "Rounded up to the hour; the end of the hour that runs if left out."),
]
_QUERY: Final = [parameter("query", "query", "PromQL.")]
_FRESH: Final = [parameter("fresh", "query", "`true`: look now; else what was seen within the last minute.")]


def page_paths(schemas: Mapping[type, Schema], failure: Schema) -> dict[str, Any]:
    def get(text: str, parameters: list[Schema], data: type) -> Schema:
        return {"get": operation(text, parameters, schemas[data], failure)}

    return {
        "/api/now": get("What the page Now shows: burn rate, GPUs, incidents, money.", _SPAN, NowPageAnswer),
        "/api/promql/check": get("Whether a query can be read, and where not.", _QUERY, CheckedQuery),
        "/api/doctor": get("What the server cannot see, and what to do.", _FRESH, DoctorAnswer),
        **service_paths(schemas, failure),
        **fleet_paths(schemas, failure),
        **timeline_paths(schemas, failure),
    }
