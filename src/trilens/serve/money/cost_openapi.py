"""The OpenAPI paths of cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.ledger.focus.writing import FocusFormat
from trilens.model.ledger_sums import Dimension, Sharing, Unit
from trilens.serve.envelope import JSON
from trilens.serve.money.cost_answers import CostAnswer, NowAnswer, UnitsAnswer, WhyAnswer
from trilens.serve.openapi_pieces import operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

COST_TYPES: Final = (CostAnswer, WhyAnswer, NowAnswer, UnitsAnswer)

_DIMENSIONS: Final = ", ".join(one.value for one in Dimension)
_WINDOW: Final = [
    parameter("from", "query", "Unix seconds or RFC 3339, cut down to the hour; 24 hours before the end."),
    parameter("to", "query", "Rounded up to the hour; the end of the hour that runs if left out."),
]
_WHERE: Final = parameter(
    "where", "query", f"DIMENSION=VALUE, several times; an empty value is what has none. {_DIMENSIONS}."
)
_BY: Final = parameter("by", "query", f"Dimensions, several times or with commas: {_DIMENSIONS}.")
_SHARE: Final = {
    **parameter("share", "query", "Who pays for what nobody held; ledger.share_fleet if left out."),
    "schema": {"type": "string", "enum": [one.value for one in Sharing]},
}
_COMPARE: Final = {
    **parameter("compare", "query", "With the period before; true if left out."),
    "schema": {"type": "string", "enum": ["true", "false"]},
}
_PER: Final = {
    **parameter("per", "query", "What the cost is divided by; step if left out."),
    "schema": {"type": "string", "enum": [one.value for one in Unit]},
}


def cost_paths(schemas: Mapping[type, Schema], failure: Schema) -> dict[str, Any]:
    def get(text: str, parameters: list[Schema], data: type) -> Schema:
        return {"get": operation(text, parameters, schemas[data], failure)}

    lines = parameter("limit", "query", "The largest so many lines; 1,000 if left out.")
    causes = parameter(
        "limit", "query", "The largest so many causes, 500 at most; up to ten that matter if left out."
    )
    return {
        "/api/cost": get(
            "What was spent, compared with the period before.",
            [_BY, *_WINDOW, _WHERE, _SHARE, _COMPARE, lines],
            CostAnswer,
        ),
        "/api/cost/why": get("What was spent for nothing.", [*_WINDOW, _WHERE, causes], WhyAnswer),
        "/api/cost/now": get("How fast money is spent, and budgets.", [_BY, _WHERE], NowAnswer),
        "/api/cost/units": get("What one of something cost.", [_PER, *_WINDOW, _WHERE], UnitsAnswer),
        "/api/cost/focus": {"get": _focus(failure)},
    }


def _focus(failure: Schema) -> Schema:
    """A file, and no envelope."""
    names = [
        parameter("format", "query", "csv (if left out) or parquet."),
        parameter("provider", "query", "Who tells these costs; Trilens if left out."),
        parameter("account", "query", "The billing account; trilens if left out."),
    ]
    content = {form.media_type: {"schema": {"type": "string", "format": "binary"}} for form in FocusFormat}
    return {
        "summary": "The rows of the ledger as a FOCUS 1.2 data set.",
        "parameters": [*names, *_WINDOW, _WHERE],
        "responses": {
            "200": {"description": "The file, in pieces.", "content": content},
            "default": {"description": "What is wrong.", "content": {JSON: {"schema": failure}}},
        },
    }
