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
    {**parameter("exec", "query", "Run nvidia-smi in its containers, where allowed."), "schema": _TRUTH},
]
_MASKS: Final = {
    **parameter("mask_names", "query", "Replace names of namespaces, pods, nodes, teams and users."),
    "schema": _TRUTH,
}


def case_paths(schemas: Mapping[type, dict[str, Any]], failure: dict[str, Any]) -> dict[str, Any]:
    zipped = operation("All that verdicts rest on, as one file.", [*_WISH, _MASKS], {}, failure)
    zipped["responses"]["200"] = {
        "description": "A bundle.",
        "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
    }
    return {
        "/api/why": {"get": operation("Why something is wrong.", _WISH, schemas[VerdictsAnswer], failure)},
        "/api/case": {"get": zipped},
    }
