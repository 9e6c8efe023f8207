"""Certificates as texts, as they come out of Secrets."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest
from pydantic import ValidationError

from certificates import make_authority, sign
from http_target import HttpTarget
from trilens.collect.http_client import HttpClient
from trilens.collect.http_config import HttpConfig, TlsConfig
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_authority(tmp_path)
    sign(tmp_path, "server", hosts="IP:127.0.0.1")
    sign(tmp_path, "client", subject="/CN=trilens")
    return tmp_path


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text()


async def test_a_target_that_wants_a_certificate(folder: Path) -> None:
    wants = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=folder / "ca.pem")
    wants.load_cert_chain(folder / "server.pem", folder / "server.key")
    wants.verify_mode = ssl.CERT_REQUIRED
    texts = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}
    tls = {name: read(folder, file) for name, file in texts.items()}
    client = HttpClient(HttpConfig.model_validate({"tls_config": tls}))
    with HttpTarget("a 1\n", tls=wants) as target:
        answer = await client.get(f"https://{target.address}/metrics", {}, timeout_s=10)
        assert bytes(answer.body) == b"a 1\n"
    await client.close()


def test_what_is_no_certificate_is_said(folder: Path) -> None:
    config = TlsConfig.model_validate({"cert": read(folder, "client.pem"), "key": "no key"})
    with pytest.raises(ConfigError, match="cannot use the certificates of tls_config"):
        config.context()
    with pytest.raises(ConfigError, match="cannot use the certificates of tls_config"):
        TlsConfig(ca="no certificate").context()
    assert "no key" not in repr(config)


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        ({"cert": "c"}, "go together"),
        ({"cert": "c", "key_file": "k"}, "go together"),
        ({"cert": "c", "cert_file": "c", "key": "k"}, "give cert or cert_file, not both"),
        ({"ca": "c", "ca_file": "c"}, "give ca or ca_file, not both"),
    ],
)
def test_one_way_to_give_each(tls: dict[str, str], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TlsConfig.model_validate(tls)
