"""The HTTP client of the commands that talk to a server."""

from __future__ import annotations

from typing import Any

import httpx

from trilens.model.errors import ServerError
from trilens.settings.client import load_client_settings


def ask_server(server: str | None, params: dict[str, str]) -> dict[str, Any]:
    """The whole envelope of a query; range or instant, by the parameters."""
    return call(server, "/api/v1/query_range" if "start" in params else "/api/v1/query", params)


def call(server: str | None, path: str, params: dict[str, str]) -> dict[str, Any]:
    settings = load_client_settings(server)
    headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
    try:
        answer = httpx.post(f"{settings.server}{path}", data=params, headers=headers, timeout=130)
        body = answer.json()
    except httpx.HTTPError as e:
        raise ServerError(
            f"no answer from {settings.server}: {e}",
            hint="start one with: trilens up, or name one with --server",
        ) from e
    except ValueError as e:
        raise ServerError(
            f"{settings.server} answered HTTP {answer.status_code}, and not in JSON",
            hint="is it a Trilens server?",
        ) from e
    if not isinstance(body, dict) or body.get("status") != "success":
        raise _refused(answer.status_code, body)
    return body


def _refused(status: int, body: Any) -> ServerError:
    reason = body.get("error", body) if isinstance(body, dict) else body
    hint = "set TRILENS_TOKEN or TRILENS_TOKEN_FILE" if status == 401 else None
    error = ServerError(str(reason), hint=hint)
    error.exit_code = 2 if 400 <= status < 500 else 1  # what was asked was wrong, or the server could not
    return error
