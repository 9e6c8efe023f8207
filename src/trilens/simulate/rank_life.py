"""One process of one rank of a simulated training, and what it tells of itself (docs/sdk-protocol.md).

What it tells follows from its run at the time of asking, so it is what /metrics shows and what the truth
holds, however often it is asked.
"""

from __future__ import annotations

import base64
import hashlib
import math
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from trilens.model.sample_ids import digest
from trilens.simulate.program_output import raised
from trilens.simulate.recorded_collectives import Standstill, dumped, standing
from trilens.simulate.scenario import JobKind
from trilens.simulate.stacks import hung_stacks
from trilens.simulate.training import PHASES
from trilens.simulate.training_data import samples_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.simulate.jobs import SimJob, SimPod
    from trilens.simulate.training import Phases, Stall, Step, TrainingRun
    from trilens.simulate.training_data import SeenSamples
    from trilens.simulate.truth import AttemptTruth, RankOnGpu, RunTruth

Line = dict[str, Any]

_STEPS_AT_ONCE: Final = 500  # while more are made and taken in, others would wait
_SPOOLED_MS: Final = 60_000  # after its end, what a process has not told is sent by somebody else
_STALLED_S: Final = 30.0  # the SDK's watchdog waits so long for a step,
_STALLED_STEPS: Final = 10  # or as long as so many take
_LAUNCHERS: Final = {
    JobKind.PYTORCHJOB: "kubeflow",
    JobKind.TRAINJOB: "kubeflow",
    JobKind.JOBSET: "jobset",
    JobKind.JOB: "job",
    JobKind.MPIJOB: "mpi",
}
_ARTIFACTS: Final = {"stacks": "stacks-rank{}.txt", "flight-recorder": "trace_rank_{}"}  # what each is called
_TOLD: Final = (
    "_seq", "_step", "_skipped", "_checkpoints", "_notes", "_artifacts", "_stalls", "_resumed", "_has_nan",
    "is_behind", "is_told",
)  # fmt: skip
_VERSIONS: Final = {"python": "3.12.3", "torch": "2.7.0+cu126", "cuda": "12.6", "nccl": "2.27.3"}


class Member(NamedTuple):
    """Who a process is: a rank of an attempt of a job."""

    job: SimJob
    pod: SimPod
    on_gpu: RankOnGpu
    attempt: AttemptTruth
    number: int  # of the attempt, among those of its run


