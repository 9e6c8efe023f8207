"""Programs that send batches of records until each is answered, as an outbox does."""

from __future__ import annotations

import http.client
import json
import threading
import time

from run_lines import Sender

STEPS = 5  # a batch


class Program:
    """Sends batches one after the other, each again until it is answered, as an outbox does."""

    def __init__(self, port: int, rank: int, run: str = "crash") -> None:
        self.sender = Sender(rank=rank, run=run)
        self.acknowledged = -1
        self._port = port
        self._waiting = [self.sender.first(STEPS)]
        self.halfway = threading.Event()
        self.finish = threading.Event()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while not self.finish.is_set() or self._waiting:
            if len(self._waiting) < 3 and not self.finish.is_set():
                self._waiting.append(self.sender.batch(STEPS))
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
                connection.request("POST", "/api/v1/runs/records", b"".join(self._waiting))
                answer = connection.getresponse()
                taken = json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.02)  # a server that starts needs the core more than who asks whether it did
                continue
            if answer.status == 200:
                del self._waiting[: taken["data"]["seq"] - self.acknowledged]
                self.acknowledged = taken["data"]["seq"]
                if self.acknowledged >= 3:
                    self.halfway.set()
