"""Scrapes over TLS."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import pytest
from scripted_http import BODY, PATIENCE_S, Script, answer, chunked, client_of, fetch, running

from certificates import make_certificates
from http_target import HttpTarget
from trilens.model.errors import ScrapeError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    make_certificates(folder)
    return folder


def server_tls(folder: Path, *, client_certificate: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    if client_certificate:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(folder / "ca.pem")
    return context


async def test_tls_with_an_authority_of_ones_own(certificates: Path) -> None:
    trusting = {"ca_file": str(certificates / "ca.pem")}
    chunks = answer(chunked(BODY), "Transfer-Encoding: chunked", length=False)
    async with running(Script(answer(BODY), chunks), tls=server_tls(certificates)) as server:
        async with client_of(tls_config=trusting) as client:
            url = server.url(host="localhost", scheme="https")
            for _ in range(3):
                assert (await client.get(url, {}, timeout_s=PATIENCE_S)).body == BODY
            assert server.connections == 1
        url = server.url(scheme="https")
        with pytest.raises(ScrapeError, match="certificate is not accepted: IP address mismatch"):
            await fetch(url, tls_config=trusting)
        assert await fetch(url, tls_config={**trusting, "server_name": "localhost"}) == BODY
        with pytest.raises(ScrapeError, match="certificate is not accepted: unable to get local issuer"):
            await fetch(url)
        assert await fetch(url, tls_config={"insecure_skip_verify": True}) == BODY
        with pytest.raises(ScrapeError, match="closed"):
            await fetch(server.url())  # without TLS


async def test_a_client_certificate(certificates: Path) -> None:
    trusting = {"ca_file": str(certificates / "ca.pem")}
    own = {"cert_file": str(certificates / "client.pem"), "key_file": str(certificates / "client.key")}
    with HttpTarget(BODY, tls=server_tls(certificates, client_certificate=True)) as target:
        url = f"https://localhost:{target.address.partition(':')[2]}/metrics"
        assert await fetch(url, tls_config={**trusting, **own}) == BODY
        with pytest.raises(ScrapeError, match="TLS: tlsv13 alert certificate required"):
            await fetch(url, tls_config=trusting)


async def test_https_to_a_server_that_speaks_http() -> None:
    with HttpTarget() as target, pytest.raises(ScrapeError, match="cannot connect: TLS: "):
        await fetch(f"https://{target.address}/metrics")


async def test_a_tls_answer_that_ends_with_the_connection(certificates: Path) -> None:
    said = Script(answer(BODY, length=False), then_close=True)
    async with running(said, tls=server_tls(certificates)) as server:
        url = server.url(scheme="https")
        assert await fetch(url, tls_config={"insecure_skip_verify": True}) == BODY


async def test_a_tls_answer_without_an_end_is_not_taken_for_whole(certificates: Path) -> None:
    """Without a length, only the goodbye of TLS tells a whole body from one that somebody cut off."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(b"half", length=False))
        await writer.drain()
        writer.transport.abort()

    server = await asyncio.start_server(cut, "127.0.0.1", 0, ssl=server_tls(certificates))
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(ScrapeError, match="connection"):
        await fetch(f"https://127.0.0.1:{port}/", tls_config={"insecure_skip_verify": True})
    server.close()
