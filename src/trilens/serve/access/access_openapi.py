"""What the OpenAPI document says of tokens, the audit and who is logged in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trilens.serve.access.audit_api import AuditAnswer
from trilens.serve.access.auth_api import GrantAnswer, MeAnswer, TerminalAnswer
from trilens.serve.access.tokens_api import MadeTokenAnswer, NewToken, TokenAnswer
from trilens.serve.openapi_pieces import list_of, operation, parameter

if TYPE_CHECKING:
    from collections.abc import Mapping

ACCESS_TYPES: Final[tuple[type, ...]] = (
    TokenAnswer,
    MadeTokenAnswer,
    NewToken,
    AuditAnswer,
    GrantAnswer,
    MeAnswer,
    TerminalAnswer,
)

_ALL: Final = parameter("all", "query", "`true`: also those that are revoked or expired.")
_AUDIT: Final = [
    parameter("from", "query", "The first moment, Unix seconds or RFC 3339; a day before `to` if left out."),
    parameter("to", "query", "The last moment; now if left out."),
    parameter("who", "query", "Only what this one did."),
    parameter("limit", "query", "The latest so many; 100 if left out."),
]


def access_paths(schemas: Mapping[type, dict[str, Any]], failure: dict[str, Any]) -> dict[str, Any]:
    token, id = schemas[TokenAnswer], parameter("id", "path", "The token's id.")
    wanted = {"required": True, "content": {"application/json": {"schema": schemas[NewToken]}}}
    made = operation(
        "Make a token. Its secret is in this answer, and nowhere else.", [], schemas[MadeTokenAnswer], failure
    )
    return {
        "/api/tokens": {
            "get": operation("Tokens, without their secrets.", [_ALL], list_of(token), failure),
            "post": {**made, "requestBody": wanted},
        },
        "/api/tokens/{id}/revoke": {"post": operation("End a token.", [id], token, failure)},
        "/api/audit": {
            "get": operation("Changes, logins and refusals.", _AUDIT, list_of(schemas[AuditAnswer]), failure)
        },
        "/auth/me": {"get": operation("Who asks, and the ways to log in.", [], schemas[MeAnswer], failure)},
        "/auth/terminal": {
            "post": operation("This browser's login, for commands.", [], schemas[TerminalAnswer], failure)
        },
        "/auth/logout": {"post": operation("Log out, everywhere.", [], {"type": "null"}, failure)},
    }
