"""GPU time of workloads that tell no steps: what load, phases and telemetry say of it, minute by minute.

All minutes of all GPUs are sorted at once; only where something changes does a span begin. What is quiet for
less than `SHORTEST` minutes beside work is work: a checkpoint is written, a batch is late.
"""

from __future__ import annotations

from collections import defaultdict
from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.ledger import causes
from trilens.ledger.span import Part, Span
from trilens.ledger.telemetry.idle_power import waiting_watts
from trilens.ledger.telemetry.minutes import MINUTE_MS, as_last_said
from trilens.ledger.telemetry.serving_load import ServingLoad
from trilens.model.ledger import Basis, Bucket
from trilens.model.life import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from trilens.ledger.source import GpuMinutes, Signals
    from trilens.model.ledger_facts import Facts
    from trilens.model.life import PhaseInterval
    from trilens.model.workload import GpuUuid, Membership, PodKey, WorkloadKey

SHORTEST: Final = 3  # minutes in a row without a kernel, or hung, before it counts
EPISODE: Final = 10  # minutes without a request from which on it is told since when
RAN: Final = 0.02  # of a minute; less is what looking at a GPU costs
ALL_THE_TIME: Final = 0.95
_OVER_LOWEST: Final = 1.35  # of a model that nobody knows: so far above its own power when no kernel runs

_BEFORE_RUNNING: Final = {
    Phase.QUEUED: causes.LOADING,
    Phase.ADMITTED: causes.LOADING,
    Phase.SCHEDULING: causes.LOADING,
    Phase.PULLING: causes.PULLING,
    Phase.STARTING: causes.LOADING,
}


class Asked(NamedTuple):
    """Time that a pod held a GPU, of which no step tells."""

    gpu: GpuUuid
    instance: str
    pod: PodKey
    workload: WorkloadKey
    from_ms: int
    to_ms: int


class _Is(IntEnum):
    """What a minute is."""

    NOT_ITS = -1  # another held the GPU, or nobody
    UNTOLD = 0
    WORKING = 1
    QUIET = 2
    HUNG = 3
    ANSWERING = 4
    WITHOUT_REQUESTS = 5
    SERVING = 6  # an inference server of which only its GPU tells
    SERVING_QUIET = 7
    NOT_ANSWERED_YET = 8


class _Meaning(NamedTuple):
    bucket: Bucket
    cause: str
    basis: Basis


_MEANING: Final[Mapping[int, _Meaning]] = {
    _Is.UNTOLD: _Meaning(Bucket.PRODUCTIVE, causes.NO_SIGNAL, Basis.NONE),
    _Is.WORKING: _Meaning(Bucket.PRODUCTIVE, causes.BUSY, Basis.GPU),
    _Is.QUIET: _Meaning(Bucket.ALLOCATED_IDLE, causes.IDLE, Basis.GPU),
    _Is.HUNG: _Meaning(Bucket.STALLED, causes.HUNG, Basis.GPU),
    _Is.ANSWERING: _Meaning(Bucket.SERVING_BUSY, causes.REQUESTS, Basis.LOAD),
    _Is.WITHOUT_REQUESTS: _Meaning(Bucket.SERVING_IDLE, causes.NO_REQUESTS, Basis.LOAD),
    _Is.SERVING: _Meaning(Bucket.SERVING_BUSY, causes.BUSY, Basis.GPU),
    _Is.SERVING_QUIET: _Meaning(Bucket.SERVING_IDLE, causes.IDLE, Basis.GPU),
    _Is.NOT_ANSWERED_YET: _Meaning(Bucket.STARTING, causes.LOADING, Basis.LOAD),
}
_NEVER_USED: Final = _Meaning(Bucket.ALLOCATED_IDLE, causes.NEVER_USED, Basis.GPU)
_SINCE: Final = (_Is.QUIET, _Is.HUNG, _Is.WITHOUT_REQUESTS, _Is.SERVING_QUIET, _Is.NOT_ANSWERED_YET)
_AT_WORK: Final = (_Is.WORKING, _Is.HUNG, _Is.SERVING, _Is.ANSWERING, _Is.WITHOUT_REQUESTS)
_EPISODES: Final = (_Is.WITHOUT_REQUESTS, _Is.SERVING_QUIET)  # only where they last
_WAITS: Final = (_Is.UNTOLD, _Is.QUIET, _Is.HUNG, _Is.SERVING_QUIET)  # maybe for being started


def coarse_spans(asked: Sequence[Asked], facts: Facts, signals: Signals) -> list[list[Span]]:
    """Of each a list that covers it without holes, in order. `signals` may begin before what is asked: from
    that it is known since when something goes on; None is "since before"."""
    if not asked:
        return []
    tenures = _Tenures(asked, facts, signals)
    sorted_out = _by_gpu(asked, facts, signals.gpus, tenures)
    _serving(asked, facts, signals, tenures, sorted_out)
    _smooth(sorted_out)
    waits = _Waits(facts)
    return [
        _merged(_spans(one, at, tenures, runs, waits))
        for at, (one, runs) in enumerate(zip(asked, _runs(sorted_out), strict=True))
    ]


