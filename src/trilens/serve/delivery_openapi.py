"""What the OpenAPI document says of receivers and silences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.delivery_apis import NewSilence, ReceiverAnswer, SilenceAnswer, TestAnswer
from trilens.serve.openapi_pieces import list_of, operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

DELIVERY_TYPES: Final[tuple[type, ...]] = (ReceiverAnswer, TestAnswer, SilenceAnswer, NewSilence)

_ALL: Final = parameter("all", "query", "`true`: also those of the last days that are over.")


def delivery_paths(schemas: Mapping[type, dict[str, Any]], failure: dict[str, Any]) -> dict[str, Any]:
    silence = schemas[SilenceAnswer]
    wanted = {"required": True, "content": {"application/json": {"schema": schemas[NewSilence]}}}
    receiver, id = parameter("name", "path", "The receiver."), parameter("id", "path", "The silence's id.")
    return {
        "/api/receivers": {
            "get": operation("Who is told, and how that goes.", [], list_of(schemas[ReceiverAnswer]), failure)
        },
        "/api/receivers/{name}/test": {
            "post": operation("Send a test message.", [receiver], list_of(schemas[TestAnswer]), failure)
        },
        "/api/silences": {
            "get": operation("Silences.", [_ALL], list_of(silence), failure),
            "post": {**operation("Add a silence.", [], silence, failure), "requestBody": wanted},
        },
        "/api/silences/{id}/expire": {"post": operation("End a silence.", [id], silence, failure)},
    }
