"""A program that tells of its steps, and keeps each batch until it is answered, as the SDK's outbox does."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import httpx

from run_lines import Sender

if TYPE_CHECKING:
    from collections.abc import Iterable

RUN: Final = "beside"
_STEPS: Final = 3  # a batch


class Outbox:
    def __init__(self, url: str, within_s: float) -> None:
        """`url` is Trilens', `within_s` how long it waits for an answer."""
        self._sender = Sender(run=RUN)
        self._client = httpx.Client(base_url=url, timeout=within_s)
        self._waiting: list[bytes] = []
        self._taken = -1  # the last batch that is

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    @property
    def last_step(self) -> int:
        return self._sender.step - 1

    def send(self) -> int | None:
        """The next batch, after those that wait; the status, None where no answer comes in time."""
        is_first = self._sender.seq == 0
        self._waiting.append(self._sender.first(_STEPS) if is_first else self._sender.batch(_STEPS))
        try:
            answer = self._client.post("/api/v1/runs/records", content=b"".join(self._waiting))
        except httpx.TimeoutException:
            return None
        if answer.status_code == 200:
            taken = int(answer.json()["data"]["seq"])
            del self._waiting[: taken - self._taken]
            self._taken = taken
        return answer.status_code

    def not_once(self, found: Iterable[int]) -> list[int]:
        """The numbers of steps that are not there, or more than once, of which these are the records."""
        times = Counter(found)
        return [n for n in range(self._sender.n) if times[n] != 1]
