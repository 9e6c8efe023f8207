"""Batches of records as a program's outbox sends them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from run_records import RUN, writer


@dataclass
class Sender:
    """One process of a run, counting its batches and steps."""

    rank: int = 0
    number: int = 1  # of the process
    run: str = RUN
    seq: int = 0
    n: int = 0
    step: int = 0

    def batch(self, steps: int = 0, *, seq: int | None = None, **sections: Any) -> bytes:
        """The next one, with so many steps of one sample each; told again where `seq` is given."""
        if steps:
            numbers = range(self.n, self.n + steps)
            at = [self.step + i for i in range(steps)]
            sections["steps"] = {
                "n": [*numbers],
                "step": at,
                "start_us": [1_000_000 + n * 500_000 for n in numbers],
                "us": [400_000] * steps,
                "samples": [1] * steps,
                "phases": {"forward": [100_000] * steps},
                "values": {"loss": [1.0 / (1 + n) for n in numbers]},
            }
            sections["batches"] = [
                {"n": n, "step": step, "dataset": "d", "ids": [n * 7 + self.rank]}
                for n, step in zip(numbers, at, strict=True)
            ]
            self.n += steps
            self.step += steps
        if seq is None:
            seq, self.seq = self.seq, self.seq + 1
        return self._line(seq, sections)

    def first(self, steps: int = 0, **sections: Any) -> bytes:
        """With who it is; rank 0 tells of the run too."""
        now_ms = int(time.time() * 1000)
        sections.setdefault("process", {"started_ms": now_ms, "node": "gpu-1", "pid": 100 + self.rank})
        if self.rank == 0:
            sections.setdefault("facts", {"created_ms": now_ms, "experiment": "lr", "name": "first"})
        return self.batch(steps, **sections)

    def heartbeat(self, **state: Any) -> bytes:
        return self._line(None, {"state": {"heartbeat_s": 2.0, **state}})

    def _line(self, seq: int | None, sections: dict[str, Any]) -> bytes:
        sections.setdefault("state", {"heartbeat_s": 2.0, "step": self.step or None})
        header = {
            "v": 1,
            "run": self.run,
            "rank": self.rank,
            "writer": writer(1_000 * self.number + self.rank),
            "seq": seq,
            "t_ms": int(time.time() * 1000),
        }
        return json.dumps({**header, **sections}).encode() + b"\n"
