"""A server that waits, asked over HTTP, in front of a real one that works."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from certificates import make_authority, sign
from servers import free_port, until
from trilens.serve.replicas.pass_on import PassOn
from trilens.settings.access import ProxySettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import ASGIApp

MAX_BODY = 100_000


class Leader:
    """What the one that works is asked, and answers."""

    def __init__(self) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.known: str | None = self.url
        self.client_left = threading.Event()
        self.app = Starlette(
            routes=[
                Route("/echo/{rest:path}", self._echo, methods=["GET", "POST"]),
                Route("/cookies", self._cookies),
                Route("/endless", self._endless),
                Route("/metrics/{of}", self._metrics),
            ]
        )

    async def _echo(self, request: Request) -> Response:
        told = {
            "path": request.scope["raw_path"].decode(),
            "query": request.url.query,
            "headers": dict(request.headers),
            "size": len(await request.body()),
        }
        return JSONResponse(told, 418, {"X-Own": "yes"})

    async def _metrics(self, _request: Request) -> Response:
        return PlainTextResponse("of the one that works")

    async def _cookies(self, _request: Request) -> Response:
        answer = Response()
        answer.set_cookie("a", "1")
        answer.set_cookie("b", "2")
        return answer

    async def _endless(self, _request: Request) -> Response:
        async def lines() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"line\n"
                    await asyncio.sleep(0.01)
            finally:
                self.client_left.set()

        return StreamingResponse(lines())


@contextlib.contextmanager
def serving(app: ASGIApp, port: int, certificate: Path | None = None) -> Iterator[None]:
    config = uvicorn.Config(
        app,
        port=port,
        lifespan="off",
        log_level="error",
        interface="asgi3",
        proxy_headers=False,
        ssl_certfile=certificate,
        ssl_keyfile=certificate.with_suffix(".key") if certificate is not None else None,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    until(lambda: server.started, "uvicorn did not start")
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def leader() -> Iterator[Leader]:
    made = Leader()
    with serving(made.app, int(made.url.rpartition(":")[2])):
        yield made


@pytest.fixture(scope="module")
def waiting(leader: Leader) -> Iterator[httpx.Client]:
    port = free_port()
    with (
        serving(PassOn("me", lambda: leader.known, MAX_BODY, None), port),
        httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False) as client,
    ):
        yield client


def test_a_request_and_its_answer_pass_as_they_are(waiting: httpx.Client) -> None:
    headers = {"Authorization": "Bearer t", "Host": "trilens.example", "X-Forwarded-For": "10.9.9.9"}
    answer = waiting.post("/echo/a%2Fb?x=1&y=%26", content=b"z" * 5000, headers=headers)
    assert answer.status_code == 418
    assert answer.headers["x-own"] == "yes"
    told = answer.json()
    assert (told["path"], told["query"], told["size"]) == ("/echo/a%2Fb", "x=1&y=%26", 5000)
    assert told["headers"]["authorization"] == "Bearer t"
    assert told["headers"]["host"] == "trilens.example"
    assert told["headers"]["x-forwarded-for"] == "10.9.9.9, 127.0.0.1"


@pytest.mark.parametrize(("trusted", "is_told"), [("127.0.0.0/8", True), ("10.0.0.0/8", False)])
def test_only_a_trusted_proxy_says_who_somebody_is(leader: Leader, trusted: str, is_told: bool) -> None:
    """The one that works may trust the network of the servers, and would believe what this one passes on."""
    port, proxy = free_port(), ProxySettings(trusted=(trusted,))
    claimed = {"X-Forwarded-User": "root", "X-Forwarded-Groups": "admins", "X-Trilens-Proxy-Secret": "s"}
    with serving(PassOn("me", lambda: leader.url, MAX_BODY, None, proxy), port):
        told = httpx.get(
            f"http://127.0.0.1:{port}/echo/",
            headers={**claimed, "X-Forwarded-For": "10.9.9.9", "Authorization": "Bearer t"},
            timeout=60,
            trust_env=False,
        ).json()["headers"]
    assert [name.lower() in told for name in claimed] == [is_told] * 3
    assert told["x-forwarded-for"] == ("10.9.9.9, 127.0.0.1" if is_told else "127.0.0.1")
    assert told["authorization"] == "Bearer t"


def test_from_where_somebody_asks_is_told_in_the_header_that_is_read(leader: Leader) -> None:
    port, proxy = free_port(), ProxySettings(trusted=("127.0.0.0/8",), client_header="X-Real-IP")
    with serving(PassOn("me", lambda: leader.url, MAX_BODY, None, proxy), port):
        url = f"http://127.0.0.1:{port}/echo/"
        claimed = {"X-Real-IP": "10.9.9.9"}
        told = httpx.get(url, headers=claimed, timeout=60, trust_env=False).json()["headers"]
    assert told["x-real-ip"] == "10.9.9.9, 127.0.0.1"
    assert "x-forwarded-for" not in told


@pytest.mark.parametrize(("secret", "is_told"), [("between us", True), ("guessed", False)])
def test_the_secret_of_the_proxy_is_asked_for_here_too(leader: Leader, secret: str, is_told: bool) -> None:
    """What this server says itself, from where a stranger asks, the one that works is to believe."""
    port, proxy = free_port(), ProxySettings(trusted=("127.0.0.0/8",))
    claimed = {"X-Forwarded-User": "root", "X-Forwarded-For": "10.9.9.9", "X-Trilens-Proxy-Secret": secret}
    with serving(PassOn("me", lambda: leader.url, MAX_BODY, None, proxy, "between us"), port):
        url = f"http://127.0.0.1:{port}/echo/"
        told = httpx.get(url, headers=claimed, timeout=60, trust_env=False).json()["headers"]
    assert ("x-forwarded-user" in told) is is_told
    assert told["x-forwarded-for"] == ("10.9.9.9, 127.0.0.1" if is_told else "127.0.0.1")
    assert told["x-trilens-proxy-secret"] == "between us"


def test_a_body_without_a_length_passes(waiting: httpx.Client) -> None:
    answer = waiting.post("/echo/", content=iter([b"a" * 1000, b"b" * 1000]))
    assert answer.json()["size"] == 2000


def test_a_body_that_is_too_large_is_refused_as_it_comes(waiting: httpx.Client) -> None:
    answer = waiting.post("/echo/", content=iter([b"a" * 60_000, b"b" * 60_000]))
    assert answer.status_code == 413


def test_cookies_of_one_client_are_not_those_of_another(waiting: httpx.Client) -> None:
    answer = waiting.get("/cookies")
    assert len(answer.headers.get_list("set-cookie")) == 2
    waiting.cookies.clear()
    assert "cookie" not in waiting.get("/echo/").json()["headers"]


def test_who_hangs_up_ends_it_at_the_one_that_works(waiting: httpx.Client, leader: Leader) -> None:
    with waiting.stream("GET", "/endless") as answer:
        next(answer.iter_bytes())
    assert leader.client_left.wait(60)


def test_nothing_is_passed_on_twice(waiting: httpx.Client) -> None:
    answer = waiting.get("/echo/", headers={"X-Trilens-Passed-On": "other"})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "2"


def test_probes_are_its_own(waiting: httpx.Client, leader: Leader) -> None:
    assert waiting.get("/healthz").json() == {"healthy": True}
    assert waiting.get("/readyz").json() == {"ready": True, "leads": False}
    assert "trilens_replica_leads 0" in waiting.get("/metrics").text


@pytest.mark.parametrize("path", ["/metrics/workloads", "/metrics/kubernetes"])
def test_who_scrapes_each_server_is_told_of_workloads_by_one(waiting: httpx.Client, path: str) -> None:
    own = waiting.get(path, params={"own": "true"})
    assert (own.status_code, own.text) == (200, "")
    assert waiting.get(path).text == "of the one that works"


def test_without_anybody_to_pass_on_to_it_says_so(
    waiting: httpx.Client, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "known", None)
    assert waiting.get("/readyz").status_code == waiting.get("/-/ready").status_code == 503
    assert "no server works at the moment" in waiting.get("/echo/").json()["error"]
    monkeypatch.setattr(leader, "known", f"http://127.0.0.1:{free_port()}")
    assert "does not answer" in waiting.get("/echo/").json()["error"]
    assert waiting.get("/healthz").status_code == 200


def chain(folder: Path, name: str) -> Path:
    """As cert-manager writes it: the certificate, and who signed it."""
    file = folder / f"{name}-chain.pem"
    file.write_text((folder / f"{name}.pem").read_text() + (folder / "ca.pem").read_text())
    return file


@contextlib.contextmanager
def waiting_for(leader: Leader, port: int, certificate: Path) -> Iterator[httpx.Client]:
    own = free_port()
    pass_on = PassOn("me", lambda: f"https://127.0.0.1:{port}", MAX_BODY, certificate)
    with (
        serving(pass_on, own),
        httpx.Client(base_url=f"http://127.0.0.1:{own}", timeout=60, trust_env=False) as client,
    ):
        yield client


def test_another_certificate_of_the_same_authority_is_another_server(tmp_path: Path, leader: Leader) -> None:
    make_authority(tmp_path)
    for name in ("own", "other"):
        sign(tmp_path, name, hosts="DNS:trilens.example")
    port = free_port()
    with serving(leader.app, port, tmp_path / "own.pem"):
        with waiting_for(leader, port, chain(tmp_path, "own")) as client:
            assert client.post("/echo/", content=b"x").json()["size"] == 1
        with waiting_for(leader, port, chain(tmp_path, "other")) as client:
            assert client.post("/echo/", content=b"x").status_code == 503


def test_a_certificate_that_is_renewed(
    tmp_path: Path, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here first, then at the one that works; the old one is not good for ever."""
    make_authority(tmp_path)
    for name in ("old", "new"):
        sign(tmp_path, name, hosts="DNS:trilens.example")
    own = tmp_path / "own.pem"
    own.write_text((tmp_path / "old.pem").read_text())
    old_port, new_port = free_port(), free_port()
    with (
        serving(leader.app, old_port, tmp_path / "old.pem"),
        serving(leader.app, new_port, tmp_path / "new.pem"),
        waiting_for(leader, old_port, own) as before,
    ):
        assert before.post("/echo/", content=b"x").json()["size"] == 1
        own.write_text("half of it")
        assert before.post("/echo/", content=b"x").json()["size"] == 1
        own.write_text((tmp_path / "new.pem").read_text() + "\n")
        assert before.post("/echo/", content=b"x").json()["size"] == 1
        monkeypatch.setattr("trilens.serve.replicas.same_certificate._OUTDATED_S", 0.0)
        assert before.post("/echo/", content=b"x").status_code == 503
        with waiting_for(leader, new_port, own) as after:
            assert after.post("/echo/", content=b"x").json()["size"] == 1


def test_servers_know_each_other_by_their_certificate(tmp_path: Path, leader: Leader) -> None:
    """Which names no address of theirs."""
    make_authority(tmp_path)
    for name in ("own", "other"):
        sign(tmp_path, name, hosts="DNS:trilens.example")
    port, waiting = free_port(), free_port()
    with serving(leader.app, port, tmp_path / "own.pem"):
        for name, status in (("own", 418), ("other", 503)):
            pass_on = PassOn("me", lambda: f"https://127.0.0.1:{port}", MAX_BODY, tmp_path / f"{name}.pem")
            with serving(pass_on, waiting):
                found = httpx.get(f"http://127.0.0.1:{waiting}/echo/", timeout=60, trust_env=False)
                assert found.status_code == status
