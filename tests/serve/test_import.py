"""/api/v1/import/*: history over HTTP, with the rules of every other request."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx

from trilens_process import server, trilens

if TYPE_CHECKING:
    from pathlib import Path

NOW = int(time.time())
OLD = NOW - 2 * 86_400


def test_history_over_http(tmp_path: Path) -> None:
    """One server, asked in order."""
    (tmp_path / "token").write_text("s3cret", encoding="utf-8")
    config = tmp_path / "trilens.yaml"
    config.write_text("server: {token_file: token, max_body: 1000}\n", encoding="utf-8")
    with server(tmp_path, "--config", str(config)) as (url, process):
        path = f"{url}/api/v1/import/openmetrics"
        assert httpx.post(path, content=f"a 1 {OLD}\n# EOF\n").status_code == 401

        client = httpx.Client(headers={"Authorization": "Bearer s3cret"})
        assert client.get(path).status_code == 405
        large = client.post(path, content=b"a 1 1\n" * 200)
        assert (large.status_code, "server.max_body" in large.json()["error"]) == (413, True)

        # All of a body or nothing: the good line before the bad one is not written.
        bad = client.post(path, params={"first_line": 100}, content=f"a 1 {OLD}\na 2\n")
        assert bad.status_code == 400
        assert bad.json()["errorType"] == "bad_data"
        assert bad.json()["error"].startswith("line 101: the sample has no timestamp")

        taken = client.post(path, content=f"a 5 {OLD + 60}\na 4 {OLD}\na 1 {NOW - 40 * 86_400}\n# EOF")
        assert taken.json()["data"] == {
            "samples": 2,
            "expired": 1,
            "oldest_ms": OLD * 1000,
            "newest_ms": (OLD + 60) * 1000,
        }
        text = client.post(f"{url}/api/v1/import/prometheus", content=f"a 6 {(OLD + 120) * 1000}\n")
        assert text.json()["data"]["samples"] == 1
        asked = client.get(f"{url}/api/v1/query", params={"query": "a[1h]", "time": OLD + 180}).json()
        assert asked["data"]["result"][0]["values"] == [[OLD, "4"], [OLD + 60, "5"], [OLD + 120, "6"]]

        file = tmp_path / "history.om"
        file.write_text(f"a 7 {OLD + 180}\n# EOF\n", encoding="utf-8")
        locked = trilens("backfill", str(file), "--data", str(tmp_path / "data"))
        assert locked.returncode == 1
        assert str(process.pid) in locked.stderr
        assert len(locked.stderr.splitlines()) == 1
        sent = trilens("backfill", str(file), "--server", url, TRILENS_TOKEN="s3cret")
        assert sent.returncode == 0, sent.stderr