class RankLife:
    def __init__(self, told: RunTruth, member: Member, world_start_ms: int) -> None:
        run, rank = member.attempt.run, member.on_gpu.rank
        assert run is not None
        assert rank is not None
        self._told = told
        self._member = member
        self._run: TrainingRun = run
        self._rank: int = rank
        self._start_ms = world_start_ms
        self._container_ms = member.pod.started_ms
        self._pid = member.pod.pid(member.on_gpu.local_rank)
        name = f"{told.run} {member.number} {rank}"
        self._writer = hashlib.blake2b(name.encode(), digest_size=16).hexdigest()
        self._seq = 0
        self._step = run.first_step  # the last that was told
        self._skipped = 0
        self._checkpoints = 0  # told, with the one it loaded
        self._notes = 0
        self._artifacts = 0
        self._stalls = 0
        self._resumed = 0
        self._has_nan = False
        self.is_behind = False  # it has more to tell of than it could at once
        self.is_told = False  # all of it

    @property
    def writer(self) -> str:
        return self._writer

    def told_so_far(self) -> Line:
        """For another world of the same identity, in which it goes on from there."""
        return {name: getattr(self, name) for name in _TOLD}

    def go_on_from(self, told: Line) -> None:
        for name in _TOLD:
            setattr(self, name, told[name])

    @property
    def has_told(self) -> bool:
        return self._seq > 0

    @property
    def is_silent(self) -> bool:
        """Nothing comes from a machine that is dead, nor from a process that is, or that is locked."""
        machine = self._member.pod.machine
        is_mute = self._run.ended_s is None and self._rank in self._run.trouble.mute
        return is_mute or (machine is not None and not machine.is_alive)

    @property
    def is_dead(self) -> bool:
        """It was killed, so nobody says goodbye."""
        return self._member.pod.seat.to_ms is not None and self._ending() is None

    def is_left_behind(self, now_ms: int) -> bool:
        """Others have to send what it has not told."""
        ended_ms = self._member.attempt.to_ms
        return self.is_dead or (ended_ms is not None and now_ms - ended_ms > _SPOOLED_MS)

    def untold_steps(self, now_ms: int) -> int:
        return self._done(now_ms) - self._step

    def skip(self, steps: int) -> None:
        """Do not tell the next so many. As if they had been lost, which the SDK counts."""
        self._step += steps
        self._skipped += steps

    def line(self, now_ms: int, heartbeat_s: float) -> Line:
        """The next that it has not told yet; a heartbeat where there is nothing."""
        until_ms = min(now_ms, self._member.pod.seat.to_ms or now_ms)
        t_s = self._seconds(until_ms)
        done = self._done(until_ms)
        sections = self._introduction() if not self._seq else {}
        sections |= self._steps_told(min(done, self._step + _STEPS_AT_ONCE))
        self.is_behind = self._step < done
        sections |= self._checkpoints_told(t_s) | self._notes_told(t_s)
        if not self.is_behind and (ending := self._ending()) is not None:
            sections["end"] = ending
        self.is_told = not self.is_behind and ("end" in sections or self.is_dead)
        seq = self._seq if sections else None
        self._seq += bool(sections)
        header = {"v": 1, "run": self._told.run, "rank": self._rank, "writer": self._writer, "seq": seq}
        return {**header, "t_ms": until_ms, **sections, "state": self._state(until_ms, heartbeat_s)}

    def _introduction(self) -> Line:
        job, pod, on_gpu, attempt, _ = self._member
        process = {
            "started_ms": attempt.from_ms,
            "local_rank": on_gpu.local_rank,
            "world_size": self._run.ranks,
            "node": on_gpu.node,
            "pid": self._pid,
            "process_started_ms": self._container_ms,
            "namespace": pod.namespace,
            "pod": pod.name,
            "pod_uid": pod.uid,
            "container": pod.container,
            "gpus": [on_gpu.gpu_uuid],
            "launcher": _LAUNCHERS.get(job.template.kind),
            "job": job.name,
            "versions": _VERSIONS,
        }
        if self._rank:
            return {"process": process}
        spec = self._run.spec
        facts = {
            "created_ms": self._told.attempts[0].from_ms,
            "experiment": job.template.experiment or None,
            "name": job.name,
            "config": {"batch_size": spec.samples_per_step, "checkpoint_every": spec.checkpoint_every},
            "tags": {"team": job.template.team},
            "world_size": self._run.ranks,
            "total_steps": job.total_steps if job.template.duration is not None else None,
        }
        return {"facts": facts, "process": process}

    def _steps_told(self, upto: int) -> Line:
        if upto == self._step:
            return {}
        steps = list(self._run.steps(self._step, upto))
        seen = [samples_of(self._run.spec, self._run.ranks, self._rank, step.number) for step in steps]
        told, key = self._told.told, (self._member.number, self._rank)
        told[key] = range(told[key].start if key in told else self._step + 1, upto + 1)
        self._step = upto
        return {
            "steps": self._columns(steps, seen),
            "batches": [self._batch(step, samples) for step, samples in zip(steps, seen, strict=True)],
            **self._validations(steps),
        }

    def _columns(self, steps: list[Step], seen: list[SeenSamples]) -> Line:
        run, rank = self._run, self._rank
        phases = [*_microseconds(steps, rank)]
        numbers = [step.number for step in steps]
        return {
            "n": [self._n(number) for number in numbers],
            "step": numbers,
            "start_us": [self._us(step.start_s) for step in steps],
            "us": [round(1e6 * (step.end_s - step.start_s)) for step in steps],
            "samples": [run.spec.samples_per_step] * len(steps),
            "epoch": [one.epoch for one in seen],
            "phases": {
                name: list(column) for name, column in zip(PHASES, zip(*phases, strict=True), strict=True)
            },
            "values": {
                "loss": [_number(run.loss_on(rank, number)) for number in numbers],
                "grad_norm": [_number(run.gradient_norm(number)) for number in numbers],
            },
        }

    def _batch(self, step: Step, seen: SeenSamples) -> Line:
        ids = seen.ids
        which = {"range": [ids.start, len(ids), ids.step]} if isinstance(ids, range) else {"ids": ids}
        return {
            "n": self._n(step.number),
            "step": step.number,
            "dataset": f"{self._member.job.template.name}-data",
            "epoch": seen.epoch,
            "size": len(ids),
            "digest": digest(ids),
            **which,
        }

    def _validations(self, steps: list[Step]) -> Line:
        every = self._run.spec.validate_every
        checked = [step for step in steps if step.number % every == 0]
        if self._rank or not checked:
            return {}
        first = self._run.first_step // every
        return {
            "validations": [
                {
                    "n": step.number // every - first - 1,
                    "step": step.number,
                    "t_ms": self._ms(step.end_s),
                    "values": {"loss": _number(self._run.validation_loss(step.number))},
                }
                for step in checked
            ]
        }

    def _checkpoints_told(self, t_s: float) -> Line:
        """All ranks load, the first one writes."""
        run, told = self._run, []
        loads = int(run.first_step > 0)
        if loads and not self._checkpoints:
            loaded = {"step": run.first_step, "path": self._path(run.first_step), "loaded": True}
            told.append({"n": 0, **loaded, "start_ms": self._ms(run.started_s)})
            self._checkpoints = 1
        if self._rank == 0:
            for one in islice(run.checkpoints(t_s), self._checkpoints - loads, None):
                written = {
                    "n": self._checkpoints,
                    "step": one.step,
                    "path": self._path(one.step),
                    "start_ms": self._ms(one.from_s),
                    "us": round(1e6 * (one.to_s - one.from_s)),
                    "bytes": int(run.spec.checkpoint_bytes) if one.ok else None,
                    "ok": one.ok,
                    "error": None if one.ok else "OSError: [Errno 5] Input/output error",
                }
                told.append(written)
                self._checkpoints += 1
        return {"checkpoints": told} if told else {}

    def _path(self, step: int) -> str:
        return f"/checkpoints/{self._member.job.name}/step-{step}"

    def _notes_told(self, t_s: float) -> Line:
        notes, artifacts = [], []
        for at, stall in enumerate(self._run.stalls()):
            limit_s = max(_STALLED_S, _STALLED_STEPS * self._run.stretches[0].step_s)
            noticed_s = stall.since_s + limit_s
            if at >= self._stalls and noticed_s <= min(t_s, stall.until_s or t_s):
                self._stalls, self._resumed = at + 1, at
                notes.append(self._stalled(stall, limit_s))
                stacks = hung_stacks(self._stands_in(stall))
                artifacts.append(self._artifact("stacks", stacks, noticed_s))
                if self._run.spec.flight_recorder:
                    note, dump = self._collectives(stall, noticed_s)
                    notes.append(note)
                    artifacts.append(dump)
            if self._resumed <= at < self._stalls and stall.until_s is not None and stall.until_s <= t_s:
                self._resumed = at + 1
                notes.append(self._goes_on(stall, stall.until_s))
        nan_step = self._run.trouble.nan_from_step
        if nan_step is not None and nan_step <= self._step and not self._has_nan:
            self._has_nan = True
            text = f"loss was nan in step {nan_step}"
            notes.append(self._note("nonfinite", text, t_s, nan_step, {"value": "loss"}))
        return {**({"notes": notes} if notes else {}), **({"artifacts": artifacts} if artifacts else {})}

    def _stalled(self, stall: Stall, limit_s: float) -> Line:
        phase, step = self._stands_in(stall), stall.step + 1
        text = f"no step has ended for {limit_s:.0f} s, at step {step} in {phase}"
        data = {"seconds": round(limit_s, 1), "phase": phase, "in_step": True, "furthest_behind": []}
        return self._note("stalled", text, stall.since_s + limit_s, step, data)

    def _stands_in(self, stall: Stall) -> str:
        trouble = self._run.trouble
        is_missing = self._rank == stall.hung_by or trouble.all_hang
        return trouble.hung_in if is_missing else "grad_sync"

    def _goes_on(self, stall: Stall, until_s: float) -> Line:
        took_s = until_s - stall.since_s
        text = f"steps go on after about {took_s:.0f} s"
        return self._note("moving", text, until_s, stall.step + 1, {"seconds": round(took_s, 1)})

    def _collectives(self, stall: Stall, at_s: float) -> tuple[Line, Line]:
        """What the flight recorder holds: a note in a few words, and all of it."""
        step_ns = round(1e9 * self._run.stretches[0].step_s)
        stands = Standstill(self._run.ranks, stall.step, 1000 * self._us(stall.since_s), step_ns)
        told = standing(stands, self._stands_in(stall))
        waits = "no collective" if told["pending"] is None else f"{told['operation']} {told['pending']}"
        note = self._note("collectives", f"waits in {waits}", at_s, stall.step + 1, {"groups": [told]})
        return note, self._artifact("flight-recorder", dumped(stands, told, _VERSIONS["nccl"]), at_s)

    def _artifact(self, kind: str, content: bytes, at_s: float) -> Line:
        number, self._artifacts = self._artifacts, self._artifacts + 1
        return {
            "n": number,
            "t_ms": self._ms(at_s),
            "kind": kind,
            "name": _ARTIFACTS[kind].format(self._rank),
            "base64": base64.b64encode(content).decode(),
        }

    def _note(self, kind: str, text: str, at_s: float, step: int, data: Line) -> Line:
        number, self._notes = self._notes, self._notes + 1
        return {"n": number, "t_ms": self._ms(at_s), "kind": kind, "text": text, "step": step, "data": data}

    def _state(self, at_ms: int, heartbeat_s: float) -> Line:
        """Where it is, however far it has come with telling."""
        done = self._done(at_ms)
        return {
            "heartbeat_s": heartbeat_s,
            "step": done if done > self._run.first_step else None,
            "phase": self._run.phase_at(self._rank, self._seconds(at_ms)),
            "lost": {"step": self._skipped} if self._skipped else {},
        }

    def _ending(self) -> Line | None:
        """As it says itself: None while it lives, and where something killed it."""
        attempt = self._member.attempt
        if attempt.to_ms is None:
            return None
        if attempt.ended_by == "done":
            return {"t_ms": attempt.to_ms, "how": "finished"}
        error = raised(self._member.pod.last_words, self._rank)
        return None if error is None else {"t_ms": attempt.to_ms, "how": "failed", "error": error}

    def _done(self, at_ms: int) -> int:
        return math.floor(self._run.step_at(self._seconds(at_ms)))

    def _n(self, step: int) -> int:
        return step - self._run.first_step - 1

    def _seconds(self, at_ms: int) -> float:
        return (at_ms - self._start_ms) / 1000

    def _ms(self, t_s: float) -> int:
        return self._start_ms + round(1000 * t_s)

    def _us(self, t_s: float) -> int:
        return 1000 * self._start_ms + round(1e6 * t_s)


def _microseconds(steps: list[Step], rank: int) -> Iterator[tuple[int, ...]]:
    """The phases of each; most steps share theirs."""
    known: Phases | None = None
    told: tuple[int, ...] = ()
    for step in steps:
        if step.phases is not known:
            known = step.phases
            told = tuple(round(1e6 * float(part[rank])) for part in known)
        yield told


def _number(value: float | None) -> float | str | None:
    """JSON has none that is not finite, and the simulator makes no infinities."""
    return "NaN" if value is not None and math.isnan(value) else value
