"""A day of a fleet as Trilens would have kept it, for the ledger: who had which GPU, what ran, what was said.

Half of the GPUs are held by a few hundred large trainings, half by thousands of small ones, servers and jobs
that tell nothing. Records are made in the engine, in the tables in which their intake would have left them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.ledger_facts import Owner
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.machine import Machine, MachineInterval, MachineState
from trilens.model.run import CheckpointRecord, Ending, RankProcess, RunFacts, RunId, WriterId
from trilens.model.run_commit import Position, RunCommit
from trilens.model.run_sums import AttemptSpan
from trilens.model.workload import GpuUuid, Membership, PodKey, WorkloadKey
from trilens.store.gpu_rows import GPU_BINDINGS, GPUS, binding_row, gpu_row
from trilens.store.machine_rows import MACHINES, machine_row
from trilens.store.workload_rows import MEMBERSHIPS, OWNERS, PHASES, membership_row, owner_row, phase_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.model.labels import Labels
    from trilens.store.engine import Engine
    from trilens.store.store import Store
    from trilens.store.workload_rows import Row, Table

CLUSTER: Final = "bench"
GPUS_PER_NODE: Final = 8
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
MINUTE_MS: Final = 60_000
STEP_S: Final = (12, 16, 20)  # of a third of the runs each
_CHECKPOINT_EVERY_MS: Final = 30 * MINUTE_MS
_CHECKPOINT_MS: Final = 40_000
_STARTS_MS: Final = (
    3 * MINUTE_MS
)  # from having a GPU to the program's start, and from there to its first step

TRAINING, SILENT, SERVING = "PyTorchJob", "Job", "InferenceService"

# GPUs of a workload, and how many thousandths of the fleet's GPUs such workloads hold.
_LARGE: Final = ((256, 130), (64, 130), (16, 100), (8, 120))
_SMALL: Final = ((4, 80), (2, 180), (1, 200))
_SHARED: Final = 10  # thousandths of the GPUs: four pods on each, by time


class _Kind(NamedTuple):
    instance_type: str
    model: str
    purchase: str
    region: str


# What nodes are, of twenty: one in twenty is of a model that has no price.
_NODES: Final = (
    *[_Kind("p5.48xlarge", "NVIDIA H100 80GB HBM3", "on-demand", "us-east-1")] * 8,
    *[_Kind("p5.48xlarge", "NVIDIA H100 80GB HBM3", "reserved", "us-west-2")] * 5,
    *[_Kind("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", "spot", "us-east-1")] * 4,
    *[_Kind("rack-8", "NVIDIA H200", "owned", "dc-1")] * 2,
    _Kind("rack-x", "NVIDIA Unheard-Of", "owned", "dc-1"),
)

# The price of most nodes changes in the middle of an hour.
PRICES: Final = """
currency: USD
defaults: false
prices:
  - {{name: h100, match: {{instance_type: p5.48xlarge, purchase: on-demand}}, per_node_hour: 55.04}}
  - {{name: h100-cheaper, match: {{instance_type: p5.48xlarge, purchase: on-demand}}, from: {changed},
     per_node_hour: 49.37}}
  - {{name: h100-reserved, match: {{instance_type: p5.48xlarge, purchase: reserved}}, per_node_hour: 39.33}}
  - {{name: a100-spot, match: {{instance_type: p4d.24xlarge, purchase: spot}}, per_node_hour: 8.1203}}
  - {{name: h200-own, match: {{instance_type: rack-8}}, per_gpu_hour: 1.87, cpu_per_core_hour: 0.013,
     memory_per_gib_hour: 0.0017}}
