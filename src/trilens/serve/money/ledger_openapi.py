"""The OpenAPI paths of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.money.ledger_answers import HourAnswer, LedgerAnswer, RecomputeAnswer, VerifyAnswer
from trilens.serve.openapi_pieces import list_of, operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

LEDGER_TYPES: Final = (LedgerAnswer, HourAnswer, VerifyAnswer, RecomputeAnswer)

_SPAN: Final = [
    parameter("from", "query", "The first hour, Unix seconds or RFC 3339; a day before `to` if left out."),
    parameter("to", "query", "The end, not included; now if left out."),
]
_SOME: Final = [
    parameter("from", "query", "Only hours that wait from this moment on."),
    parameter("to", "query", "Only hours that wait before this moment."),
]


def ledger_paths(schemas: Mapping[type, Schema], failure: Schema) -> dict[str, Any]:
    def get(text: str, parameters: list[Schema], data: Schema) -> Schema:
        return {"get": operation(text, parameters, data, failure)}

    again = [{**one, "required": True} for one in _SPAN]
    return {
        "/api/ledger": get("How the ledger fares.", _SOME, schemas[LedgerAnswer]),
        "/api/ledger/hours": get("Hours with their revisions.", _SPAN, list_of(schemas[HourAnswer])),
        "/api/ledger/verify": get("Whether the rows add up to the bills.", _SPAN, schemas[VerifyAnswer]),
        "/api/ledger/recompute": {
            "post": operation("Compute hours again.", again, schemas[RecomputeAnswer], failure)
        },
    }
