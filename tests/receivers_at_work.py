"""Receivers of notifications as real servers on loopback, and incidents and alerts to tell them of."""

from __future__ import annotations

import base64
import contextlib
import json
import queue
import socketserver
import threading
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import httpx

from servers import free_port, require_server, running
from trilens.alert.delivery.plan import plan_of
from trilens.model.alert import Alert, AlertState
from trilens.model.finding import Severity, Subject
from trilens.model.incident import Incident, IncidentState, Symptom, SymptomKind
from trilens.model.labels import make_labels
from trilens.model.workload import WorkloadKey
from trilens.settings.load import validate

if TYPE_CHECKING:
    import ssl
    from pathlib import Path
    from types import TracebackType

    from trilens.alert.delivery.plan import Plan

NOW_MS = 1_800_000_000_000
ANSWER_S = 20.0  # a test that fails waits so long, others do not


def symptom(name: str = "GpuHot", key: str = "", **of: Any) -> Symptom:
    labels = {"alertname": name, "layer": "gpu", "team": "vision", **of.pop("labels", {})}
    workload = WorkloadKey("lab", "ml", "batch", "Job", of.pop("workload", "llm"), "u1")
    subject = Subject(workload, labels["team"], None, 3, None, "lab", of.pop("node", "gpu-7"))
    known: dict[str, Any] = {
        "kind": SymptomKind.ALERT,
        "key": key or name,
        "name": name,
        "subject": subject,
        "severity": Severity.WARNING,
        "onset_ms": NOW_MS - 30_000,
        "text": f"{name} on gpu-7",
        "action": "Drain gpu-7.",
        "labels": make_labels(labels),
    }
    return Symptom(**{**known, **of})


def incident(id: str = "i1", *symptoms: Symptom, **of: Any) -> Incident:
    found = symptoms or (symptom(),)
    known: dict[str, Any] = {
        "id": id,
        "state": IncidentState.OPEN,
        "severity": Severity.WARNING,
        "title": found[0].text,
        "subject": found[0].subject,
        "workloads": ("ml/Job/llm",),
        "symptoms": found,
        "timeline": (),
        "onset_ms": NOW_MS - 30_000,
        "detected_ms": NOW_MS - 10_000,
        "lost_quanta": 12_340_000_000,
        "currency": "USD",
    }
    return Incident(**{**known, **of})


def resolved(one: Incident, at_ms: int = NOW_MS) -> Incident:
    return replace(one, state=IncidentState.RESOLVED, resolved_ms=at_ms)


def alert(name: str = "GpuHot", *, is_over: bool = False, now_ms: int = NOW_MS, **labels: str) -> Alert:
    return Alert(
        make_labels({"alertname": name, **labels}),
        make_labels({"summary": f"{name} is hot"}),
        AlertState.RESOLVED if is_over else AlertState.FIRING,
        1.0,
        now_ms - 60_000,
        now_ms - 30_000,
        now_ms if is_over else None,
        valid_until_ms=now_ms + 240_000,
        generator_url="http://trilens/graph",
    )


def plan(alerting: dict[str, Any], **other: Any) -> Plan:
    return plan_of(validate({"alerting": alerting, **other}), make_labels({"site": "berlin"}))


@dataclass
class Posted:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def _taken(body: bytes) -> tuple[int, dict[str, str], bytes]:
    if b'"routing_key"' not in body:
        return 200, {}, b"ok"
    said = {"status": "success", "message": "Event processed", "dedup_key": "k"}
    return 202, {"Content-Type": "application/json"}, json.dumps(said).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True


@dataclass
class HttpReceiver:
    """Keeps what is posted. `answers` are given first, then what Slack and PagerDuty say; it may go away and
    come back."""

    port: int = field(default_factory=free_port)
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    posted: queue.Queue[Posted] = field(default_factory=queue.Queue)
    _server: _Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def __enter__(self) -> HttpReceiver:
        receiver = self

        class Handler(BaseHTTPRequestHandler):  # HTTP/1.0: a connection that is kept outlives the server
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                answer = receiver.answers.pop(0) if receiver.answers else _taken(body)
                status, headers, content = answer
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):  # whoever has left will post it again
                    self.wfile.write(content)
                    receiver.posted.put(Posted(self.path, dict(self.headers), body))

            def log_message(self, *_: object) -> None:
                pass

        self._server = _Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def next(self) -> Posted:
        return self.posted.get(timeout=ANSWER_S)


