"""`trilens spool`: what waits on this machine, and sending what dead processes left."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from records_server import RecordsServer, Reply, listening
from servers import free_port
from trilens.cli.main import app
from trilens.model.errors import ConfigError
from trilens.sdk.guard import Guard
from trilens.sdk.outbox.folder import About
from trilens.sdk.outbox.line import Header, Line, encode
from trilens.sdk.outbox.spool import Spool

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from click.testing import Result

WRITER = "c" * 32


def left_by_a_dead_process(root: Path, server: str, *, batches: int = 3) -> None:
    told(root, server, batches).close()


def told(root: Path, server: str, batches: int = 3) -> Spool:
    about = About("run-1", 4, WRITER, server, 1_700_000_000_000, "node-7", 123)
    spool = Spool(root, about, Guard(), disk_bytes=2**20, memory_bytes=2**20)
    for seq in range(batches):
        spool.append(Line(seq, encode(Header("run-1", 4, WRITER), seq, 1_700_000_000_000, {})))
    return spool


def spool_command(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["spool", *arguments])


def test_it_lists_what_waits_and_whose_it_is(tmp_path: Path) -> None:
    living = told(tmp_path, "http://there:9333")
    alive = spool_command("--dir", str(tmp_path))
    assert "run-1" in alive.stdout
    assert "dead" not in alive.output
    living.close()
    dead = spool_command("--dir", str(tmp_path))
    assert "node-7[123] dead" in dead.stdout
    assert "http://there:9333" in dead.stdout
    assert "trilens spool send" in dead.stderr
    (listed,) = json.loads(spool_command("--dir", str(tmp_path), "--json").stdout)
    assert listed["bytes"] > 100
    assert {name: listed[name] for name in ("run", "rank", "host", "pid", "alive", "server")} == {
        "run": "run-1",
        "rank": 4,
        "host": "node-7",
        "pid": 123,
        "alive": False,
        "server": "http://there:9333",
    }


def test_an_empty_spool_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRILENS_SPOOL", str(tmp_path / "none"))
    listed, sent = spool_command(), spool_command("send")
    assert (listed.exit_code, listed.stdout, sent.exit_code) == (0, "", 0)
    assert str(tmp_path / "none") in listed.stderr
    assert json.loads(spool_command("--json").stdout) == []


def test_it_sends_to_the_server_that_was_meant_or_to_one_that_is_named(tmp_path: Path) -> None:
    server = RecordsServer()
    with listening(server) as url:
        left_by_a_dead_process(tmp_path, url)
        assert f"to {url}" in spool_command("send", "--dir", str(tmp_path)).stdout
        left_by_a_dead_process(tmp_path, "http://127.0.0.1:1", batches=5)
        named = spool_command("send", "--dir", str(tmp_path), "--server", url, "--json")
    (outcome,) = json.loads(named.stdout)
    assert (outcome["sent_to"], outcome["left_bytes"], outcome["error"]) == (url, 0, None)
    assert [batch["seq"] for batch in server.batches[WRITER]] == [0, 1, 2, 3, 4]
    assert all("for_dead=true" in request.path for request in server.requests)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_sent_stays_and_the_exit_code_says_so(tmp_path: Path) -> None:
    left_by_a_dead_process(tmp_path, f"http://127.0.0.1:{free_port()}")
    sent = spool_command("send", "--dir", str(tmp_path))
    assert sent.exit_code == 1
    assert "does not answer" in sent.stderr
    assert "run-1" in spool_command("--dir", str(tmp_path)).stdout
    refused = spool_command("send", "--server", "ftp://x", "--dir", str(tmp_path))
    assert isinstance(refused.exception, ConfigError)


def test_a_busy_server_is_asked_again_and_what_it_refuses_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trilens.sdk.outbox.backoff.FIRST_S", 0.01)
    server = RecordsServer()
    server.bad_replies.append(Reply(503))
    server.refused = {1}
    with listening(server) as url:
        left_by_a_dead_process(tmp_path, url)
        sent = spool_command("send", "--dir", str(tmp_path))
    assert sent.exit_code == 1
    assert "1 batch could not be sent" in sent.stderr
    assert [batch["seq"] for batch in server.batches[WRITER]] == [0, 2]
