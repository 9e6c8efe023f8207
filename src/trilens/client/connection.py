"""One server, asked over HTTP: its answers without the envelope, its errors as ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import httpx

from trilens.model.errors import NotFound, RequestError, ServerError
from trilens.settings.client import load_client_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    Params = Mapping[str, str | Sequence[str]]

_TIMEOUT_S = 130  # above the server's own limit for a query, which says more


class Answer(NamedTuple):
    data: Any
    warnings: tuple[str, ...]


class Connection:
    def __init__(self, server: str | None, token: str | None) -> None:
        settings = load_client_settings(server)
        self.url = settings.server
        token = token or settings.token
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # Reading the trusted certificates takes longer than most queries, and only TLS has a use for them.
        verify = self.url.startswith("https://")
        try:
            self._http = httpx.Client(headers=headers, timeout=_TIMEOUT_S, verify=verify)
        except OSError as e:
            raise settings.cannot_trust(e) from e

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None) -> Answer:
        return self._ask("GET", path, params=params)

    def post(self, path: str, form: Params) -> Answer:
        """For what may be too long for an address."""
        return self._ask("POST", path, data=form)

    def pages(self, path: str, params: Mapping[str, str]) -> Iterator[Answer]:
        """All that an answer with `next` goes on to."""
        following: dict[str, str] = {}
        while True:
            answer = self.get(path, {**params, **following})
            yield answer
            if answer.data["next"] is None:
                return
            following = {"next": answer.data["next"]}

    def _ask(self, method: str, path: str, **request: Any) -> Answer:
        try:
            answer = self._http.request(method, f"{self.url}{path}", **request)
            envelope = answer.json()
        except httpx.HTTPError as e:
            raise ServerError(
                f"no answer from {self.url}: {e or type(e).__name__}",
                hint='start one with: trilens up, or name one: Client("http://HOST:9333")',
            ) from e
        except ValueError as e:
            raise ServerError(
                f"{self.url} answered HTTP {answer.status_code}, and not in JSON",
                hint="is it a Trilens server?",
            ) from e
        if not isinstance(envelope, dict) or envelope.get("status") != "success":
            raise _refused(answer.status_code, envelope)
        return Answer(envelope["data"], tuple(map(_said, envelope.get("warnings") or ())))


def warnings_of(answers: Iterable[Answer]) -> list[str]:
    """Each of them once."""
    return [*dict.fromkeys(warning for one in answers for warning in one.warnings)]


def _said(warning: object) -> str:
    return str(warning["text"] if isinstance(warning, dict) and "text" in warning else warning)


def _refused(status: int, body: Any) -> ServerError | RequestError:
    reason = str(body.get("error", body) if isinstance(body, dict) else body)
    if status in (401, 403):
        return ServerError(
            reason, hint='Client(URL, token="..."), or set TRILENS_TOKEN or TRILENS_TOKEN_FILE'
        )
    if status == 404:
        return NotFound(reason)
    return RequestError(reason) if 400 <= status < 500 else ServerError(reason)