@dataclass
class Mailed:
    sender: str
    to: list[str]
    text: str
    is_encrypted: bool
    user: str


class SmtpServer:
    """As much of SMTP as clients need, with STARTTLS and AUTH PLAIN where it has a certificate."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.mails: queue.Queue[Mailed] = queue.Queue()
        self.refusals: list[bytes] = []  # instead of taking a recipient
        self._tls = tls
        server = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    server._talk(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]

    def __enter__(self) -> SmtpServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _talk(self, connection: Any) -> None:
        is_encrypted, user, sender, to = False, "", "", []
        lines = connection.makefile("rb")
        connection.sendall(b"220 here\r\n")
        while line := lines.readline():
            verb = line[:4].upper().decode()
            answer = b"250 fine\r\n"
            if verb == "EHLO":
                offered = b"250-AUTH PLAIN\r\n" if is_encrypted else b"250-STARTTLS\r\n" if self._tls else b""
                answer = b"250-here\r\n" + offered + b"250 8BITMIME\r\n"
            elif verb == "STAR" and self._tls is not None:
                connection.sendall(b"220 go on\r\n")
                connection = self._tls.wrap_socket(connection, server_side=True)
                lines, is_encrypted = connection.makefile("rb"), True
                continue
            elif verb == "AUTH":
                _, user, password = base64.b64decode(line.split()[2]).decode().split("\0")
                answer = b"235 welcome\r\n" if password == "right" else b"535 wrong password\r\n"
            elif verb == "MAIL":
                sender = line.split(b"<")[1].split(b">")[0].decode()
            elif verb == "RCPT":
                if self.refusals:
                    answer = self.refusals.pop(0)
                else:
                    to.append(line.split(b"<")[1].split(b">")[0].decode())
            elif verb == "DATA":
                connection.sendall(b"354 go on\r\n")
                text = b""
                while (part := lines.readline()) != b".\r\n":
                    text += part
                self.mails.put(Mailed(sender, to, text.decode(), is_encrypted, user))
            elif verb == "QUIT":
                connection.sendall(b"221 bye\r\n")
                return
            connection.sendall(answer)

    def next(self) -> Mailed:
        return self.mails.get(timeout=ANSWER_S)


class Alertmanager:
    """A real one; a pair knows each other."""

    def __init__(self, folder: Path, gossip: int, peer: int, tells: str | None = None) -> None:
        """`tells` is a webhook that hears of each alert by itself, at once, and of its end."""
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        route = {"receiver": "all", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"}
        hooks = [{"url": tells, "send_resolved": True}] if tells is not None else []
        config = folder / "alertmanager.yml"
        told = {"route": route, "receivers": [{"name": "all", "webhook_configs": hooks}]}
        config.write_text(json.dumps(told), encoding="utf-8")
        self._folder = folder
        self._command = [
            require_server("prometheus-alertmanager"),
            f"--config.file={config}",
            f"--storage.path={folder / str(self.port)}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            f"--cluster.listen-address=127.0.0.1:{gossip}",
            f"--cluster.peer=127.0.0.1:{peer}",
        ]

    def running(self) -> Any:
        return running(self._command, f"{self.url}/-/ready", log=self._folder / f"{self.port}.log")

    def held(self) -> list[dict[str, Any]]:
        """Those that fire, as it tells them: a resolved one is not among them."""
        found: list[dict[str, Any]] = httpx.get(f"{self.url}/api/v2/alerts", timeout=ANSWER_S).json()
        return found

    def alerts(self) -> dict[str, str]:
        """By node, the state of those that it holds; those of no node are by the name ""."""
        return {one["labels"].get("node", ""): one["status"]["state"] for one in self.held()}
