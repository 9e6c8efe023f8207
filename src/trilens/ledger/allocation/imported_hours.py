"""GPU time of before Trilens, from tables of jobs and of usage: which belongs to whom, in an hour.

Each source and GPU model is a pool: it stands where a node does, and is paid by the GPU. Its jobs are holders
of their own; GPUs in use beyond what jobs cover belong to the table of usage, and what is there beyond both
is unallocated. Time that no row tells of is not in the pool at all: unknown, not free.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.ledger.causes import FREE, IMPORTED
from trilens.model.ledger import FLEET, Bucket, Holder, Warned
from trilens.model.machine import Machine
from trilens.model.workload import Doubt, WorkloadKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.imported import ImportedJob, UsagePoint
    from trilens.model.ledger_facts import Facts

JOB_KIND: Final = "ImportedJob"
USAGE_KIND: Final = "ImportedUsage"
_NODES: Final = "import"  # no node of Kubernetes has a slash in its name: these never meet


class Stretch(NamedTuple):
    """So many GPUs were there, all the time."""

    from_ms: int
    to_ms: int
    gpus: Fraction


class Portion(NamedTuple):
    holder: Holder
    bucket: Bucket
    cause: str
    gpu_ms: int


class Pool(NamedTuple):
    """`portions` add up to GPUs x time over all `stretches`, less what is below a millisecond.

    A price that changes inside of the span is met by asking again for each part of it.
    """

    machine: Machine  # without a number of GPUs: it is another one in each stretch
    stretches: list[Stretch]
    portions: list[Portion]
    doubts: tuple[Warned, ...]

    @property
    def gpu_ms(self) -> int:
        return sum(portion.gpu_ms for portion in self.portions)


def is_pool(node: str) -> bool:
    """Whether what stands where a node does was imported."""
    return node.startswith(f"{_NODES}/")


class _PoolKey(NamedTuple):
    cluster: str
    source: str
    model: str

    def machine(self) -> Machine:
        names = (_NODES, self.source, self.model) if self.model else (_NODES, self.source)
        return Machine(self.cluster, "/".join(names), gpu_model=self.model)


class _Held(NamedTuple):
    """Inside of the span that was asked for."""

    from_ms: int
    to_ms: int
    job: ImportedJob


class _Told(NamedTuple):
    """A row of usage, for as long as it counts; with those after it that say the same."""

    from_ms: int
    to_ms: int
    point: UsagePoint

    def is_continued_by(self, other: UsagePoint, began: int) -> bool:
        return self.to_ms == began and self.point.team == other.team and _say_the_same(self.point, other)


def _say_the_same(one: UsagePoint, other: UsagePoint) -> bool:
    """Most numbers are the very same object, and comparing fractions takes long."""
    return (one.in_use is other.in_use or one.in_use == other.in_use) and (
        one.there is other.there or one.there == other.there
    )


def imported_portions(facts: Facts, from_ms: int, to_ms: int) -> list[Pool]:
    """All pools that have any time in the span, by cluster and name."""
    usage: dict[_PoolKey, list[UsagePoint]] = defaultdict(list)
    models: dict[tuple[str, str], set[str]] = defaultdict(set)
    for point in facts.usage:
        if point.t_ms < to_ms and point.t_ms + point.ms > from_ms:
            usage[_PoolKey(point.cluster, point.source, point.model)].append(point)
            models[point.cluster, point.source].add(point.model)
    jobs: dict[_PoolKey, list[_Held]] = defaultdict(list)
    for job in facts.jobs:
        began = max(job.start_ms, from_ms)
        ended = to_ms if job.end_ms is None else min(job.end_ms, to_ms)
        if began < ended and job.gpus > 0:
            model = _model_of(job, models.get((job.cluster, job.source), set()))
            jobs[_PoolKey(job.cluster, job.source, model)].append(_Held(began, ended, job))
    pools = (_pool(key, jobs[key], usage[key], from_ms, to_ms) for key in sorted(usage.keys() | jobs.keys()))
    return [pool for pool in pools if pool.portions]


def _model_of(job: ImportedJob, of_usage: set[str]) -> str:
    """A job that does not tell its GPUs has those of its source's usage, where that has one kind of them."""
    return next(iter(of_usage)) if not job.model and len(of_usage) == 1 else job.model


def _pool(key: _PoolKey, jobs: list[_Held], usage: Sequence[UsagePoint], from_ms: int, to_ms: int) -> Pool:
    told, overlapping = _one_after_the_other(usage, from_ms, to_ms)
    sweep = _Sweep(jobs, told)
    exact: list[tuple[Holder, Bucket, str, Fraction]] = [
        (_job_holder(held.job), Bucket.PRODUCTIVE, IMPORTED, held.job.gpus * (held.to_ms - held.from_ms))
        for held in sorted(jobs, key=lambda held: held.job.job)
    ]
    exact += [
        (_usage_holder(key, team), Bucket.PRODUCTIVE, IMPORTED, amount)
        for team, amount in sorted(sweep.beyond_jobs.items(), key=lambda item: item[0] or "")
    ]
    exact.append((FLEET, Bucket.UNALLOCATED, FREE, sweep.free))
    without_end = sum(
        (held.job.gpus * (held.to_ms - held.from_ms) for held in jobs if held.job.end_ms is None), Fraction()
    )
    doubts = _doubts(key.source, overlapping, without_end, sweep)
    return Pool(key.machine(), sweep.stretches, _whole_milliseconds(exact), doubts)


