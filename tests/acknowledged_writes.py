"""Remote writes of which it is known which were acknowledged."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import httpx

from trilens.collect.remote_write import encode
from trilens.collect.remote_write.encode import HEADERS
from trilens.model.labels import make_labels

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class Writer:
    """Writes a batch after the other for as long as the server answers; knows what was acknowledged."""

    def __init__(self, number: int, series: int = 20) -> None:
        self._labels = [
            make_labels({"__name__": "written", "writer": str(number), "i": str(i)}) for i in range(series)
        ]
        self._next = 0
        self._first_ms = self._last_ms = 0
        self.number = number
        self.acknowledged: list[int] = []
        self.refused: list[httpx.Response] = []

    def batch(self, client: httpx.Client) -> httpx.Response:
        """The k-th has every series now, with the value k. Neither a number nor a time is used again."""
        k, self._next = self._next, self._next + 1
        t_ms = self._now_ms()
        rows = encode([(labels, t_ms, float(k)) for labels in self._labels])
        answer = client.post("/api/v1/write", content=rows, headers=HEADERS)
        if answer.status_code == 204:
            self.acknowledged.append(k)
        else:
            self.refused.append(answer)
        return answer

    def _now_ms(self) -> int:
        """Later than the time before. A server refuses what is older than what it has of a series, and what
        is an hour older than the newest of all, such as what it measures of itself."""
        self._last_ms = max(self._last_ms + 1, time.time_ns() // 1_000_000)
        self._first_ms = self._first_ms or self._last_ms
        return self._last_ms

    def until_gone(self, url: str, first: threading.Event) -> None:
        """`first` is set by the first one that is acknowledged."""
        with httpx.Client(base_url=url, timeout=30) as client:
            try:
                while True:
                    if self.batch(client).status_code == 204:
                        first.set()
            except httpx.HTTPError:
                return

    def missing(self, url: str) -> list[int]:
        """Acknowledged batches that a query does not answer whole."""
        if not self.acknowledged:
            return []
        with httpx.Client(base_url=url, timeout=60) as client:
            span = f"[{self._last_ms - self._first_ms + 1_000}ms]"
            form = {
                "query": f'written{{writer="{self.number}"}}{span}',
                "time": f"{self._last_ms / 1000:.3f}",
            }
            answer = client.post("/api/v1/query", data=form)
        assert answer.status_code == 200, answer.text
        result = answer.json()["data"]["result"]
        return self.lost([{round(float(v)) for _, v in series["values"]} for series in result])

    def lost(self, held: Sequence[Collection[int]]) -> list[int]:
        """Acknowledged batches that are not whole in these, the values of each series."""
        if not self.acknowledged:
            return []
        assert len(held) == len(self._labels), f"{len(held)} of {len(self._labels)} series are there at all"
        return [k for k in self.acknowledged if not all(k in values for values in held)]


def write_until_gone(url: str, writers: list[Writer]) -> tuple[list[threading.Thread], threading.Event]:
    first = threading.Event()
    threads = [threading.Thread(target=writer.until_gone, args=(url, first)) for writer in writers]
    for thread in threads:
        thread.start()
    assert first.wait(30), (
        f"nothing was taken: {[one.text for writer in writers for one in writer.refused[-1:]]}"
    )
    return threads, first
