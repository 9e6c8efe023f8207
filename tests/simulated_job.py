"""A job that trains, writes checkpoints, falls over and comes back, step by step; beside what it tells, it
keeps for each checkpoint the very steps that are in it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from memory_runs import MemoryRuns
from trilens.model.run import (
    BatchRecord,
    CheckpointRecord,
    Ending,
    RankProcess,
    RunFacts,
    RunId,
    StepRecord,
    WriterId,
)

RUN = RunId("run-a")
BEGIN_MS = 1_768_392_000_000  # 2026-01-14T12:00:00Z

Done = tuple[str, int, int, int]  # run, rank, attempt, n


@dataclass
class Saved:
    """A checkpoint as rank 0 told of it, and what is in it."""

    record: CheckpointRecord
    inside: tuple[Done, ...]


@dataclass
class Job:
    """One second is one step. `counts_done` is for programs that name a checkpoint after the step to come."""

    source: MemoryRuns = field(default_factory=MemoryRuns)
    run: RunId = RUN
    counts_done: bool = False
    sharded: bool = False
    now_ms: int = BEGIN_MS

    def __post_init__(self) -> None:
        self.source.facts.append(RunFacts(self.run, self.now_ms, "exp", f"name-{self.run}"))
        self.saved: list[Saved] = []
        self.state: tuple[Done, ...] = ()
        self.trained: tuple[Done, ...] = ()  # the state after the last step
        self.step = 0  # the last one that was done
        self._loaded: Saved | None = None
        self.ranks: list[int] = []
        self._attempts: dict[int, int] = {}
        self._counts: dict[tuple[int, int], int] = {}  # steps of each life
        self._saves: dict[tuple[int, int], int] = {}

    def start(self, world_size: int, load: Saved | None = None, *, tell: bool = True) -> None:
        """All ranks anew, from nothing or from a checkpoint."""
        self.now_ms += 5_000
        self.ranks = [*range(world_size)]
        for rank in self.ranks:
            self._born(rank, world_size)
        self.load(load, tell=tell)

    def _born(self, rank: int, world_size: int) -> None:
        attempt = self._attempts.get(rank, -1) + 1
        self._attempts[rank] = attempt
        self._counts[rank, attempt] = self._saves[rank, attempt] = 0
        self.source.told_processes.append(
            RankProcess(
                self.run,
                rank,
                WriterId(f"{rank:016x}{attempt:016x}"),
                self.now_ms,
                attempt,
                world_size=world_size,
                node=f"node-{rank // 2}",
                gpus=(f"GPU-{rank}",),
                heard_ms=self.now_ms,
            )
        )

    def dies_before_its_first_step(self, rank: int) -> None:
        """And is started again, by itself."""
        self._end({rank}, Ending.FAILED)
        self.now_ms += 100
        self._born(rank, len(self.ranks))
        if self._loaded is not None:
            self.now_ms += 100
            self._checkpoint(rank, self._loaded.record.step, self._loaded.record.path, loaded=True)

    def load(self, saved: Saved | None, *, tell: bool = True) -> None:
        self.now_ms += 1_000
        self.state = saved.inside if saved is not None else ()
        self._loaded = saved if tell else None
        if saved is None:
            self.step = 0
            return
        self.step = saved.record.step - self.counts_done if saved.record.run == self.run else 0
        if tell:
            for rank in self.ranks:
                self._checkpoint(rank, saved.record.step, saved.record.path, loaded=True)

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self.now_ms += 1_000
            self.step += 1
            for rank in self.ranks:
                self._step(rank)
            self.trained = self.state
        self._heard()

    def _step(self, rank: int) -> None:
        attempt = self._attempts[rank]
        n = self._counts[rank, attempt]
        self._counts[rank, attempt] = n + 1
        start_us = self.now_ms * 1000 + rank
        world = len(self.ranks)
        self.source.told_steps.append(
            StepRecord(
                self.run,
                self.step,
                rank,
                attempt,
                n,
                start_us,
                900_000,
                phases={"data": 100_000, "forward": 400_000},
                values={"loss": 2.0},
                samples=4,
            )
        )
        first = ((self.step - 1) * world + rank) * 4
        self.source.told_batches.append(
            BatchRecord(self.run, self.step, rank, attempt, n, dataset="train", epoch=0, size=4, first=first)
        )
        self.state = (*self.state, (self.run, rank, attempt, n))

    def save(self, *, ok: bool = True, path: str | None = None) -> Saved:
        self.now_ms += 950
        step = self.step + self.counts_done
        path = path or f"/ckpt/{self.run}/{step}"
        for rank in self.ranks[1:] if self.sharded else []:
            self._checkpoint(rank, step, f"{path}/rank{rank}", ok=ok)
        record = self._checkpoint(0, step, path, ok=ok)
        saved = Saved(record, self.state)
        self.saved.append(saved)
        self.now_ms += 50
        return saved

    def loadable(self) -> list[Saved]:
        """What was written well, and not written over since."""
        latest = {saved.record.path: saved for saved in self.saved if saved.record.ok}
        return [*latest.values()]

    def _checkpoint(
        self, rank: int, step: int, path: str, *, ok: bool = True, loaded: bool = False
    ) -> CheckpointRecord:
        attempt = self._attempts[rank]
        n = self._saves[rank, attempt]
        self._saves[rank, attempt] = n + 1
        record = CheckpointRecord(
            self.run,
            step,
            rank,
            attempt,
            n,
            path,
            self.now_ms,
            loaded,
            duration_us=20_000,
            size_bytes=1_000,
            ok=ok,
            error=None if ok else "disk full",
        )
        self.source.told_checkpoints.append(record)
        return record

    def crash(self, how: Ending = Ending.LOST) -> None:
        self.now_ms += 950
        self._end({*self.ranks}, how)

    def _end(self, ranks: set[int], how: Ending) -> None:
        alive = {(rank, self._attempts[rank]) for rank in ranks}
        self.source.told_processes[:] = [
            replace(one, ended_ms=self.now_ms, ending=how, heard_ms=self.now_ms)
            if one.run == self.run and (one.rank, one.attempt) in alive
            else one
            for one in self.source.told_processes
        ]

    def _heard(self) -> None:
        alive = {(rank, self._attempts[rank]) for rank in self.ranks}
        self.source.told_processes[:] = [
            replace(one, heard_ms=self.now_ms + 950, step=self.step)
            if one.run == self.run and (one.rank, one.attempt) in alive and one.ended_ms is None
            else one
            for one in self.source.told_processes
        ]