"""


@dataclass(frozen=True, slots=True)
class Job:
    """A workload on its GPUs, by their numbers, some of the day."""

    number: int
    kind: str
    gpus: tuple[int, ...]
    from_ms: int
    to_ms: int | None
    share: Fraction = Fraction(1)

    @property
    def name(self) -> str:
        return f"{self.kind.lower()}-{self.number:05}"

    @property
    def namespace(self) -> str:
        return f"ns-{self.number % 40:02}"

    @property
    def key(self) -> WorkloadKey:
        return WorkloadKey(CLUSTER, self.namespace, "bench", self.kind, self.name, f"uid-{self.name}")

    @property
    def run(self) -> RunId:
        return RunId(f"run-{self.number:05}")

    @property
    def is_large(self) -> bool:
        return len(self.gpus) >= GPUS_PER_NODE

    def pods(self) -> Iterator[tuple[PodKey, list[int]]]:
        """One for each of its nodes, with its GPUs there."""
        nodes: dict[int, list[int]] = {}
        for gpu in self.gpus:
            nodes.setdefault(gpu // GPUS_PER_NODE, []).append(gpu)
        for place, gpus in enumerate(nodes.values()):
            name = f"{self.name}-{place}"
            yield PodKey(CLUSTER, self.namespace, name, f"uid-{name}"), gpus


class Life(NamedTuple):
    """All ranks of a run at a time. `segments` are steps one after the other, between checkpoints and stalls:
    (first step, steps, when the first begins)."""

    attempt: int
    from_ms: int
    to_ms: int | None
    segments: Sequence[tuple[int, int, int]]
    ending: Ending | None


def uuid(gpu: int) -> GpuUuid:
    return GpuUuid(f"GPU-{gpu:08x}-0000-4000-8000-000000000000")


def node(gpu: int) -> str:
    return f"gpu-{gpu // GPUS_PER_NODE:05}"


def kind_of(gpu: int) -> _Kind:
    return _NODES[gpu // GPUS_PER_NODE % len(_NODES)]


class Fleet:
    """So many GPUs over one day; the same every time."""

    def __init__(self, gpus: int, day_ms: int) -> None:
        self.gpus = gpus
        self.day_ms = day_ms
        self._chance = random.Random(gpus)
        self.jobs = [*self._jobs()]
        self.lives = {job.number: self._lives(job) for job in self.jobs if job.kind == TRAINING}

    def _jobs(self) -> Iterator[Job]:
        at = number = 0
        for size, thousandths in _LARGE:
            for _ in range(self.gpus * thousandths // 1000 // size):
                yield Job(number, TRAINING, tuple(range(at, at + size)), *self._most_of_the_day())
                at, number = at + size, number + 1
        for size, thousandths in _SMALL:
            for _ in range(self.gpus * thousandths // 1000 // size):
                gpus = tuple(range(at, at + size))
                kind = self._chance.choices((TRAINING, SILENT, SERVING), (60, 25, 15))[0]
                for from_ms, to_ms in self._stretches(kind):
                    yield Job(number, kind, gpus, from_ms, to_ms)
                    number += 1
                at += size
        for gpu in range(at, at + self.gpus * _SHARED // 1000):
            for _ in range(4):
                yield Job(number, SILENT, (gpu,), *self._most_of_the_day(), Fraction(1, 4))
                number += 1

    def _most_of_the_day(self) -> tuple[int, int | None]:
        """Most were there before; some end."""
        from_ms = self.day_ms - self._chance.randrange(HOUR_MS, 3 * DAY_MS)
        ends = self._chance.random() < 0.2
        return from_ms, self.day_ms + self._chance.randrange(6 * HOUR_MS, DAY_MS) if ends else None

    def _stretches(self, kind: str) -> Iterator[tuple[int, int | None]]:
        """Of those who have the same GPUs one after the other."""
        from_ms, to_ms = self._most_of_the_day()
        if kind == SERVING or self._chance.random() < 0.3:
            yield from_ms, to_ms
            return
        change_ms = self.day_ms + self._chance.randrange(HOUR_MS, 20 * HOUR_MS)
        yield from_ms, change_ms
        yield change_ms + self._chance.randrange(MINUTE_MS, 30 * MINUTE_MS), None

    def _lives(self, job: Job) -> list[Life]:
        """One in eight crashes in the day and goes on from its last checkpoint; one in eight stalls."""
        end_ms = self.day_ms + DAY_MS if job.to_ms is None else job.to_ms
        from_ms = max(job.from_ms, self.day_ms - HOUR_MS) + _STARTS_MS
        fate = self._chance.random()
        moment_ms = self._chance.randrange(from_ms + HOUR_MS, max(end_ms, from_ms + 2 * HOUR_MS))
        if fate < 0.125 and moment_ms < end_ms - HOUR_MS:
            first = self._life(job, 0, from_ms, moment_ms, 0, None)
            saved, *_ = first.segments[-1]
            again = self._life(job, 1, moment_ms + 2 * _STARTS_MS, end_ms, saved, None)
            return [first._replace(to_ms=moment_ms, ending=Ending.FAILED), again]
        stalls_ms = moment_ms if fate > 0.875 else None
        return [self._life(job, 0, from_ms, end_ms, 0, stalls_ms)]

    def _life(
        self, job: Job, attempt: int, from_ms: int, until_ms: int, step: int, stalls_ms: int | None
    ) -> Life:
        period_ms = 1000 * STEP_S[job.number % len(STEP_S)]
        segments = []
        at_ms = from_ms + _STARTS_MS
        while at_ms < until_ms:
            next_ms = min(until_ms, at_ms + _CHECKPOINT_EVERY_MS)
            if stalls_ms is not None and at_ms <= stalls_ms < next_ms:
                next_ms, stalls_ms = stalls_ms + period_ms, None
                rest_ms = self._chance.randrange(5 * MINUTE_MS, 4 * HOUR_MS)
            else:
                rest_ms = _CHECKPOINT_MS
            if steps := (next_ms - at_ms) // period_ms:
                segments.append((step, steps, at_ms))
            step, at_ms = step + steps, next_ms + rest_ms
        to_ms = job.to_ms
        return Life(attempt, from_ms, to_ms, segments, Ending.FINISHED if to_ms is not None else None)

    def write(self, engine: Engine) -> None:
        """All but samples and steps."""
        _put(engine, MACHINES, map(machine_row, self._machines()))
        _put(engine, GPUS, map(gpu_row, self._devices()))
        _put(engine, GPU_BINDINGS, map(binding_row, self._bindings()))
        _put(engine, MEMBERSHIPS, map(membership_row, self._members()))
        _put(engine, PHASES, map(phase_row, self._phases()))
        _put(engine, OWNERS, (owner_row(job.key, one) for job in self.jobs for one in self._owners(job)))

    def _machines(self) -> Iterator[MachineInterval]:
        for number in range(self.gpus // GPUS_PER_NODE):
            kind = kind_of(number * GPUS_PER_NODE)
            machine = Machine(
                CLUSTER,
                node(number * GPUS_PER_NODE),
                kind.instance_type,
                kind.region,
                f"{kind.region}a",
                kind.purchase,
                "aws",
                kind.model,
                GPUS_PER_NODE,
                192.0,
                2048 << 30,
                8 << 40,
            )
            begin_ms, change_ms = self.day_ms - 30 * DAY_MS, self.day_ms + 9 * HOUR_MS + number * 1009
            if number % 200 != 7:
                yield MachineInterval(machine, begin_ms, None)
                continue
            yield MachineInterval(machine, begin_ms, change_ms)
            state = MachineState.NOT_READY if number % 400 == 7 else MachineState.CORDONED
            changed = {"state": state, "reason": "KubeletStopped"}
            broken = Machine(**{name: getattr(machine, name) for name in Machine.__slots__} | changed)
            yield MachineInterval(broken, change_ms, change_ms + 2 * HOUR_MS)
            yield MachineInterval(machine, change_ms + 2 * HOUR_MS, None)

    def _devices(self) -> Iterator[GpuInterval]:
        for gpu in range(self.gpus):
            key = GpuKey(uuid(gpu))
            device = Gpu(key, CLUSTER, node(gpu), str(gpu % GPUS_PER_NODE), kind_of(gpu).model)
            yield GpuInterval(device, self.day_ms - 30 * DAY_MS, None)

    def _bindings(self) -> Iterator[BindingInterval]:
        for job in self.jobs:
            for pod, gpus in job.pods():
                for gpu in gpus:
                    binding = GpuBinding(GpuKey(uuid(gpu)), pod, "main", job.share, (ClaimSource.KUBELET,))
                    yield BindingInterval(binding, job.from_ms + 15_000, job.to_ms)

    def _members(self) -> Iterator[MembershipInterval]:
        for job in self.jobs:
            for place, (pod, gpus) in enumerate(job.pods()):
                member = Membership(pod, job.key, role="worker", node_rank=place)
                yield MembershipInterval(member, node(gpus[0]), job.from_ms, job.to_ms)

    def _phases(self) -> Iterator[PhaseInterval]:
        for job in self.jobs:
            running_ms = job.from_ms + 2 * MINUTE_MS
            yield PhaseInterval(job.key, 0, Phase.PULLING, "", job.from_ms, running_ms)
            yield PhaseInterval(job.key, 0, Phase.RUNNING, "", running_ms, job.to_ms)

    def _owners(self, job: Job) -> Iterator[Owner]:
        team, experiment = f"team-{job.number % 30:02}", f"experiment-{job.number % 300:03}"
        yield Owner(job.from_ms, team, f"centre-{job.number % 7}", experiment, "gpu")
        if job.number % 97 == 0:
            moved_ms = self.day_ms + 12 * HOUR_MS + job.number
            yield Owner(moved_ms, "team-new", f"centre-{job.number % 7}", experiment, "gpu")

    def runs(self) -> RunCommit:
        """What is told of all runs beside their steps."""
        commit = RunCommit()
        for job in self.jobs:
            for life in self.lives.get(job.number, ()):
                self._tell(commit, job, life)
        return commit

    def _tell(self, commit: RunCommit, job: Job, life: Life) -> None:
        if life.attempt == 0:
            experiment = f"experiment-{job.number % 300:03}"
            facts = RunFacts(job.run, life.from_ms, experiment, job.name, world_size=len(job.gpus))
            commit.facts.append(facts)
        if not life.segments:
            return
        period_us = 1_000_000 * STEP_S[job.number % len(STEP_S)]
        (first_step, _, start_ms), (step, steps, last_ms) = life.segments[0], life.segments[-1]
        last_step, end_us = step + steps - 1, last_ms * 1000 + steps * period_us
        count = sum(steps for _, steps, _ in life.segments)
        rank = 0
        for pod, gpus in job.pods():
            for local, gpu in enumerate(gpus):
                writer = WriterId(f"{job.number:08x}{rank:08x}{life.attempt:016x}")
                span = AttemptSpan(
                    rank,
                    life.attempt,
                    first_step,
                    last_step,
                    count,
                    count * 8,
                    None,
                    start_ms * 1000,
                    end_us,
                    0,
                    count - 1,
                )
                commit.positions.append(Position(job.run, rank, writer, life.attempt, count // 10, (span,)))
                commit.processes.append(
                    RankProcess(
                        job.run,
                        rank,
                        writer,
                        life.from_ms,
                        life.attempt,
                        local,
                        len(job.gpus),
                        node(gpu),
                        namespace=pod.namespace,
                        pod=pod.name,
                        pod_uid=pod.uid,
                        gpus=(uuid(gpu),),
                        heard_ms=end_us // 1000,
                        step=last_step,
                        ended_ms=life.to_ms,
                        ending=life.ending,
                    )
                )
                rank += 1
        if life.attempt:
            loaded = (job.run, first_step - 1, 0, life.attempt, 0, f"/ckpt/{first_step - 1}", life.from_ms)
            commit.checkpoints.append(CheckpointRecord(*loaded, loaded=True, duration_us=5_000_000))
        for n, (step, steps, at_ms) in enumerate(life.segments[:-1], start=1):
            written_ms = at_ms + steps * period_us // 1000
            written = (job.run, step + steps - 1, 0, life.attempt, n, f"/ckpt/{step}", written_ms)
            commit.checkpoints.append(
                CheckpointRecord(*written, duration_us=(_CHECKPOINT_MS - 2000) * 1000, size_bytes=1 << 34)
            )

    def write_steps(self, engine: Engine) -> None:
        """By hours, as they came in: what lies in one part was told at about the same time."""
        rows = [
            (job.run, len(job.gpus), life.attempt, step, steps, at_ms, STEP_S[job.number % len(STEP_S)], n)
            for job in self.jobs
            for life in self.lives.get(job.number, ())
            for (step, steps, at_ms), n in zip(life.segments, _counted(life.segments), strict=True)
        ]
        names = ("run", "ranks", "attempt", "step", "steps", "at_ms", "step_s", "n")
        columns = dict(zip(names, zip(*rows, strict=True), strict=True))
        engine.command(
            "CREATE TABLE bench_segments (run String, ranks Int64, attempt Int64, step Int64, steps Int64, "
            "at_ms Int64, step_s Int64, n Int64) ENGINE = Memory"
        )
        engine.insert_arrow("bench_segments", pa.table(columns))
        for hour_ms in range(self.day_ms - HOUR_MS, self.day_ms + DAY_MS, HOUR_MS):
            engine.command(_steps_statement(hour_ms))
        engine.command("DROP TABLE bench_segments")

    def write_series(self, store: Store) -> None:
        """Of every GPU and every server, made as intake makes them, with a sample before the day and one at
        its end."""
        series = [*self._series()]
        ends = np.tile(np.array([self.day_ms - HOUR_MS, self.day_ms + DAY_MS]), len(series))
        store.backfill(series, np.repeat(np.arange(len(series)), 2), ends, np.zeros(2 * len(series)))

    def write_samples(self, engine: Engine) -> None:
        """One a minute of each series, made in the engine."""
        for from_ms in range(self.day_ms - HOUR_MS, self.day_ms + DAY_MS, 5 * HOUR_MS):
            engine.command(_samples_statement(from_ms, 5 * HOUR_MS // MINUTE_MS))

    def _series(self) -> Iterator[Labels]:
        for gpu in range(self.gpus):
            kind = kind_of(gpu)
            labels = {"cluster": CLUSTER, "UUID": uuid(gpu), "gpu": str(gpu % GPUS_PER_NODE)}
            labels |= {"Hostname": node(gpu), "modelName": kind.model}
            for name in _TELEMETRY:
                yield make_labels({METRIC_NAME: name, **labels})
        for job in self.jobs:
            if job.kind == SERVING:
                for pod, _ in job.pods():
                    scraped = {"job": "vllm", "instance": f"{pod.name}:8000"}
                    place = {"cluster": CLUSTER, "namespace": pod.namespace, "pod": pod.name}
                    info = {METRIC_NAME: _INFO, "scraped_cluster": CLUSTER, "workload": job.name}
                    yield make_labels({**info, **scraped, **place})
                    for name in _LOAD:
                        yield make_labels(
                            {METRIC_NAME: name, "cluster": CLUSTER, "server": "vllm", **scraped}
                        )


_INFO: Final = "trilens:inference_server:info"
_LOAD: Final = (
    "trilens:inference_running_scraped:count",
    "trilens:inference_requests_scraped:per_second",
    "trilens:inference_completion_tokens_scraped:per_second",
)
_TELEMETRY: Final = {
    "trilens:gpu_utilization:ratio": "if(rests, 0, 0.9 + noise * 0.0009)",
    "trilens:sm_active:ratio": "if(rests, 0, 0.4 + noise * 0.002)",
    "trilens:gpu_power:watts": "if(rests, 70, 400 + noise)",
    "trilens:gpu_clock_event_reasons:mask": "if(noise = 7, 8, 4)",
}


def _counted(segments: Sequence[tuple[int, int, int]]) -> list[int]:
    """The how-manieth step of its process each begins with."""
    counts = [0]
    for _, steps, _ in segments[:-1]:
        counts.append(counts[-1] + steps)
    return counts


def _steps_statement(hour_ms: int) -> str:
    """Of the segments that begin in an hour. A twentieth of a step waits for data, a tenth for others."""
    return (
        "INSERT INTO run_steps (run, step, rank, attempt, n, start_us, us, phases, device, values, samples, "
        "tokens, epoch, commit) WITH k % ranks AS place, intDiv(k, ranks) AS i, "
        "at_ms * 1000 + i * step_s * 1000000 AS start, "
        "step_s * 960000 + cityHash64(k, run) % 20000 AS took SELECT run, step + i, place, attempt, n + i, "
        "start, took, map('data', intDiv(took, 20), 'compute', intDiv(took * 17, 20), 'grad_sync', "
        "intDiv(took, 10)), map(), map(), 8, 32768, 0, start + 20000000 FROM bench_segments "
        f"ARRAY JOIN range(ranks * steps) AS k WHERE at_ms >= {hour_ms} AND at_ms < {hour_ms + HOUR_MS}"
    )


def _samples_statement(from_ms: int, minutes: int) -> str:
    """Whoever rests does so for half an hour at a time, a fifth of the day."""
    known = ", ".join(f"metric = '{name}', {value}" for name, value in _TELEMETRY.items())
    return (
        "INSERT INTO samples (metric, series, t, v) WITH "
        "cityHash64(series, minute) % 100 AS noise, "
        "cityHash64(series % 1000003, intDiv(minute, 30)) % 5 = 0 AS rests "
        f"SELECT metric, series, {from_ms} + minute * {MINUTE_MS} + series % 30000, "
        f"multiIf({known}, metric = '{_INFO}', 1, if(rests, 0, noise * 0.1)) "
        f"FROM (SELECT DISTINCT metric, series FROM series) ARRAY JOIN range({minutes}) AS minute"
    )


def _put(engine: Engine, table: Table, rows: Iterator[Row]) -> None:
    told: list[Mapping[str, Any]] = [{**row, "version": 1} for row in rows]
    engine.insert_arrow(table.name, pa.Table.from_pylist(told, table.schema))
