"""Who gets in, and who does not."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import httpx
import pytest

from memory_api import Api, running
from trilens.model.errors import ConfigError
from trilens.serve.compose import System
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from pathlib import Path

QUERY = "/api/v1/query?query=1"


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("listen", "token", "refused"),
    [
        ("127.0.0.1:9333", None, False),
        ("[::1]:9333", None, False),
        ("localhost:9333", None, False),
        ("0.0.0.0:9333", None, True),
        (":9333", None, True),
        ("10.0.0.5:9333", None, True),
        ("gpu-1.example:9333", None, True),
        ("0.0.0.0:9333", "s3cret", False),
    ],
)
def test_only_loopback_goes_without_a_token(listen: str, token: str | None, refused: bool) -> None:
    overrides = {"server.listen": listen, "server.token": token}
    server = load_settings(overrides=overrides, environ={}).server
    if refused:
        with pytest.raises(ConfigError, match="without a token") as caught:
            server.required_token()
        assert "TRILENS_SERVER_TOKEN" in str(caught.value)
    else:
        assert server.required_token() == token


@pytest.mark.parametrize(("token", "is_told"), [("hunter2", True), ("x" * 16, False), (None, False)])
def test_a_token_that_others_can_guess_is_told_of(token: str | None, is_told: bool) -> None:
    settings = load_settings(overrides={"server.token": token}, environ={})
    assert bool(settings.server.doubt_about(settings.required_token())) == is_told


def modes_of_files(folder: Path) -> dict[str, str]:
    return {one.name: oct(one.stat().st_mode & 0o777) for one in folder.iterdir() if one.is_file()}


@pytest.mark.parametrize("before", [[], ["notifications.sqlite", "notifications.sqlite-wal", "trilens.lock"]])
async def test_what_a_server_keeps_can_be_read_by_its_owner_alone(tmp_path: Path, before: list[str]) -> None:
    """Also of files that an earlier version left open to all."""
    for name in before:
        (tmp_path / name).touch(0o644)
    settings = load_settings(overrides={"storage.data_dir": str(tmp_path)}, environ={})
    system = System(settings, None, lambda: settings)
    try:
        found = modes_of_files(tmp_path)
    finally:
        await system.stop()
    assert {"notifications.sqlite", "notifications.sqlite-wal", "trilens.lock"} <= found.keys()
    assert set(found.values()) == {"0o600"}
    assert (tmp_path / "engine").stat().st_mode & 0o777 == 0o700


def test_with_a_token_everything_but_the_probes_needs_it() -> None:
    api = Api(overrides={"server.token": "s3cret"})
    with running(api.build()) as url, httpx.Client(base_url=url) as client:
        for path in (QUERY, "/metrics", "/api/v1/targets", "/-/healthy", "/nowhere"):
            answer = client.get(path)
            assert answer.status_code == 401, path
            assert answer.json()["errorType"] == "unauthorized"
            assert "Bearer" in answer.headers["www-authenticate"]
        assert client.post("/-/reload").status_code == 401
        assert api.reloads == []
        for path in ("/healthz", "/readyz"):
            assert client.get(path).status_code == 200

        accepted = ("Bearer s3cret", "bearer s3cret", basic("anyone", "s3cret"))
        for authorization in accepted:
            assert client.get(QUERY, headers={"Authorization": authorization}).status_code == 200
        wrong = (
            "Bearer s3cre",
            "Bearer s3crett",
            "s3cret",
            "Basic s3cret",
            "Basic !",
            basic("s3cret", "x"),
            "",
        )
        for authorization in wrong:
            assert client.get(QUERY, headers={"Authorization": authorization}).status_code == 401, (
                authorization
            )


def test_a_foreign_host_name_is_turned_away_on_loopback() -> None:
    api = Api(overrides={"server.allowed_hosts": "trilens.example"})
    with running(api.build()) as url, httpx.Client(base_url=url) as client:
        port = client.base_url.port
        known = ("localhost", f"localhost:{port}", f"127.0.0.1:{port}", "127.0.0.9", f"[::1]:{port}")
        for host in (*known, "trilens.example", "Trilens.Example:443"):
            assert client.get(QUERY, headers={"Host": host}).status_code == 200, host
        for host in (
            "evil.example",
            f"evil.example:{port}",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
        ):
            answer = client.get(QUERY, headers={"Host": host})
            assert answer.status_code == 403, host
            assert "allowed_hosts" in answer.json()["error"]


def test_a_page_of_another_site_may_not_post() -> None:
    api = Api()
    with running(api.build()) as url, httpx.Client(base_url=url) as client:
        for headers in (
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://localhost:3000"},
            {"Sec-Fetch-Site": "cross-site"},
        ):
            assert client.post("/-/reload", headers=headers).status_code == 403, headers
            assert client.post("/api/v1/query", data={"query": "1"}, headers=headers).status_code == 403
        assert api.reloads == []
        assert client.post("/-/reload", headers={"Origin": url}).status_code == 200
        assert client.post("/-/reload").status_code == 200
        assert api.reloads == ["reload", "reload"]


def test_cors_is_off_unless_an_origin_is_named() -> None:
    origin = {"Origin": "https://grafana.example"}
    with running(Api().build()) as url:
        assert "access-control-allow-origin" not in httpx.get(url + QUERY, headers=origin).headers
    api = Api(overrides={"server.cors_origins": "https://grafana.example", "server.token": "t"})
    with running(api.build()) as url, httpx.Client(base_url=url) as client:
        preflight = client.options(QUERY, headers={**origin, "Access-Control-Request-Method": "POST"})
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://grafana.example"
        assert client.get(QUERY, headers=origin).status_code == 401
        answer = client.post(
            "/api/v1/query", data={"query": "1"}, headers={**origin, "Authorization": "Bearer t"}
        )
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == "https://grafana.example"
        assert "Origin" in answer.headers["vary"]
        stranger = client.get(QUERY, headers={"Origin": "https://evil.example", "Authorization": "Bearer t"})
        assert "access-control-allow-origin" not in stranger.headers
