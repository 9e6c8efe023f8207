"""A tracker's server, asked in JSON over HTTP. What goes wrong is one error that says so in a line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from trilens import __version__
from trilens.collect.deadline import Deadline
from trilens.model.errors import TrackerAway, TrackerError
from trilens.model.masking import without_passwords

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

_MOST_BYTES = 64 << 20
_SHOWN = 200  # characters of what a server says is wrong
_AWAY = frozenset({401, 403, 429, 502, 503, 504})  # said of the server, whatever was asked for


class JsonApi:
    """Blocking: each tracker is followed in a thread of its own."""

    def __init__(
        self, url: str, headers: Callable[[], Mapping[str, str]], tls: ssl.SSLContext | bool, timeout_s: float
    ) -> None:
        """`headers` is asked for each request: secrets in files rotate."""
        self._url = url
        self.where = without_passwords(url)
        self._headers = headers
        self._deadline = Deadline(timeout_s)
        self._http = httpx.Client(
            verify=tls,
            timeout=timeout_s,
            follow_redirects=False,
            headers={"User-Agent": f"trilens/{__version__}"},
        )

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, params: Mapping[str, str | int]) -> dict[str, Any]:
        return self._ask("GET", path, params=dict(params))

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._ask("POST", path, content=json.dumps(body).encode())

    def _ask(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        headers = {**self._headers(), "Content-Type": "application/json"}
        request["extensions"] = self._deadline.begin()
        try:
            with self._http.stream(method, self._url + path, headers=headers, **request) as answer:
                content = _bounded(answer)
        except httpx.HTTPError as e:
            raise TrackerAway(f"no answer from {self.where}: {e or type(e).__name__}") from e
        if answer.status_code != 200:
            said = content[:_SHOWN].decode("utf-8", "replace").strip()
            error = TrackerAway if answer.status_code in _AWAY else TrackerError
            raise error(f"{self.where}{path} answered HTTP {answer.status_code}: {said}")
        try:
            found = json.loads(content)
        except ValueError as e:  # nothing at all is none either: who has nothing to tell says {}
            raise TrackerAway(f"{self.where}{path} answered with something that is not JSON") from e
        if not isinstance(found, dict):
            raise TrackerAway(f"{self.where}{path} answered with JSON that is no object")
        return found


def _bounded(answer: httpx.Response) -> bytes:
    content = bytearray()
    for piece in answer.iter_bytes():
        content += piece
        if len(content) > _MOST_BYTES:
            raise TrackerError(f"{answer.url.path} answered with more than {_MOST_BYTES >> 20} MiB")
    return bytes(content)
