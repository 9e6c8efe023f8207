"""What the OpenAPI document says of incidents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.incidents.incident_answers import IncidentAnswer
from trilens.serve.openapi_pieces import list_of, operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

INCIDENT_TYPES: Final[tuple[type, ...]] = (IncidentAnswer,)

_ID: Final = parameter("id", "path", "The incident's id.")
_FILTERS: Final = [
    parameter("all", "query", "`true`: also those of the last day that are over."),
    parameter("from", "query", "Also those that lasted since this moment; a day before `to` if left out."),
    parameter("to", "query", "The last moment; now if left out."),
    parameter("severity", "query", "Only critical, warning or info."),
    parameter("workload", "query", "Only those from which a workload of this name suffers."),
    parameter("team", "query", "Only with a symptom of this team."),
    parameter("node", "query", "Only with a symptom of this node."),
]


def incident_paths(schemas: Mapping[type, dict[str, Any]], failure: dict[str, Any]) -> dict[str, Any]:
    incident = schemas[IncidentAnswer]
    by = parameter("by", "query", "Who has it.")
    return {
        "/api/incidents": {"get": operation("Incidents.", _FILTERS, list_of(incident), failure)},
        "/api/incidents/{id}": {"get": operation("One incident.", [_ID], incident, failure)},
        "/api/incidents/{id}/acknowledge": {
            "post": operation("Say that somebody has it.", [_ID, by], incident, failure)
        },
    }