class _Tenures:
    """Since when each holder has had its GPU, in milliseconds and in columns of the signals."""

    def __init__(self, asked: Sequence[Asked], facts: Facts, signals: Signals) -> None:
        self.base_ms = signals.gpus.from_ms
        self.minutes = signals.gpus.active.shape[1]
        held: dict[tuple[str, str, PodKey], int] = {}
        for binding, from_ms, _ in facts.bindings:
            key = (binding.gpu.uuid, binding.gpu.instance, binding.pod)
            held[key] = min(from_ms, held.get(key, from_ms))
        self.since_ms = [
            min(held.get((one.gpu, one.instance, one.pod), one.from_ms), one.from_ms) for one in asked
        ]
        since = (np.array(self.since_ms, np.int64) - self.base_ms) // MINUTE_MS
        until = -((self.base_ms - np.array([one.to_ms for one in asked], np.int64)) // MINUTE_MS)
        self.first = np.clip(since, 0, self.minutes)
        self.last = np.clip(until, 0, self.minutes)  # one after the last

    def outside(self) -> NDArray[np.bool_]:
        column = np.arange(self.minutes)
        return (column < self.first[:, None]) | (column >= self.last[:, None])


def _by_gpu(asked: Sequence[Asked], facts: Facts, gpus: GpuMinutes, tenures: _Tenures) -> NDArray[np.int8]:
    rows = np.array([gpus.gpus.get((one.gpu, one.instance), -1) for one in asked])
    found = np.full((len(asked), tenures.minutes), _Is.UNTOLD, np.int8)
    told = np.flatnonzero(rows >= 0)
    if len(told) and tenures.minutes:
        active, busy, watts = (
            as_last_said(array[rows[told]]) for array in (gpus.active, gpus.busy, gpus.watts)
        )
        ran = (active >= RAN) | (busy >= RAN)
        quiet = ~ran & ~(np.isnan(active) & np.isnan(busy))
        models = {interval.gpu.key.uuid: interval.gpu.model for interval in facts.gpus}
        limits = np.array([waiting_watts(models.get(asked[at].gpu, "")) or np.nan for at in told.tolist()])
        unknown = np.isnan(limits)
        if unknown.any():
            at_rest = np.where(quiet[unknown], watts[unknown], np.inf)
            lowest = np.nanmin(np.where(np.isnan(at_rest), np.inf, at_rest), axis=1)
            limits[unknown] = np.where(np.isfinite(lowest), lowest * _OVER_LOWEST, -np.inf)
        hung = (active >= ALL_THE_TIME) & (watts <= limits[:, None])
        found[told] = np.select([hung, ran, quiet], [_Is.HUNG, _Is.WORKING, _Is.QUIET], _Is.UNTOLD)
    found[tenures.outside()] = _Is.NOT_ITS
    return found


def _serving(
    asked: Sequence[Asked],
    facts: Facts,
    signals: Signals,
    tenures: _Tenures,
    found: NDArray[np.int8],
) -> None:
    """Minutes of inference servers, in the place of what their GPUs say."""
    load = ServingLoad(facts, signals.serving, tenures.base_ms, tenures.minutes)
    for at, one in enumerate(asked):
        if not load.is_server(one.workload):
            continue
        row = found[at]
        row[row == _Is.QUIET] = _Is.SERVING_QUIET
        row[(row == _Is.WORKING) | (row == _Is.HUNG)] = _Is.SERVING
        requests = load.of(one.pod, one.workload)
        if requests is None:
            continue
        its = row != _Is.NOT_ITS
        told = np.flatnonzero(its & ~np.isnan(requests))
        row[its & (requests > 0)] = _Is.ANSWERING
        row[its & (requests == 0)] = _Is.WITHOUT_REQUESTS
        if len(told) and tenures.since_ms[at] >= tenures.base_ms:
            row[tenures.first[at] : told[0]] = _Is.NOT_ANSWERED_YET


def _smooth(found: NDArray[np.int8]) -> None:
    """What is too short to count is work, next to work."""
    if found.shape[1] < 2:
        return
    rows, begins, ends = _edges(found)
    codes = found[rows, begins]
    works = codes == _Is.WORKING
    same_before = np.concatenate(([False], rows[1:] == rows[:-1]))
    same_after = np.concatenate((rows[1:] == rows[:-1], [False]))
    beside = (same_before & np.concatenate(([False], works[:-1]))) | (
        same_after & np.concatenate((works[1:], [False]))
    )
    short = (ends - begins < SHORTEST) & ((codes == _Is.QUIET) | (codes == _Is.HUNG)) & beside
    for at in np.flatnonzero(short):
        found[rows[at], begins[at] : ends[at]] = _Is.WORKING


def _edges(
    found: NDArray[np.int8],
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Of each run of equal minutes its row, its first column and the one after its last."""
    begins_here = np.ones(found.shape, np.bool_)
    begins_here[:, 1:] = found[:, 1:] != found[:, :-1]
    rows, begins = np.nonzero(begins_here)
    ends = np.append(begins[1:], 0)
    ends[ends == 0] = found.shape[1]
    return rows, begins, ends


class _Run(NamedTuple):
    code: int
    begin: int
    end: int


def _runs(found: NDArray[np.int8]) -> Iterator[list[_Run]]:
    if not found.shape[1]:
        yield from ([] for _ in found)
        return
    rows, begins, ends = _edges(found)
    codes = found[rows, begins].tolist()
    bounds = np.searchsorted(rows, np.arange(len(found) + 1)).tolist()
    every = list(map(_Run, codes, begins.tolist(), ends.tolist()))
    for row in range(len(found)):
        yield every[bounds[row] : bounds[row + 1]]


def _spans(one: Asked, at: int, tenures: _Tenures, runs: Sequence[_Run], waits: _Waits) -> Iterator[Span]:
    first_kernel = next((run.begin for run in runs if run.code in _AT_WORK), None)
    done_ms = one.from_ms
    for code, begin, end in runs:
        if code == _Is.NOT_ITS:
            continue
        begin_ms = tenures.base_ms + begin * MINUTE_MS
        from_ms, to_ms = max(begin_ms, done_ms), min(tenures.base_ms + end * MINUTE_MS, one.to_ms)
        if to_ms <= from_ms:
            continue
        if from_ms > done_ms:
            yield from waits.cut(one, True, _span(done_ms, from_ms, _MEANING[_Is.UNTOLD]))
        is_first = begin <= tenures.first[at]
        since_ms: int | None = max(begin_ms, tenures.since_ms[at])
        if begin == 0 and tenures.since_ms[at] < tenures.base_ms:
            since_ms = None
        meaning = _MEANING[code]
        if code == _Is.QUIET and is_first and since_ms is not None:
            meaning = _NEVER_USED
        if code not in _SINCE or (code in _EPISODES and end - begin < EPISODE):
            since_ms = None
        span = _span(from_ms, to_ms, meaning, since_ms)
        if code in _WAITS:
            yield from waits.cut(one, first_kernel is None or begin < first_kernel, span)
        else:
            yield span
        done_ms = to_ms
    if done_ms < one.to_ms:
        yield from waits.cut(one, True, _span(done_ms, one.to_ms, _MEANING[_Is.UNTOLD]))


def _span(from_ms: int, to_ms: int, meaning: _Meaning, since_ms: int | None = None) -> Span:
    bucket, cause, basis = meaning
    return Span(from_ms, to_ms, (Part(bucket, cause, to_ms - from_ms),), basis, since_ms)


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Neighbours that say the same are one."""
    merged: list[Span] = []
    for span in spans:
        before = merged[-1] if merged else None
        if before is not None and _says(before) == _says(span):
            merged[-1] = _part_of(before, before.from_ms, span.to_ms)
        else:
            merged.append(span)
    return merged


def _says(span: Span) -> tuple[Bucket, str, Basis, int | None]:
    (part,) = span.parts
    return part.bucket, part.cause, span.basis, span.since_ms


class _Waits:
    """When workloads were not running yet, or not again. A workload's phase is that of its last pod: who has
    computed on its GPU does not wait to be started."""

    def __init__(self, facts: Facts) -> None:
        self._phases: defaultdict[tuple[WorkloadKey, int], list[PhaseInterval]] = defaultdict(list)
        for phase in facts.phases:
            if phase.phase in _BEFORE_RUNNING or phase.phase is Phase.RESTARTING:
                self._phases[phase.workload, phase.attempt].append(phase)
        self._members: dict[PodKey, Membership] = {}
        if self._phases:
            self._members = {one.membership.pod: one.membership for one in facts.members}

    def cut(self, one: Asked, has_not_run: bool, span: Span) -> Iterator[Span]:
        """The span, and in it what was a wait."""
        done_ms = span.from_ms
        for phase in self._of(one):
            if phase.phase is not Phase.RESTARTING and not has_not_run:
                continue
            from_ms = max(phase.from_ms, done_ms)
            to_ms = min(phase.to_ms if phase.to_ms is not None else span.to_ms, span.to_ms)
            if to_ms <= from_ms:
                continue
            if from_ms > done_ms:
                yield _part_of(span, done_ms, from_ms)
            cause = _BEFORE_RUNNING.get(phase.phase, causes.RESTARTING)
            meaning = _Meaning(Bucket.STARTING, cause, Basis.PHASE)
            yield _span(from_ms, to_ms, meaning, phase.from_ms)
            done_ms = to_ms
        if done_ms < span.to_ms:
            yield _part_of(span, done_ms, span.to_ms)

    def _of(self, one: Asked) -> Iterable[PhaseInterval]:
        member = self._members.get(one.pod)
        if member is None:
            return ()
        return sorted(self._phases.get((one.workload, member.attempt), ()), key=lambda phase: phase.from_ms)


def _part_of(span: Span, from_ms: int, to_ms: int) -> Span:
    if (from_ms, to_ms) == (span.from_ms, span.to_ms):
        return span
    (part,) = span.parts
    return Span(from_ms, to_ms, (part._replace(ms=to_ms - from_ms),), span.basis, span.since_ms)
