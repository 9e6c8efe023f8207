"""Training ranks that do not exist, and the records that they would send (docs/sdk-protocol.md)."""

from __future__ import annotations

import json
import math
from typing import Any, Final

SAMPLES_A_STEP: Final = 8
_DATASET_SAMPLES: Final = (
    10_000_019  # a prime: multiples of a number visit every sample before one comes again
)
_STRIDE: Final = 6_700_417
_PHASES: Final = {"data": 0.04, "forward": 0.3, "backward": 0.45, "grad_sync": 0.15, "optimizer": 0.06}


class SimulatedRank:
    """One process of one run. Steps take `step_s`, give or take; what it saw of the data is shuffled."""

    def __init__(self, run: str, rank: int, world_size: int, started_s: float, step_s: float = 0.5) -> None:
        self.run = run
        self.rank = rank
        self.steps = 0  # told so far
        self.next_seq = 0
        self._world_size = world_size
        self._started_s = started_s
        self._step_s = step_s
        self._writer = f"{abs(hash((run, rank))) % (1 << 64):016x}{rank:016x}"

    def batch(self, now_s: float, heartbeat_s: float = 2.0) -> bytes:
        """A line with what it did until then since the last one; without anything done, a heartbeat."""
        done = int((now_s - self._started_s) / self._step_s)
        steps = range(self.steps, max(done, self.steps))
        sections: dict[str, Any] = {}
        if self.next_seq == 0:
            sections |= self._introduction()
        if steps:
            sections |= {"steps": self._columns(steps), "batches": [self._samples(n) for n in steps]}
        seq = self.next_seq if sections else None
        if sections:
            self.next_seq += 1
        self.steps = steps.stop
        state = {"heartbeat_s": heartbeat_s, "step": self.steps, "phase": "forward", "lost": {}}
        return self._line(seq, now_s, {**sections, "state": state})

    def end(self, now_s: float) -> bytes:
        seq, self.next_seq = self.next_seq, self.next_seq + 1
        return self._line(seq, now_s, {"end": {"t_ms": int(now_s * 1000), "how": "finished"}})

    def _line(self, seq: int | None, now_s: float, sections: dict[str, Any]) -> bytes:
        header = {"v": 1, "run": self.run, "rank": self.rank, "writer": self._writer, "seq": seq}
        return json.dumps({**header, "t_ms": int(now_s * 1000), **sections}).encode() + b"\n"

    def _introduction(self) -> dict[str, Any]:
        started_ms = int(self._started_s * 1000)
        process = {
            "started_ms": started_ms,
            "local_rank": self.rank % 8,
            "world_size": self._world_size,
            "node": f"gpu-{self.rank // 8:04}",
            "pid": 1_000 + self.rank,
            "gpus": [f"GPU-{self.rank:08}"],
            "launcher": "torchrun",
            "versions": {"python": "3.12", "torch": "2.9"},
        }
        if self.rank:
            return {"process": process}
        facts = {"created_ms": started_ms, "experiment": "simulated", "world_size": self._world_size}
        return {"process": process, "facts": {**facts, "name": self.run, "config": {"lr": 3e-4}}}

    def _columns(self, steps: range) -> dict[str, Any]:
        begin_us = int(self._started_s * 1e6)
        times = [self._us(n) for n in steps]
        return {
            "n": [*steps],
            "step": [*steps],
            "start_us": [begin_us + int(n * self._step_s * 1e6) for n in steps],
            "us": times,
            "samples": [SAMPLES_A_STEP] * len(steps),
            "tokens": [SAMPLES_A_STEP * 4_096] * len(steps),
            "phases": {name: [int(us * share) for us in times] for name, share in _PHASES.items()},
            "values": {
                "loss": [self.loss(n) for n in steps],
                "grad_norm": [1.0 + 0.1 * math.sin(n + self.rank) for n in steps],
                "lr": [3e-4] * len(steps),
            },
        }

    def _samples(self, n: int) -> dict[str, Any]:
        first = (n * self._world_size + self.rank) * SAMPLES_A_STEP
        ids = [(first + i) * _STRIDE % _DATASET_SAMPLES for i in range(SAMPLES_A_STEP)]
        return {"n": n, "step": n, "dataset": "tokens", "epoch": 0, "size": SAMPLES_A_STEP, "ids": ids}

    def _us(self, n: int) -> int:
        return int(self._step_s * 1e6 * (0.95 + 0.04 * math.sin(1.7 * n + 0.3 * self.rank)))

    def loss(self, n: int) -> float:
        return 2.0 + 8.0 / (1 + 0.01 * n) + 0.05 * math.sin(n * 12.9898 + self.rank * 78.233)
