"""Samples that remote write answered 204 for are there: after kill -9, SIGTERM and a full disk."""

from __future__ import annotations

import random
import signal
import threading
from typing import TYPE_CHECKING

import httpx
import pytest

from acknowledged_writes import Writer, write_until_gone
from long_form import rounds
from servers import until
from small_disk import fill, small_disk
from trilens_process import server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.hunt]


WRITERS = 3
KILLS = rounds(short=3, long=20)


def test_kill_9_at_random_moments(tmp_path: Path) -> None:
    rng = random.Random(9)
    writers = [Writer(number) for number in range(WRITERS)]
    for _ in range(KILLS):
        with server(tmp_path) as (url, process):
            assert [writer.missing(url) for writer in writers] == [[]] * WRITERS
            threads, _ = write_until_gone(url, writers)
            kill = threading.Timer(rng.uniform(0.0, 0.5), process.kill)
            kill.start()
            for thread in (kill, *threads):
                thread.join(60)
    with server(tmp_path) as (url, _):
        assert [writer.missing(url) for writer in writers] == [[]] * WRITERS
    assert min(len(writer.acknowledged) for writer in writers) > KILLS
    assert all(not writer.refused for writer in writers)


def test_sigterm_during_writes(tmp_path: Path) -> None:
    writers = [Writer(number) for number in range(WRITERS)]
    with server(tmp_path) as (url, process):
        threads, _ = write_until_gone(url, writers)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        for thread in threads:
            thread.join(60)
    with server(tmp_path) as (url, _):
        assert [writer.missing(url) for writer in writers] == [[]] * WRITERS


def test_a_full_disk_refuses_writes_until_there_is_room(tmp_path: Path) -> None:
    writer = Writer(0)
    with small_disk(tmp_path / "small") as disk:
        with server(disk) as (url, _), httpx.Client(base_url=url, timeout=60) as client:
            for _ in range(20):
                assert writer.batch(client).status_code == 204
            ballast = fill(disk)
            until(lambda: writer.batch(client).status_code != 204, "a write is refused")
            refused = writer.refused[0]
            assert refused.status_code == 503
            assert "free some disk space" in refused.text
            assert writer.missing(url) == [], "reads go on"
            reason = client.get("/readyz").json()["store"]["read_only_reason"]
            assert "space" in reason
            ballast.unlink()
            until(lambda: writer.batch(client).status_code == 204, "writes are taken again")
            assert {answer.status_code for answer in writer.refused} == {503}
            assert writer.missing(url) == []
        with server(disk) as (url, _):
            assert writer.missing(url) == []
