"""What an API server says instead of what was asked for: a `Status`."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """Becomes the answer, with this HTTP status."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            **({"details": details} if details is not None else {}),
            "code": code,
        }


def bad_request(message: str) -> Refusal:
    return Refusal(400, "BadRequest", message)


def not_found(group: str, plural: str, name: str) -> Refusal:
    full = f"{plural}.{group}" if group else plural
    details = {"name": name, **({"group": group} if group else {}), "kind": plural}
    return Refusal(404, "NotFound", f'{full} "{name}" not found', details)


def expired(message: str) -> Refusal:
    """History that was asked for is gone."""
    return Refusal(410, "Expired", message)


def too_large_version(asked: int, current: int) -> Refusal:
    """A state that is still to come: from before the server was started anew, as a rule."""
    message = f"Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    return Refusal(504, "Timeout", f"Timeout: {message}", {"causes": [cause], "retryAfterSeconds": 1})


def no_such_method(method: str) -> Refusal:
    return Refusal(405, "MethodNotAllowed", f"a simulated cluster is read, not written: no {method}")


def not_acceptable() -> Refusal:
    return Refusal(406, "NotAcceptable", "only the following media types are accepted: application/json", {})
