"""Fleets that do not exist, as the facts of an hour: a few by hand, large ones, and any."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from trilens.ledger.prices.rates import Rate
from trilens.ledger.source import GpuMinutes, ServingMinutes, Signals
from trilens.model.event import EventKind, EventRecord
from trilens.model.gpu import BindingInterval, ClaimSource, Gpu, GpuBinding, GpuInterval, GpuKey
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_facts import Facts, LastStep, LifeKey, Owner, StepMinutes, no_minutes
from trilens.model.life import MembershipInterval
from trilens.model.machine import Machine, MachineInterval, MachineState
from trilens.model.run import RankProcess, RunFacts, RunId, WriterId
from trilens.model.workload import Doubt, GpuUuid, Membership, PodKey, WorkloadKey

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Sequence

CLUSTER = "lab"
H100 = "NVIDIA H100 80GB HBM3"
NOON_MS = 1_768_392_000_000  # 2026-01-14T12:00:00Z
MINUTE_MS = 60_000


def at(minutes: float) -> int:
    """So many minutes after noon."""
    return NOON_MS + round(minutes * MINUTE_MS)


@dataclass(frozen=True)
class PlainPrices:
    """A price by GPU model and hour, or for each node by a rule. What is told as None has none."""

    per_gpu: Decimal | None = Decimal("2.5")
    changes: tuple[tuple[int, Decimal | None], ...] = ()  # from then on
    currency: str = "USD"
    unpriced_models: frozenset[str] = frozenset()
    digest: str = "plain"

    def rates(self, machine: Machine, gpus: int, from_ms: int, to_ms: int) -> Sequence[Rate]:
        edges = [from_ms, *(t for t, _ in self.changes if from_ms < t < to_ms), to_ms]
        return [self._rate(machine, gpus, begin, end) for begin, end in pairwise(edges)]

    def _rate(self, machine: Machine, gpus: int, begin: int, end: int) -> Rate:
        price = next((price for t, price in reversed(self.changes) if t <= begin), self.per_gpu)
        if price is None or machine.gpu_model in self.unpriced_models:
            doubt = Doubt("no-price", f"nobody told what {machine.gpu_model or 'this'} costs", "write it")
            return Rate(begin, end, None, doubts=(doubt,))
        gpu, cpu = price * gpus, Decimal("0.37")
        parts = {"gpu": gpu, "cpu": cpu}
        return Rate(begin, end, gpu + cpu, self.currency, f"gpu-{price}", "on-demand", parts)


def no_signals(trouble: tuple[str, ...] = ()) -> Signals:
    none = np.zeros((0, 60))
    return Signals(
        GpuMinutes(NOON_MS, {}, none, none, none, none),
        ServingMinutes(NOON_MS, {}, none, none, none),
        trouble,
    )


def signals_of(gpus: Iterable[GpuKey], from_ms: int, minutes: int, *, active: float = 0.9) -> Signals:
    """All of them at work, all the time."""
    keys = [*gpus]
    shape = (len(keys), minutes)
    telemetry = GpuMinutes(
        from_ms,
        {(key.uuid, key.instance): row for row, key in enumerate(keys)},
        np.full(shape, active),
        np.full(shape, active / 2),
        np.full(shape, 500.0),
        np.zeros(shape),
    )
    none = np.zeros((0, minutes))
    return Signals(telemetry, ServingMinutes(from_ms, {}, none, none, none))


def workload(name: str, namespace: str = "ml") -> WorkloadKey:
    return WorkloadKey(CLUSTER, namespace, "batch", "Job", name, f"uid-{name}")


def pod(name: str, namespace: str = "ml") -> PodKey:
    return PodKey(CLUSTER, namespace, name, f"uid-{namespace}-{name}")


class FleetBuilder:
    """Facts from noon on, put together piece by piece."""

    def __init__(self, hours: int = 1) -> None:
        self.facts = Facts(NOON_MS, NOON_MS + hours * HOUR_MS)

    def node(
        self,
        name: str,
        gpus: Sequence[str] = (),
        *,
        told: int | None = -1,
        begin: float = -600,
        end: float | None = None,
        state: MachineState = MachineState.READY,
        model: str = H100,
    ) -> FleetBuilder:
        """`told` is how many GPUs it says that it has; -1: as many as report."""
        machine = Machine(
            CLUSTER,
            name,
            instance_type="p5.48xlarge",
            region="us-east-1",
            gpu_model=model,
            gpus=len(gpus) if told == -1 else told,
            state=state,
        )
        interval = MachineInterval(machine, at(begin), None if end is None else at(end))
        self._add(machines=[interval])
        for number, uuid in enumerate(gpus):
            self.gpu(uuid, name, begin=begin, end=end, number=str(number), model=model)
        return self

    def gpu(
        self,
        uuid: str,
        node: str,
        *,
        begin: float = -600,
        end: float | None = None,
        instance: str = "",
        number: str = "0",
        model: str = H100,
        cluster: str = CLUSTER,
    ) -> FleetBuilder:
        gpu = Gpu(GpuKey(GpuUuid(uuid), instance), cluster, node, number, model)
        self._add(gpus=[GpuInterval(gpu, at(begin), None if end is None else at(end))])
        return self

    def pod(
        self,
        name: str,
        gpus: Sequence[str],
        node: str = "node-a",
        *,
        of: str | None = None,
        namespace: str = "ml",
        begin: float = -60,
        end: float | None = None,
        bound: tuple[float, float | None] | None = None,
        share: Fraction | None = Fraction(1),
        attempt: int = 0,
        instance: str = "",
        ranks: Sequence[int | None] = (),
    ) -> FleetBuilder:
        """`bound` is when it is bound to its GPUs, where that is not its whole life."""
        key, place = pod(name, namespace), Membership(pod(name, namespace), workload(of or name), attempt)
        first, last = bound or (begin, end)
        self._add(
            members=[MembershipInterval(place, node, at(begin), None if end is None else at(end))],
            bindings=[
                BindingInterval(
                    GpuBinding(
                        GpuKey(GpuUuid(uuid), instance),
                        key,
                        "main",
                        share,
                        (ClaimSource.KUBELET,),
                        rank=ranks[i] if ranks else None,
                    ),
                    at(first),
                    None if last is None else at(last),
                )
                for i, uuid in enumerate(gpus)
            ],
        )
        return self

    def life(
        self,
        run: str,
        in_pod: str | None,
        *,
        rank: int = 0,
        local_rank: int | None = None,
        attempt: int = 0,
        gpus: Sequence[str] = (),
        begin: float = -50,
        end: float | None = None,
        namespace: str = "ml",
        experiment: str | None = None,
        **more: object,
    ) -> FleetBuilder:
        process = RankProcess(
            RunId(run),
            rank,
            WriterId(f"{run}-{rank}-{attempt}"),
            at(begin),
            attempt,
            local_rank,
            namespace=namespace if in_pod else None,
            pod=in_pod,
            pod_uid=pod(in_pod, namespace).uid if in_pod else None,
            gpus=tuple(gpus),
            ended_ms=None if end is None else at(end),
        )
        self._add(lives=[replace(process, **more)])  # type: ignore[arg-type]
        runs = {**self.facts.runs, RunId(run): RunFacts(RunId(run), at(begin), experiment=experiment)}
        self.facts = replace(self.facts, runs=runs)
        return self

    def owner(
        self, name: str, team: str | None, *, begin: float = -600, queue: str | None = None
    ) -> FleetBuilder:
        key = workload(name)
        told = [*self.facts.owners.get(key, ()), Owner(at(begin), team, None, None, queue)]
        self.facts = replace(self.facts, owners={**self.facts.owners, key: told})
        return self

    def xid(self, code: int, uuid: str, minutes: float, node: str = "node-a") -> FleetBuilder:
        event = EventRecord(
            node,
            f"{uuid}-{minutes}",
            at(minutes),
            EventKind.XID,
            code,
            "",
            None,
            None,
            GpuUuid(uuid),
            *([None] * 5),
        )
        self._add(faults=[event])
        return self

    def _add(self, **more: Sequence[object]) -> None:
        joined = {name: [*getattr(self.facts, name), *values] for name, values in more.items()}
        self.facts = replace(self.facts, **joined)  # type: ignore[arg-type]


def large_fleet(gpus: int, hours: int = 1, *, gpus_per_workload: int = 2, steps_told: float = 1.0) -> Facts:
    """Nodes of eight, all held all the time by training jobs that make a step a second, `steps_told` of which
    tell them."""
    to_ms = NOON_MS + hours * HOUR_MS
    machines, devices, bindings, members, lives = [], [], [], [], []
    owners: dict[WorkloadKey, list[Owner]] = {}
    runs: dict[RunId, RunFacts] = {}
    ranks_of_runs: list[tuple[RunId, int]] = []
    source = (ClaimSource.KUBELET,)
    for number in range(gpus):
        node = f"node-{number // 8:05}"
        if number % 8 == 0:
            machine = Machine(CLUSTER, node, "p5.48xlarge", "us-east-1", "us-east-1a", "on-demand", "aws")
            machine = replace(machine, gpu_model=H100, gpus=8, cpus=192.0)
            machines.append(MachineInterval(machine, at(-6_000), None))
        key = GpuKey(GpuUuid(f"GPU-{number:08}"))
        devices.append(GpuInterval(Gpu(key, CLUSTER, node, str(number % 8), H100), at(-6_000), None))
        job = f"job-{number // gpus_per_workload:05}"
        named = f"{job}-{number // 8:05}"
        of = workload(job, f"team-{number // gpus_per_workload % 7}")
        place = PodKey(CLUSTER, of.namespace, named, f"uid-{named}")
        if number % gpus_per_workload == 0:
            owners[of] = [Owner(at(-900), f"team-{number % 31}", None, f"experiment-{number % 97}", "gpu")]
            run = RunId(f"run-{job}")
            runs[run] = RunFacts(run, at(-90), experiment=f"experiment-{number % 97}")
        if number % gpus_per_workload == 0 or number % 8 == 0:
            members.append(MembershipInterval(Membership(place, of), node, at(-100)))
        bindings.append(BindingInterval(GpuBinding(key, place, "main", Fraction(1), source), at(-99.9), None))
        if number < gpus * steps_told:
            rank = number % gpus_per_workload
            ranks_of_runs.append((RunId(f"run-{job}"), rank))
            lives.append(
                RankProcess(
                    RunId(f"run-{job}"),
                    rank,
                    WriterId(f"w{number}"),
                    at(-90),
                    node=node,
                    namespace=of.namespace,
                    pod=named,
                    pod_uid=place.uid,
                    gpus=(key.uuid,),
                )
            )
    return Facts(
        NOON_MS,
        to_ms,
        machines=machines,
        gpus=devices,
        bindings=bindings,
        members=members,
        owners=owners,
        runs=runs,
        lives=lives,
        minutes=steady_minutes(ranks_of_runs, hours * 60),
        later=steady_later(ranks_of_runs, to_ms),
    )


def steady_minutes(ranks: Sequence[tuple[RunId, int]], minutes: int) -> StepMinutes:
    """A step a second on each of these, a tenth of it waiting for data and a tenth for others."""
    if not ranks:
        return no_minutes()
    names = tuple(dict.fromkeys(run for run, _ in ranks))
    number = {run: i for i, run in enumerate(names)}
    size = len(ranks) * minutes
    minute = np.tile(np.arange(minutes) + NOON_MS // MINUTE_MS, len(ranks))
    first_us = minute * 60_000_000
    first = np.tile(np.arange(minutes) * 60, len(ranks))

    def constant(value: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        return np.full(size, value, np.int64)

    return StepMinutes(
        names,
        run=np.repeat(np.array([number[run] for run, _ in ranks], np.int32), minutes),
        rank=np.repeat(np.array([rank for _, rank in ranks], np.int32), minutes),
        attempt=np.zeros(size, np.int32),
        minute=minute,
        steps=constant(60),
        first_step=first,
        last_step=first + 59,
        first_start_us=first_us - 1_000_000,
        first_end_us=first_us,
        last_end_us=first_us + 59_000_000,
        step_us=constant(60_000_000),
        data_us=constant(6_000_000),
        sync_us=constant(6_000_000),
        checkpoint_us=constant(0),
        device_us=constant(0),
        device_sync_us=constant(0),
        tokens=constant(60 * 4096),
        samples=constant(60),
    )


def steady_later(ranks: Iterable[tuple[RunId, int]], to_ms: int) -> dict[LifeKey, LastStep]:
    """The step that each of them makes next."""
    end_us = to_ms * 1_000
    step = LastStep((to_ms - NOON_MS) // 1_000, end_us - 1_000_000, end_us, 1_000_000)
    return {LifeKey(run, rank, 0): step for run, rank in ranks}


def any_fleet(chance: random.Random, hours: int = 1) -> Facts:
    """Whatever may be told, also what cannot be: bindings that overlap, intervals that end before they begin,
    GPUs that move, more of them than a node has, lives in pods that nobody knows."""
    fleet = FleetBuilder(hours)
    last = hours * 60 + 30
    pool = [f"GPU-{i}" for i in range(chance.randint(1, 6))]

    def time() -> float:
        return chance.choice([-30.0, 0.0, 60.0, 60.0 * hours, round(chance.uniform(-40, last), 4)])

    def interval() -> tuple[float, float | None]:
        begin = time()
        lasts = chance.choice([0.0, 0.001, 10.0, 33.3333, 500.0])
        return begin, chance.choice([None, begin + lasts, begin + lasts, time()])

    def maybe(value: int) -> int | None:
        return chance.choice([None, value])

    nodes = [f"node-{i}" for i in range(chance.randint(1, 3))]
    for node in nodes:
        for _ in range(chance.randint(0, 3)):
            begin, end = interval()
            told = chance.choice([None, 0, 1, 2, 4, 8])
            state = chance.choice([*MachineState, MachineState.READY, MachineState.READY])
            model = chance.choice([H100, "NVIDIA L4"])
            fleet.node(node, told=told, begin=begin, end=end, state=state, model=model)
    for uuid in pool:
        for _ in range(chance.randint(0, 3)):
            begin, end = interval()
            instance = chance.choice(["", "", "1", "2"])
            cluster = chance.choice([CLUSTER, CLUSTER, ""])
            fleet.gpu(uuid, chance.choice(nodes), begin=begin, end=end, instance=instance, cluster=cluster)
    for number in range(chance.randint(0, 5)):
        name = f"pod-{number}"
        begin, end = interval()
        fleet.pod(
            name,
            chance.sample(pool, chance.randint(1, len(pool))),
            chance.choice([*nodes, ""]),
            of=chance.choice(["one", "two"]),
            begin=begin,
            end=end,
            bound=chance.choice([None, interval()]),
            share=chance.choice([None, Fraction(1), Fraction(1), Fraction(1, 2), Fraction(3, 7)]),
            attempt=chance.randint(0, 1),
            instance=chance.choice(["", "1", "2"]),
        )
        for rank in range(chance.randint(0, 3)):
            begin, end = interval()
            fleet.life(
                chance.choice(["run-a", "run-b"]),
                chance.choice([name, None]),
                rank=rank,
                local_rank=maybe(rank),
                attempt=number,
                gpus=chance.sample(pool, chance.randint(0, 1)),
                begin=begin,
                end=end,
                node=chance.choice(nodes),
            )
    for _ in range(chance.randint(0, 2)):
        fleet.xid(chance.choice([13, 48, 62, 79]), chance.choice(pool), time())
    for name in ("one", "two"):
        for team in chance.sample(["vision", "nlp", "speech"], chance.randint(0, 3)):
            fleet.owner(name, team, begin=time())
    ranks = sorted({(life.run, life.rank) for life in fleet.facts.lives if life.attempt == 0})
    if chance.random() < 0.4:
        return fleet.facts
    later = steady_later(ranks, fleet.facts.to_ms) if chance.random() < 0.5 else {}
    minutes = _unsteady(chance, steady_minutes(ranks, hours * 60))
    return replace(fleet.facts, minutes=minutes, later=later)


def _unsteady(chance: random.Random, table: StepMinutes) -> StepMinutes:
    """Some minutes are missing, in some the clock jumps, and phases are longer than their steps."""
    numbers = np.random.default_rng(chance.getrandbits(32))
    kept = numbers.random(len(table)) < chance.choice([0.2, 0.9, 1.0])
    columns = {one.name: getattr(table, one.name)[kept] for one in fields(table) if one.name != "runs"}
    for name in ("first_start_us", "first_end_us", "last_end_us", "data_us", "sync_us", "device_us"):
        off = numbers.random(int(kept.sum())) < chance.choice([0.0, 0.05])
        columns[name] = columns[name] + off * numbers.integers(-(10**8), 10**8, int(kept.sum()))
    return replace(table, **columns)


def any_prices(chance: random.Random, from_ms: int, to_ms: int) -> PlainPrices:
    def price() -> Decimal | None:
        huge = Decimal(chance.randint(0, 10**20)) / 10**7
        return chance.choice([None, Decimal("0"), Decimal("2.49"), Decimal(1) / 7, huge])

    times = sorted({chance.randint(from_ms, to_ms) for _ in range(chance.randint(0, 3))})
    unpriced = frozenset({"NVIDIA L4"}) if chance.random() < 0.3 else frozenset[str]()
    return PlainPrices(price(), tuple((t, price()) for t in times), unpriced_models=unpriced)
