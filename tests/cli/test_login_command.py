"""`trilens login`: a token is kept for one server and for its user alone, and sent to no other."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from typer.testing import CliRunner

from memory_api import Api, running
from trilens.cli.main import app
from trilens.client.connection import Connection
from trilens.model.errors import ConfigError, ServerError
from trilens.settings.client import load_client_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BOSS = "b0ss"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running(Api(overrides={"server.token": BOSS}).build()) as found:
        yield found


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where logins are kept, of somebody who has told the commands nothing else."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("TRILENS_TOKEN", "TRILENS_TOKEN_FILE", "TRILENS_SERVER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "trilens" / "logins.json"


def trilens(*words: str, pasted: str = "") -> Any:
    return CliRunner().invoke(app, [*words], input=pasted)


def test_commands_send_what_login_keeps(url: str, kept: Path) -> None:
    refused = trilens("token", "list", "--server", url)
    assert "trilens login" in str(refused.exception)
    told = trilens("login", "--server", f"{url}/", pasted=f"{BOSS}\n")
    assert told.stdout == f"{url}: you are server token, and may admin\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert trilens("token", "list", "--server", url).exit_code == 0
    # Another server is not told it, and whoever names a token means that one.
    assert load_client_settings("https://other.example").token is None
    assert (
        load_client_settings(url, {"TRILENS_TOKEN": "x", "XDG_CONFIG_HOME": str(kept.parents[1])}).token
        == "x"
    )

    assert "is forgotten" in trilens("logout", "--server", url).stdout
    assert isinstance(trilens("token", "list", "--server", url).exception, ServerError)
    assert "there was no login" in trilens("logout", "--server", url).stdout


def test_as_json(url: str, kept: Path) -> None:
    told = json.loads(trilens("login", "--server", url, "--json", pasted=BOSS).stdout)
    assert (told["name"], told["how"], told["ends_ms"]) == ("server token", "token", None)
    assert kept.exists()
    for forgotten in (True, False):
        told = json.loads(trilens("logout", "--server", url, "--json").stdout)
        assert told == {"server": url, "forgotten": forgotten}


@pytest.mark.parametrize(
    ("pasted", "why"), [("wrong", "does not take this"), ("", "nothing was pasted"), ("ü", "printable ASCII")]
)
def test_what_is_not_taken_is_not_kept(url: str, kept: Path, pasted: str, why: str) -> None:
    told = trilens("login", "--server", url, pasted=pasted)
    assert isinstance(told.exception, ConfigError)
    assert why in str(told.exception)
    assert not kept.exists()


def test_one_that_is_over_says_so(url: str, kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_text(json.dumps({url: "trs_over"}))
    refused = trilens("token", "list", "--server", url).exception
    assert "is over (trilens login)" in str(refused)


def test_a_server_that_asks_nobody_needs_none(kept: Path) -> None:
    with running(Api().build()) as open_to_all:
        told = trilens("login", "--server", open_to_all, pasted="anything")
    assert "there is nothing to keep" in told.stderr
    assert not kept.exists()


def test_a_file_that_cannot_be_read_is_one_line(url: str, kept: Path) -> None:
    kept.parent.mkdir()
    kept.write_text("{")
    told = trilens("token", "list", "--server", url).exception
    assert isinstance(told, ConfigError)
    assert "remove it, and log in again" in str(told)


@pytest.mark.parametrize("holds", [None, "no certificate"])
def test_a_file_of_certificates_that_cannot_be_read(
    holds: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "company.pem"
    if holds is not None:
        file.write_text(holds)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    told = trilens("token", "list", "--server", "https://trilens.example").exception
    assert isinstance(told, ConfigError)
    assert f"SSL_CERT_FILE: {file}: no certificates can be read" in str(told)
    with pytest.raises(ConfigError, match=r"company\.pem"):
        Connection("https://trilens.example", None)


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"), "in SSL_CERT_FILE"),
        (httpx.RemoteProtocolError("Server disconnected without sending a response."), "speak https://"),
        (httpx.ConnectError("Connection refused"), "trilens up"),
    ],
)
def test_why_there_is_no_answer(error: Exception, hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(httpx.Client, "request", refuse)
    told = trilens("token", "list", "--server", "http://trilens.example").exception
    assert isinstance(told, ServerError)
    assert hint in str(told)


def test_a_backup_needs_a_folder_before_it_is_made(tmp_path: Path) -> None:
    told = trilens("backup", str(tmp_path / "not" / "there.tar"), "--server", "http://127.0.0.1:9")
    assert isinstance(told.exception, ConfigError)
    assert "there is no folder" in str(told.exception)
