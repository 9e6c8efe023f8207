"""Which of the training jobs of a simulated cluster tell of their steps, and who of their ranks has to now.

Not all do: with thousands of ranks, a demonstration would be busy with nothing else.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.simulate.jobs import JobState
from trilens.simulate.rank_life import Member, RankLife
from trilens.simulate.truth import RunTruth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trilens.simulate.jobs import SimJob
    from trilens.simulate.truth import Truth

MOST_RANKS: Final = 128  # at a time; of a job all or none
_MOST_OLD_STEPS: Final = 200_000  # that are told of the time before somebody listens


class Sending(NamedTuple):
    """A request of one process."""

    line: dict[str, Any]
    for_dead: bool  # somebody else sends what a dead process left


class TellingRank:
    """One rank of one run, over all its lives. What was made is kept until it was taken."""

    def __init__(self) -> None:
        self.lives: list[RankLife] = []
        self._made: Sending | None = None

    def can_wait(self, now_ms: int) -> bool:
        """Nobody watches it any more."""
        return bool(self.lives) and self.lives[0].is_left_behind(now_ms)

    def is_behind(self, now_ms: int) -> bool:
        """It runs, and looks as if it stood still long ago."""
        if not self.lives or self.can_wait(now_ms) or self.lives[0].is_silent:
            return False
        return self.lives[0].is_behind or not self.lives[0].has_told

    def next(self, now_ms: int, heartbeat_s: float) -> Sending | None:
        if self._made is None:
            self._made = self._make(now_ms, heartbeat_s)
        return self._made

    def taken(self) -> bool:
        """Whether there is more to tell at once."""
        self._made = None
        if self.lives[0].is_told:
            self.lives.pop(0)
            return bool(self.lives)
        return self.lives[0].is_behind

    def _make(self, now_ms: int, heartbeat_s: float) -> Sending | None:
        if not self.lives or self.lives[0].is_silent:
            return None
        life = self.lives[0]
        if life.is_dead and life.has_told and len(self.lives) == 1:
            return None  # what it left is found by who comes after it
        for_dead = life.is_left_behind(now_ms)
        return Sending(life.line(now_ms, heartbeat_s), for_dead)


class Telling:
    def __init__(self, truth: Truth, world_start_ms: int, most_ranks: int, identity: str) -> None:
        self._truth = truth
        self._identity = identity
        self._start_ms = world_start_ms
        self.most_ranks = most_ranks
        self._jobs: list[SimJob] = []  # that tell
        self._ranks: dict[tuple[str, int], TellingRank] = {}

    @property
    def ranks(self) -> Mapping[tuple[str, int], TellingRank]:
        """By run and rank."""
        return self._ranks

    def attempt_begins(self, job: SimJob) -> None:
        if job.tells is None:
            self._choose(job)
        if not job.tells:
            return
        assert job.attempt_truth is not None
        run = self._run_of(job)
        told = self._truth.runs.setdefault(run, RunTruth(run, job.attempt_truth.job_uid))
        told.attempts.append(job.attempt_truth)
        for pod in job.working:
            for on_gpu in pod.on_gpus[-len(pod.places) :]:
                member = Member(job, pod, on_gpu, job.attempt_truth, len(told.attempts) - 1)
                assert on_gpu.rank is not None
                rank = self._ranks.setdefault((run, on_gpu.rank), TellingRank())
                rank.lives.append(RankLife(told, member, self._start_ms))

    def told_so_far(self) -> dict[str, dict[str, Any]]:
        """By writer: where each process stands that has something left to tell."""
        return {life.writer: life.told_so_far() for rank in self._ranks.values() for life in rank.lives}

    def go_on_from(self, told: Mapping[str, dict[str, Any]]) -> None:
        """As another world of the same identity told until this moment."""
        for rank in self._ranks.values():
            rank.lives = [life for life in rank.lives if life.writer in told]
            for life in rank.lives:
                life.go_on_from(told[life.writer])

    def leave_out_old(self, now_ms: int) -> None:
        """Where too much has happened before somebody listens, only the last steps of each life are told."""
        lives = [life for rank in self._ranks.values() for life in rank.lives]
        steps = sorted(life.untold_steps(now_ms) for life in lives)
        most, left = _MOST_OLD_STEPS, len(steps)
        for count in steps:
            if count * left > most:
                break
            most, left = most - count, left - 1
        if left:
            for life in lives:
                life.skip(max(0, life.untold_steps(now_ms) - most // left))

    def _choose(self, job: SimJob) -> None:
        """Once: who begins to tell in the middle cannot say what came before."""
        self._jobs = [one for one in self._jobs if one.state is not JobState.OVER]
        self._ranks = {key: rank for key, rank in self._ranks.items() if rank.lives}
        job.tells = sum(one.ranks for one in self._jobs) + job.ranks <= self.most_ranks
        if job.tells:
            self._jobs.append(job)

    def _run_of(self, job: SimJob) -> str:
        """Made as the SDK makes ids; that of another world is another."""
        word = job.template.experiment or job.template.name
        key = f"{self._identity} {job.top['metadata']['uid']}"
        return f"{word[:40]}-{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}"
