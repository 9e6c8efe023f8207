"""Samples that remote write answered 204 for are there: after kill -9, SIGTERM and a full disk."""

from __future__ import annotations

import errno
import random
import signal
import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from long_form import rounds
from servers import until
from small_disk import small_disk
from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels
from trilens_process import server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.long, pytest.mark.hunt]


BEGIN_MS = (int(time.time()) - 3000) * 1000
WRITERS = 3
KILLS = rounds(short=3, long=20)


class Writer:
    """Writes a batch after the other for as long as the server answers; knows what was acknowledged."""

    def __init__(self, number: int, series: int = 20) -> None:
        self._labels = [
            make_labels({"__name__": "written", "writer": str(number), "i": str(i)}) for i in range(series)
        ]
        self._next = 0
        self.number = number
        self.acknowledged: list[int] = []
        self.refused: list[httpx.Response] = []

    def batch(self, client: httpx.Client) -> httpx.Response:
        """The k-th has every series at k milliseconds, with the value k. A number is never used again."""
        k, self._next = self._next, self._next + 1
        rows = encode([(labels, BEGIN_MS + k, float(k)) for labels in self._labels])
        answer = client.post("/api/v1/write", content=rows, headers=HEADERS)
        if answer.status_code == 204:
            self.acknowledged.append(k)
        else:
            self.refused.append(answer)
        return answer

    def until_gone(self, url: str, first: threading.Event) -> None:
        with httpx.Client(base_url=url, timeout=30) as client:
            try:
                while True:
                    self.batch(client)
                    first.set()
            except httpx.HTTPError:
                return

    def missing(self, url: str) -> list[int]:
        """Acknowledged batches that a query does not answer whole."""
        with httpx.Client(base_url=url, timeout=60) as client:
            selector = f'written{{writer="{self.number}"}}'
            form = {"query": f"{selector}[50m]", "time": str(BEGIN_MS // 1000 + 2990)}
            result = client.post("/api/v1/query", data=form).json()["data"]["result"]
        held = [{round(float(v)) for _, v in series["values"]} for series in result]
        assert not self.acknowledged or len(held) == len(self._labels), "a series is not there at all"
        return [k for k in self.acknowledged if not all(k in values for values in held)]


def write_until_gone(url: str, writers: list[Writer]) -> tuple[list[threading.Thread], threading.Event]:
    first = threading.Event()
    threads = [threading.Thread(target=writer.until_gone, args=(url, first)) for writer in writers]
    for thread in threads:
        thread.start()
    assert first.wait(30), "nothing was written"
    return threads, first


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


def fill(disk: Path) -> Path:
    """To the last byte."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 16))
        except OSError as e:
            assert e.errno == errno.ENOSPC
    return ballast
