"""What the OpenAPI document says of fixes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.model.fix import Deed
from trilens.serve.cure.cure_answers import FixAnswer, ProposalAnswer
from trilens.serve.openapi_pieces import list_of, operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

CURE_TYPES: Final[tuple[type, ...]] = (FixAnswer, ProposalAnswer)

_ID: Final = parameter("id", "path", "The id of the fix.")
_BY: Final = parameter("by", "query", "Who wants it.")
_SUBJECT: Final = {
    **parameter("subject", "query", "A workload, a pod or a node: NAME, NAMESPACE/NAME, KIND/NAME, ..."),
    "required": True,
}
_NAMESPACE: Final = parameter("namespace", "query", "Only of this namespace.")
_TOLD: Final = [
    _SUBJECT,
    _NAMESPACE,
    {
        **parameter("deed", "query", "What to do."),
        "required": True,
        "schema": {"type": "string", "enum": list(Deed)},
    },
    {
        **parameter("do", "query", "`true`: do it; else it is only tried out."),
        "schema": {"type": "string", "enum": ["true", "false"]},
    },
    _BY,
    parameter("why", "query", "Why, for people."),
    parameter("source", "query", "What that rests on: `event NODE/ID`, `verdict CAUSE`."),
    parameter("set", "query", "To annotate: NAME=VALUE, may be repeated; an empty value takes it away."),
    parameter("wait", "query", "To evict: how long a PodDisruptionBudget is waited for, at most 1m."),
]


def cure_paths(schemas: Mapping[type, dict[str, Any]], failure: dict[str, Any]) -> dict[str, Any]:
    fix = schemas[FixAnswer]
    filters = [
        parameter("state", "query", "Only waiting, begun, done, failed or dropped."),
        parameter("limit", "query", "The latest so many; 100 if left out."),
    ]
    return {
        "/api/fixes": {
            "get": operation("What was done, or waits to be.", filters, list_of(fix), failure),
            "post": operation("Do something, or try it out.", _TOLD, fix, failure),
        },
        "/api/fixes/proposals": {
            "get": operation(
                "What could be done.", [_SUBJECT, _NAMESPACE], list_of(schemas[ProposalAnswer]), failure
            )
        },
        "/api/fixes/{id}/approve": {"post": operation("Do what waits.", [_ID, _BY], fix, failure)},
        "/api/fixes/{id}/undo": {
            "post": operation("Take it back, or reject what waits.", [_ID, _BY], fix, failure)
        },
    }
