"""What the OpenAPI document says of cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.cases.case_answers import VerdictsAnswer
from trilens.serve.openapi_pieces import operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

CASE_TYPES: Final[tuple[type, ...]] = (VerdictsAnswer,)

_TRUTH: Final = {"type": "string", "enum": ["true", "false"]}
_WISH: Final = [
    {
        **parameter("subject", "query", "A workload, a pod, a node, or the id of an incident."),
        "required": True,
    },
    parameter("namespace", "query", "Only of this namespace."),
    parameter("from", "query", "What is looked at begins here; an hour before `to` if left out."),
    parameter("to", "query", "The moment that it is about; now if left out."),
]
_EXEC: Final = {
    **parameter("exec", "query", "Run nvidia-smi in its containers, where allowed."),
    "schema": _TRUTH,
}
_MASKS: Final = {
    **parameter("mask_names", "query", "Replace names of namespaces, pods, nodes, teams and users."),
    "schema": _TRUTH,
}


def case_paths(schemas: Mapping[type, dict[str, Any]], failure: dict[str, Any]) -> dict[str, Any]:
    def why(text: str, wish: list[dict[str, Any]]) -> dict[str, Any]:
        return operation(text, wish, schemas[VerdictsAnswer], failure)

    def case(text: str, wish: list[dict[str, Any]]) -> dict[str, Any]:
        zipped = operation(text, wish, {}, failure)
        zipped["responses"]["200"] = {
            "description": "A bundle.",
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        }
        return zipped

    return {
        "/api/why": {
            "get": why("Why something is wrong.", _WISH),
            "post": why("The same, and a command is run for it where that is wanted.", [*_WISH, _EXEC]),
        },
        "/api/case": {
            "get": case("All that verdicts rest on, as one file.", [*_WISH, _MASKS]),
            "post": case(
                "The same, and a command is run for it where that is wanted.", [*_WISH, _EXEC, _MASKS]
            ),
        },
    }