def _one_after_the_other(
    usage: Iterable[UsagePoint], from_ms: int, to_ms: int
) -> tuple[list[_Told], Fraction]:
    """The rows of each team's table, none longer than to the next; and the GPU time that was told twice.

    Tables of two teams are of different GPUs, and add up.
    """
    told: list[_Told] = []
    overlapping = Fraction()
    by_team: dict[str | None, list[UsagePoint]] = defaultdict(list)
    for point in usage:
        by_team[point.team].append(point)
    for points in by_team.values():
        points.sort(key=lambda point: point.t_ms)
        for point, after in zip(points, [*points[1:], None], strict=True):
            end = point.t_ms + point.ms
            if after is not None and after.t_ms < end:
                if not _say_the_same(point, after):
                    overlapping += point.in_use * max(0, min(end, to_ms) - max(after.t_ms, from_ms))
                end = after.t_ms
            began, ended = max(point.t_ms, from_ms), min(end, to_ms)
            if told and told[-1].is_continued_by(point, began):
                told[-1] = told[-1]._replace(to_ms=ended)
            elif began < ended:
                told.append(_Told(began, ended, point))
    return told, overlapping


class _Sweep:
    """From one change to the next: how many GPUs were there, and who had how many of them."""

    def __init__(self, jobs: Iterable[_Held], told: Iterable[_Told]) -> None:
        self.stretches: list[Stretch] = []
        self.beyond_jobs: dict[str | None, Fraction] = defaultdict(Fraction)
        self.free = Fraction()
        self.too_many_in_use = Fraction()  # GPU time in use beyond what was there
        self.too_many_jobs = Fraction()  # GPU time of jobs beyond what was in use
        held_changes: dict[int, Fraction] = defaultdict(Fraction)
        told_changes: dict[int, list[tuple[_Told, bool]]] = defaultdict(list)
        for held in jobs:
            held_changes[held.from_ms] += held.job.gpus
            held_changes[held.to_ms] -= held.job.gpus
        for row in told:
            told_changes[row.from_ms].append((row, True))
            told_changes[row.to_ms].append((row, False))
        moments = sorted(held_changes.keys() | told_changes.keys())
        held_gpus = Fraction()
        current: dict[str | None, UsagePoint] = {}  # of each team
        for began, ended in pairwise(moments):
            held_gpus += held_changes.get(began, 0)
            changes = told_changes.get(began, ())
            for row, begins in changes:
                if not begins:
                    del current[row.point.team]
            for row, begins in changes:
                if begins:
                    current[row.point.team] = row.point
            self._add(began, ended, held_gpus, current)

    def _add(
        self, began: int, ended: int, held_gpus: Fraction, current: dict[str | None, UsagePoint]
    ) -> None:
        ms = ended - began
        in_use = sum((point.in_use for point in current.values()), Fraction())
        there = sum(
            (point.in_use if point.there is None else point.there for point in current.values()), Fraction()
        )
        beyond = max(in_use - held_gpus, Fraction())
        for team, point in current.items():
            if beyond and point.in_use:
                self.beyond_jobs[team] += beyond * point.in_use / in_use * ms
        if current:
            self.too_many_in_use += max(in_use - there, Fraction()) * ms
            self.too_many_jobs += max(held_gpus - in_use, Fraction()) * ms
        taken = held_gpus + beyond
        self.free += max(there - taken, Fraction()) * ms
        gpus = max(there, taken)
        if not gpus:
            return
        last = self.stretches[-1] if self.stretches else None
        if last is not None and last.to_ms == began and last.gpus == gpus:
            self.stretches[-1] = last._replace(to_ms=ended)
        else:
            self.stretches.append(Stretch(began, ended, gpus))


def _whole_milliseconds(exact: Iterable[tuple[Holder, Bucket, str, Fraction]]) -> list[Portion]:
    """Each gets what the running sum has at its end less what it had before it: they add up to the whole."""
    portions = []
    running, before = Fraction(), 0
    for holder, bucket, cause, amount in exact:
        running += amount
        after = int(running)
        if after > before:
            portions.append(Portion(holder, bucket, cause, after - before))
        before = after
    return portions


def _job_holder(job: ImportedJob) -> Holder:
    key = WorkloadKey(job.cluster, job.source, "", JOB_KIND, job.job, "")
    return Holder(workload=key, team=job.team, queue=job.queue)


def _usage_holder(pool: _PoolKey, team: str | None) -> Holder:
    key = WorkloadKey(pool.cluster, pool.source, "", USAGE_KIND, pool.source, "")
    return Holder(workload=key, team=team)


def _doubts(source: str, overlapping: Fraction, without_end: Fraction, sweep: _Sweep) -> tuple[Warned, ...]:
    found = (
        (
            without_end,
            "job-without-end",
            f"jobs of the import {source} have no end, and count as still running",
            "import the table again when they have ended",
        ),
        (
            sweep.too_many_jobs,
            "jobs-exceed-usage",
            f"the jobs of the import {source} had more GPUs than its usage says were in use: the jobs count",
            "are both tables of the same GPUs and in the same timezone?",
        ),
        (
            sweep.too_many_in_use,
            "more-in-use-than-there",
            f"the import {source} has more GPUs in use than were there: those in use count",
            "is the column for `there` the right one?",
        ),
        (
            overlapping,
            "overlapping-usage",
            f"rows of usage of the import {source} overlap: each counts until the next begins",
            "import the table of one source once, with one distance between its rows",
        ),
    )
    return tuple(
        Warned(Doubt(code, text, remedy), max(1, int(amount)))
        for amount, code, text, remedy in found
        if amount
    )
