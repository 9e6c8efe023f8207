"""What is sent, and to whom."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from aiohappyeyeballs import start_connection
from scripted_http import PATIENCE_S, Script, answer, client_of, fetch, running

from trilens.collect import direct_http
from trilens.collect.http_request import build_request
from trilens.model.errors import ConfigError, ScrapeError


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("", b"GET / HTTP/1.1"),
        ("?a=b", b"GET /?a=b HTTP/1.1"),
        ("/a%20b/../c//d?x=%2F&y=[1]+{2}#part", b"GET /a%20b/../c//d?x=%2F&y=[1]+{2} HTTP/1.1"),
        ("/ü", "GET /ü HTTP/1.1".encode()),
    ],
)
async def test_path_and_query_are_sent_as_they_are(path: str, line: bytes) -> None:
    async with running(Script(answer(b""))) as server:
        await fetch(server.url(path))
        assert server.requests[0].split(b"\r\n")[0] == line


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX: y", "/a\tb", "/a\x7f"])
async def test_a_path_that_would_break_the_request_is_not_sent(path: str) -> None:
    async with running(Script(answer(b""))) as server:
        with pytest.raises(ScrapeError, match="space or a control character"):
            await fetch(server.url(path))
        assert server.requests == []


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://gpu-1:80/", "gpu-1"),
        ("http://gpu-1:443/", "gpu-1:443"),
        ("https://gpu-1/", "gpu-1"),
        ("https://GPU-1:80/", "gpu-1:80"),
        ("http://[fe80::1]/", "[fe80::1]"),
        ("http://[::1]:9100/", "[::1]:9100"),
        ("http://bücher.example:1/", "xn--bcher-kva.example:1"),
    ],
)
def test_the_host_header_names_a_port_that_is_not_the_usual_one(url: str, host: str) -> None:
    assert f"\r\nHost: {host}\r\n".encode() in build_request(url, []).head


@pytest.mark.parametrize(
    "url",
    ["http:///metrics", "ftp://host/", "http://host:x/", "http://host:70000/", "http://[::1/", "http://"],
)
async def test_an_address_that_is_none_is_an_error(url: str) -> None:
    with pytest.raises(ScrapeError, match="GET "):
        await fetch(url)


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\nb", "a\0", "\r"])
async def test_a_header_cannot_bring_another(value: str) -> None:
    headers = {"X-A": {"secrets": [value]}}
    async with running(Script(answer(b""))) as server:
        with pytest.raises(ScrapeError, match="the value of the header 'X-A'") as failed:
            await fetch(server.url(), http_headers=headers)
        assert value not in str(failed.value)
        with pytest.raises((ScrapeError, ConfigError), match="cannot be the name of a header"):
            await fetch(server.url(), http_headers={"X A:": {"values": ["a"]}})
        assert server.requests == []


async def test_headers_are_those_of_the_caller_then_of_the_configuration() -> None:
    config: dict[str, Any] = {
        "basic_auth": {"username": "me", "password": "ä:b"},
        "http_headers": {
            "accept": {"values": ["not this"]},
            "user-agent": {"values": ["mine"]},
            "X-Two": {"values": ["a", "b ü"]},
        },
    }
    async with running(Script(answer(b""))) as server, client_of(**config) as client:
        await client.get(server.url(), {"Accept": "this"}, timeout_s=PATIENCE_S, gzip=False)
        await client.get(server.url(), {"Accept": "that"}, timeout_s=PATIENCE_S)
    first, second = (request.decode().split("\r\n")[1:-2] for request in server.requests)
    assert sorted(first) == sorted(
        [
            f"Host: 127.0.0.1:{server.port}",
            "Authorization: Basic bWU6w6Q6Yg==",
            "user-agent: mine",
            "X-Two: a",
            "X-Two: b ü",
            "Accept: this",
            "Accept-Encoding: identity",
        ]
    )
    assert {"Accept: that", "Accept-Encoding: gzip"} <= set(second)


async def test_a_user_in_the_address_signs_in() -> None:
    async with running(Script(answer(b"a"))) as server:
        assert await fetch(f"http://me:secret@127.0.0.1:{server.port}/") == b"a"
        assert b"Authorization: Basic bWU6c2VjcmV0\r\n" in server.requests[0]


async def test_a_redirect_is_followed_only_when_told_to() -> None:
    moved = answer(b"gone", "Location: /new", status="HTTP/1.1 302 Found")
    async with running(Script(moved, moved, answer(b"a"))) as server:
        assert await fetch(server.url()) == b"a"
        assert server.requests[-1].startswith(b"GET /new ")
    async with running(Script(moved)) as server:
        with pytest.raises(ScrapeError, match="the server answered 302 Found"):
            await fetch(server.url(), follow_redirects=False)
        assert len(server.requests) == 1


async def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(ScrapeError, match="cannot connect: Connection refused"):
            await fetch(f"http://{host}:{port}/")
    with pytest.raises(ScrapeError, match="cannot connect: "):
        await fetch("http://nowhere.invalid/")


async def test_an_ipv6_address() -> None:
    async with running(Script(answer(b"a")), host="::1") as server:
        assert await fetch(server.url(host="[::1]")) == b"a"
        assert f"Host: [::1]:{server.port}\r\n".encode() in server.requests[0]


async def test_a_host_is_reached_by_whichever_of_its_addresses_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The names of this machine have one address each, so two that refuse are put before it."""

    async def several(addresses: list[Any], **named: Any) -> socket.socket:
        (known,) = addresses
        refusing = [(*known[:4], (host, known[4][1])) for host in ("127.0.0.2", "127.0.0.3")]
        return await start_connection([*refusing, known], **named)

    monkeypatch.setattr(direct_http, "start_connection", several)
    async with running(Script(answer(b"a"))) as server:
        assert await fetch(server.url()) == b"a"
