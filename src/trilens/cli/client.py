"""The HTTP client of the commands that talk to a server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx

from trilens.model.errors import ServerError
from trilens.settings.client import load_client_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Params = Mapping[str, str | Sequence[str]]  # several of one name, or one

_TIMEOUT_S = 130  # above the server's own limit for a query, which says more


class Client:
    """One server, over connections that are kept: for a command that asks more than once."""

    def __init__(self, server: str | None, *, timeout_s: float = _TIMEOUT_S) -> None:
        settings = load_client_settings(server)
        self._url = settings.server
        headers = {"Authorization": f"Bearer {settings.token}"} if settings.token else {}
        # Reading the trusted certificates takes longer than most queries, and only TLS has a use for them.
        verify = self._url.startswith("https://")
        self._http = httpx.Client(headers=headers, timeout=timeout_s, verify=verify)

    @property
    def url(self) -> str:
        return self._url

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None, *, else_try: str | None = None) -> dict[str, Any]:
        """The whole envelope of a successful answer; ServerError for any other. `else_try` is the hint where
        there is no such thing."""
        return self._ask("GET", path, else_try=else_try, params=params)

    def post(
        self,
        path: str,
        *,
        form: Mapping[str, str | Sequence[str]] | None = None,
        body: bytes | None = None,
        params: dict[str, str] | None = None,
        else_try: str | None = None,
    ) -> dict[str, Any]:
        """The whole envelope of a successful answer; ServerError for any other."""
        return self._ask("POST", path, else_try=else_try, data=form, content=body, params=params)

    def probe(self, path: str) -> dict[str, Any]:
        """What /readyz and the like say, well or not."""
        answer, body = self._answer("GET", path)
        if not isinstance(body, dict) or answer.status_code not in (200, 503):
            raise self._refused(answer.status_code, body)
        return body

    def content(self, path: str) -> bytes:
        """A file as it is; ServerError where there is none."""
        return self.fetch(path).content

    @contextmanager
    def stream(self, path: str, params: Params | None = None) -> Iterator[httpx.Response]:
        """A file that may be larger than memory, to be read in pieces; ServerError where it is not there."""
        try:
            with self._http.stream("GET", f"{self._url}{path}", params=params) as answer:
                if answer.status_code != 200:
                    answer.read()
                    raise self._refused(answer.status_code, _body(answer))
                yield answer
        except httpx.HTTPError as e:
            raise self._silent(e) from e

    def fetch(self, path: str, params: dict[str, str] | None = None) -> httpx.Response:
        """What is not in the envelope, with its headers; ServerError where it is not there."""
        try:
            answer = self._http.get(f"{self._url}{path}", params=params)
        except httpx.HTTPError as e:
            raise self._silent(e) from e
        if answer.status_code != 200:
            raise self._refused(answer.status_code, _body(answer))
        return answer

    def _ask(self, method: str, path: str, *, else_try: str | None = None, **request: Any) -> dict[str, Any]:
        answer, envelope = self._answer(method, path, **request)
        if not isinstance(envelope, dict) or envelope.get("status") != "success":
            error = self._refused(answer.status_code, envelope)
            if answer.status_code == 404 and else_try is not None:
                error.hint = else_try
            raise error
        return envelope

    def _answer(self, method: str, path: str, **request: Any) -> tuple[httpx.Response, Any]:
        try:
            answer = self._http.request(method, f"{self._url}{path}", **request)
            return answer, answer.json()
        except httpx.HTTPError as e:
            raise self._silent(e) from e
        except ValueError as e:
            raise ServerError(
                f"{self._url} answered HTTP {answer.status_code}, and not in JSON",
                hint="is it a Trilens server?",
            ) from e

    def _refused(self, status: int, body: Any) -> ServerError:
        reason = body.get("error", body) if isinstance(body, dict) else body
        hint = None
        if status == 401:
            hint = "set TRILENS_TOKEN or TRILENS_TOKEN_FILE"
            if "Authorization" in self._http.headers:
                reason = f"{self._url} does not take the token that was sent"
                hint = f"{hint} to what server.token or server.token_file of that server has"
        error = ServerError(str(reason), hint=hint)
        error.exit_code = 2 if 400 <= status < 500 else 1  # what was asked was wrong, or the server could not
        return error

    def _silent(self, error: httpx.HTTPError) -> ServerError:
        if isinstance(error, httpx.ReadTimeout):
            return ServerError(
                f"no answer from {self._url} within {self._http.timeout.read:.0f} s",
                hint="it is there, but busy or stuck: try again, or ask trilens doctor",
            )
        return ServerError(
            f"no answer from {self._url}: {error or type(error).__name__}",
            hint="start one with: trilens up, or name one with --server",
        )


def ask_server(server: str | None, params: dict[str, str]) -> dict[str, Any]:
    """The whole envelope of a query; range or instant, by the parameters."""
    with Client(server) as client:
        return client.post("/api/v1/query_range" if "start" in params else "/api/v1/query", form=params)


def _body(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text
