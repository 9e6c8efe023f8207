"""The HTTP client of the commands that talk to a server."""

from __future__ import annotations

import math
import time
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import httpx

from trilens.cli.failure import USAGE
from trilens.model.errors import ServerError, ServerSilent
from trilens.settings.client import load_client_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Params = Mapping[str, str | Sequence[str]]  # several of one name, or one

_NOT_NOW = (408, 429)  # nothing is wrong with what was asked but that it was too slow, or too much
_TIMEOUT_S = 130  # above the server's own limit for a query, which says more


class Client:
    """One server, over connections that are kept: for a command that asks more than once."""

    def __init__(
        self, server: str | None, *, timeout_s: float = _TIMEOUT_S, token: str | None = None
    ) -> None:
        """`token` is sent instead of what the environment or a login has."""
        settings = load_client_settings(server)
        self._url = settings.server
        self._is_login = settings.is_login and token is None
        sent = token or settings.token
        headers = {"Authorization": f"Bearer {sent}"} if sent else {}
        # Reading the trusted certificates takes longer than most queries, and only TLS has a use for them.
        verify = self._url.startswith("https://")
        try:
            self._http = httpx.Client(headers=headers, timeout=timeout_s, verify=verify)
        except OSError as e:
            raise settings.cannot_trust(e) from e

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
            raise self._refused(answer, body)
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
                    raise self._refused(answer, _body(answer))
                yield answer
        except httpx.HTTPError as e:
            raise self._silent(e) from e

    def fetch(self, path: str, params: dict[str, str] | None = None, method: str = "GET") -> httpx.Response:
        """What is not in the envelope, with its headers; ServerError where it is not there."""
        try:
            answer = self._http.request(method, f"{self._url}{path}", params=params)
        except httpx.HTTPError as e:
            raise self._silent(e) from e
        if answer.status_code != 200:
            raise self._refused(answer, _body(answer))
        return answer

    def _ask(self, method: str, path: str, *, else_try: str | None = None, **request: Any) -> dict[str, Any]:
        answer, envelope = self._answer(method, path, **request)
        if not isinstance(envelope, dict) or envelope.get("status") != "success":
            error = self._refused(answer, envelope)
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
            what, later = f"{self._url} answered HTTP {answer.status_code}", _try_again(answer)
            raise ServerError(
                what if later else f"{what}, and not in JSON", hint=later or "is it a Trilens server?"
            ) from e

    def _refused(self, answer: httpx.Response, body: Any) -> ServerError:
        status, told = answer.status_code, body if isinstance(body, dict) else {}
        reason = told.get("error", body)
        hint = None if "hint" in told else _try_again(answer)
        if status == 401:
            hint = "trilens login, or set TRILENS_TOKEN or TRILENS_TOKEN_FILE"
            if self._is_login:
                reason, hint = f"the login at {self._url} is over", "trilens login"
            elif "Authorization" in self._http.headers:
                reason = f"{self._url} does not take the token that was sent"
                hint = "it is wrong, revoked or over; trilens token create makes another"
        error = ServerError(str(reason), hint=hint)
        if 400 <= status < 500 and status not in _NOT_NOW:  # what was asked was wrong
            error.exit_code = USAGE
        return error

    def _silent(self, error: httpx.HTTPError) -> ServerError:
        if isinstance(error, httpx.ReadTimeout):
            return ServerSilent(
                f"no answer from {self._url} within {self._http.timeout.read:.0f} s",
                hint="it is there, but busy or stuck: try again, or ask trilens doctor",
            )
        hint = "start one with: trilens up, or name one with --server"
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            hint = "name the file of the certificate, or of who signed it, in SSL_CERT_FILE"
        elif isinstance(error, httpx.RemoteProtocolError) and self._url.startswith("http://"):
            hint = "does it speak https:// there?"
        return ServerError(f"no answer from {self._url}: {error or type(error).__name__}", hint=hint)


def ask_server(server: str | None, params: dict[str, str]) -> dict[str, Any]:
    """The whole envelope of a query; range or instant, by the parameters."""
    with Client(server) as client:
        return client.post("/api/v1/query_range" if "start" in params else "/api/v1/query", form=params)


def _try_again(answer: httpx.Response) -> str | None:
    """As `Retry-After` says, in seconds or with a moment."""
    told = answer.headers.get("Retry-After")
    if told is None:
        return "try again a little later" if answer.status_code in _NOT_NOW else None
    with suppress(ValueError, OverflowError):
        wait_s = int(told) if told.isdecimal() else parsedate_to_datetime(told).timestamp() - time.time()
        if wait_s > 0:
            return f"try again in {math.ceil(wait_s)} s"
    return "try again"


def _body(answer: httpx.Response) -> Any:
    try:
        return answer.json()
    except ValueError:
        return answer.text
