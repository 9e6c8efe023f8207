"""The OpenAPI paths of the price book."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.ledger.prices.view import BookAnswer, ChoiceAnswer
from trilens.model.price import Purchase
from trilens.serve.openapi_pieces import operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

    Schema = dict[str, Any]

PRICE_TYPES: Final = (BookAnswer, ChoiceAnswer)

_MACHINE: Final = [
    parameter("gpu_model", "query", "The model of its GPUs, as the driver or a node's label says it."),
    parameter("instance_type", "query", "What it is called where it was rented."),
    parameter("region", "query", "Where it stands."),
    parameter("provider", "query", "Whose it is: aws, gcp, azure."),
    {
        **parameter("purchase", "query", "How it is paid; left out where nobody tells."),
        "schema": {"type": "string", "enum": [*Purchase]},
    },
    parameter("cluster", "query", "Its cluster."),
    parameter("node", "query", "Its name; what is not asked for is as that machine tells it."),
    parameter("gpus", "query", "How many GPUs it has; if left out as many as are known, or 1."),
    parameter("at", "query", "The moment asked about, Unix seconds or RFC 3339; now if left out."),
]


def price_paths(schemas: Mapping[type, Schema], failure: Schema) -> dict[str, Any]:
    book = operation("The price book in force.", [], schemas[BookAnswer], failure)
    text = "Which price counts for a machine, and why."
    return {
        "/api/prices": {"get": book},
        "/api/prices/choice": {"get": operation(text, _MACHINE, schemas[ChoiceAnswer], failure)},
    }
