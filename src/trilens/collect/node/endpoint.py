"""The agent over HTTP: metrics for a scraper, JSON for the server. Small enough for the standard library."""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from trilens.collect.node.families import CONTENT_TYPE
from trilens.model.access import carries_token, names_known_host
from trilens.model.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trilens.collect.node.agent import NodeAgent
    from trilens.settings.agent import AgentSettings

log = logging.getLogger(__name__)

_IDLE_S: Final = 90.0  # longer than scrapers keep a connection between two scrapes
_MOST_CONNECTIONS: Final = 64
_LONGEST_WAIT_S: Final = 30.0  # proxies end a connection on which nothing comes for a minute
JSON: Final = "application/json"


class Endpoint:
    def __init__(self, agent: NodeAgent, settings: AgentSettings) -> None:
        token = settings.required_token()
        if doubt := settings.doubt_about(token):
            log.warning(doubt)
        gate = _Gate(token, settings.allowed_hosts)

        class Handler(_Handler):
            pass

        Handler.agent, Handler.gate = agent, gate
        host, port = settings.address
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._server = _Server((host, port), Handler, family)
        except OSError as e:
            raise ConfigError(f"cannot listen on {settings.listen}: {e.strerror or e}") from e
        self._secure = settings.tls_cert_file is not None
        if settings.tls_cert_file is not None and settings.tls_key_file is not None:
            try:
                self._server.certificate = _Certificate(settings.tls_cert_file, settings.tls_key_file)
            except OSError as e:
                self._server.server_close()
                raise ConfigError(f"cannot use agent.tls_cert_file: {e}") from e
        self._thread = threading.Thread(target=self._server.serve_forever, name="trilens-http", daemon=True)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"{'https' if self._secure else 'http'}://{shown}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Also for clients that keep their connection."""
        self._server.shutdown()
        self._server.server_close()
        self._server.end_connections()


class _Gate:
    def __init__(self, token: str | None, hosts: tuple[str, ...]) -> None:
        self._token = token.encode() if token is not None else None
        self._hosts = frozenset(host.lower() for host in hosts)

    def refusal(self, authorization: str, host: str) -> tuple[int, str] | None:
        if self._token is not None:
            if not carries_token(authorization, self._token):
                return 401, "this agent needs its token: send it as Authorization: Bearer"
        elif not names_known_host(host.lower(), self._hosts):
            return 403, f"unexpected Host {host!r}; add it to agent.allowed_hosts if it is meant"
        return None


class _Certificate:
    """As it is on disk: one that is renewed counts for the next connection."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Raises OSError when it cannot be used."""
        self._files = certificate, key
        self._stamp = self._stamp_now()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """One that cannot be used leaves the old in its place."""
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._context = self._read()
            except OSError as e:
                log.error("the old certificate stays", extra={"error": str(e)})
            else:
                log.info("the certificate is read again", extra={"file": str(self._files[0])})
        return self._context

    def _read(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        certificate, key = self._files
        context.load_cert_chain(certificate, key)
        return context

    def _stamp_now(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> tuple[int, int, int] | None:
    """Changes with the file; a mounted secret is a link to another one then."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def __init__(
        self, address: tuple[str, int], handler: type[_Handler], family: socket.AddressFamily
    ) -> None:
        self.address_family = family
        self.certificate: _Certificate | None = None
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._connections: set[socket.socket] = set()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)  # too many at once: who comes again will find a place
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            request.settimeout(_IDLE_S)
            if self.certificate is not None:
                request = self.certificate.context().wrap_socket(
                    request, server_side=True
                )  # here: a slow client delays no other
            self._connections.add(request)
            super().process_request_thread(request, client_address)
        except OSError as e:
            log.debug("connection failed", extra={"client": str(client_address), "reason": str(e)})
            self.shutdown_request(request)
        finally:
            self._connections.discard(request)
            self._places.release()

    def end_connections(self) -> None:
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # it has ended by itself
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("connection failed", extra={"client": str(client_address)}, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    agent: NodeAgent
    gate: _Gate
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        route = _ROUTES.get(parts.path)
        if parts.path != "/healthz":  # a probe carries no token
            refusal = self.gate.refusal(
                self.headers.get("Authorization", ""), self.headers.get("Host", "localhost")
            )
            if refusal is not None:
                self._answer(refusal[0], JSON, _json({"error": refusal[1]}))
                return
        if route is None:
            self._answer(404, JSON, _json({"error": "there is no such page", "pages": sorted(_ROUTES)}))
            return
        try:
            content_type, body = route(self.agent, {k: v[-1] for k, v in parse_qs(parts.query).items()})
        except RequestError as e:
            self._answer(400, JSON, _json({"error": str(e)}))
        except Exception:
            log.exception("could not answer", extra={"path": parts.path})
            self._answer(500, JSON, _json({"error": "the agent failed; its log says how"}))
        else:
            self._answer(200, content_type, body)

    do_HEAD = do_GET  # noqa: N815 - the library's name

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if status == 401:
            self.send_header("WWW-Authenticate", 'Bearer realm="trilens", Basic realm="trilens"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "trilens-agent"

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _healthz(agent: NodeAgent, _asked: dict[str, str]) -> tuple[str, bytes]:
    return JSON, _json({"healthy": True, "problems": agent.problems()})


def _metrics(agent: NodeAgent, _asked: dict[str, str]) -> tuple[str, bytes]:
    return CONTENT_TYPE, agent.metrics()


def _events(agent: NodeAgent, asked: dict[str, str]) -> tuple[str, bytes]:
    after = asked.get("after", "0")
    if not after.isascii() or not after.isdigit():
        raise RequestError(f"after={after!r} is not the number of an event")
    return JSON, _json(agent.events(int(after), _wait_s(asked.get("wait", "0"))))


def _wait_s(text: str) -> float:
    try:
        wait_s = float(text)
    except ValueError:
        wait_s = -1.0
    if not wait_s >= 0:  # nor for something that is no number
        raise RequestError(f"wait={text!r} is not a number of seconds")
    return min(wait_s, _LONGEST_WAIT_S)


def _processes(agent: NodeAgent, _asked: dict[str, str]) -> tuple[str, bytes]:
    return JSON, _json(agent.processes())


def _devices(agent: NodeAgent, _asked: dict[str, str]) -> tuple[str, bytes]:
    return JSON, _json(agent.devices())


def _output(agent: NodeAgent, asked: dict[str, str]) -> tuple[str, bytes]:
    return JSON, _json(agent.output(asked.get("namespace"), asked.get("pod")))


_ROUTES: Final[dict[str, Callable[[NodeAgent, dict[str, str]], tuple[str, bytes]]]] = {
    "/healthz": _healthz,
    "/metrics": _metrics,
    "/v1/devices": _devices,
    "/v1/events": _events,
    "/v1/output": _output,
    "/v1/processes": _processes,
}
