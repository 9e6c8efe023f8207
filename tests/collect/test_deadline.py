"""What a tracker is asked ends in time, also where its server answers and comes to no end."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from certificates import make_certificates
from dripping import HEAD, Dripping
from trilens.collect.trackers.json_api import JsonApi
from trilens.model.errors import TrackerAway

if TYPE_CHECKING:
    from pathlib import Path

BODY = HEAD + b"Content-Length: 9999\r\n\r\n"


def asked(api: JsonApi) -> None:
    with pytest.raises(TrackerAway, match=r"no answer from .*timed out"):
        api.get("/runs", {})
    api.close()


@pytest.mark.parametrize("first", [HEAD, BODY], ids=["headers", "body"])
def test_an_answer_that_comes_drop_by_drop_is_given_up(first: bytes) -> None:
    with Dripping(first, b"7") as server:
        asked(JsonApi(server.url, dict, False, 0.2))
        assert server.is_given_up()


def test_also_one_by_tls(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    theirs = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    with Dripping(BODY, b"7", tls=ours) as server:
        asked(JsonApi(server.url, dict, theirs, 0.5))
        assert server.is_given_up()


@pytest.mark.parametrize("address", ["http://elsewhere.invalid", "https://elsewhere.invalid"])
def test_also_one_by_a_proxy(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with Dripping(HEAD, b"7") as proxy:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        asked(JsonApi(address, dict, False, 0.2))
        assert proxy.is_given_up()
