"""D007 divergence: a training run goes wrong, and will not come back by itself.

What it finds: a loss that is not a number; a loss that has left its own noise upwards for several steps and
does not come back; gradients that explode or vanish. With the step, and the rank that was first.
Why it costs: whatever it computes from there on is lost.
Example: the loss is 2.1 with a noise of 0.05, and from step 4,310 on 3.5, 4.2, 5.0, ...
What to do: go back to the last checkpoint before that step, and look at its data and learning rate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trilens.detect.curve import (
    EXPLODES,
    FEWEST,
    NOTHING,
    RECENT,
    RISE,
    VANISHES,
    Band,
    explodes,
    is_back,
    not_numbers,
    rises,
    vanishes,
)
from trilens.detect.job_memory import JobMemory
from trilens.detect.scene import ToldBy
from trilens.detect.subjects import attempt_of, of_job
from trilens.detect.wording import job_name
from trilens.model.finding import Evidence, Finding, FindingKind, Severity
from trilens.model.life import Phase

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.detect.curve import Departure, Floats
    from trilens.detect.readings import Flags
    from trilens.detect.scene import JobView, RankView, Scene

CODE: Final = "D007"

_WIDTH: Final = 112  # values of the cheap question, the last ones
_LATEST: Final = 3  # of which these are outside, for a closer look
_LOSSES: Final = frozenset({"loss", "train_loss", "train/loss"})  # as a program may call it in its notes
_STALE_MS: Final = 10 * 60_000  # without a step it neither diverges nor comes back


class _Seen(NamedTuple):
    """Of one rank."""

    rank: RankView
    cause: str
    step: int
    end_ms: int
    band: Band | None
    value: float


@dataclass
class _Lasting:
    cause: str
    rank: int | None
    step: int
    onset_ms: int
    ranks: int  # that show it
    band: Band | None
    value: float
    confidence: float


@dataclass
class _Job:
    attempt: int
    told_ms: int = 0  # the end of the last step that was looked at
    not_numbers: dict[int, int] = field(default_factory=dict)  # by rank: the first step of which it said so
    lasting: _Lasting | None = None


class Divergence:
    code = CODE

    def __init__(self) -> None:
        self._jobs: JobMemory[_Job] = JobMemory()

    def look(self, scene: Scene) -> Iterator[Finding]:
        watched: list[tuple[JobView, _Job]] = []
        news: list[tuple[JobView, _Job, RankView]] = []
        for job in scene.jobs:
            leader = _leader(job)
            if leader is None:
                continue
            known = self._known(job, scene.now_ms)
            watched.append((job, known))
            ended_ms = int(leader.steps.end_ms[-1])
            if ended_ms != known.told_ms:
                known.told_ms = ended_ms
                news.append((job, known, leader))
        for job, known in _worth_a_look(news):
            self._judge(job, known)
        for job, known in watched:
            if known.lasting is not None and scene.now_ms - known.told_ms <= _STALE_MS:
                yield _finding(job, known.lasting, scene)

    def _known(self, job: JobView, now_ms: int) -> _Job:
        attempt = attempt_of(job)
        known = self._jobs.get(job, now_ms)
        if known is None or known.attempt != attempt:
            known = self._jobs.put(job, now_ms, _Job(attempt))
        return known

    def _judge(self, job: JobView, known: _Job) -> None:
        for rank in job.ranks:
            for note in rank.notes:
                if note.kind == "nonfinite" and note.data.get("value") in _LOSSES:
                    known.not_numbers.setdefault(rank.rank, note.step if note.step is not None else -1)
        lasting = known.lasting
        if lasting is not None:
            if _is_over(job, lasting):
                known.lasting = None
            return
        seen = [one for rank in job.ranks if (one := _trouble(rank, known)) is not None]
        tellers = sum(bool(len(rank.steps)) and not np.isnan(rank.steps.loss).all() for rank in job.ranks)
        for cause in ("nan", "loss-rising", "gradient-explosion", "gradient-vanishing"):
            same = [one for one in seen if one.cause == cause]
            if same and (cause == "nan" or 2 * len(same) >= tellers):
                known.lasting = _first_of(same, known)
                return


def _leader(job: JobView) -> RankView | None:
    """The first rank that tells; weights are shared, so what one shows all of them do."""
    if job.serves or job.phase not in (None, Phase.RUNNING):
        return None
    for rank in job.ranks:
        if len(rank.steps):
            return rank
    return None


def _worth_a_look(news: Sequence[tuple[JobView, _Job, RankView]]) -> Iterator[tuple[JobView, _Job]]:
    """Those whose last values are unusual, or of which something is known. All at once, as most are calm."""
    if not news:
        return
    loss = _matrix([leader.steps.loss for _, _, leader in news])
    norm = _matrix([leader.steps.grad_norm for _, _, leader in news])
    is_odd = (_tells(loss) & ~np.isfinite(loss[:, -1])) | (_above(loss, 1 + RISE / 2))
    is_odd |= _above(norm, EXPLODES / 2) | _below(norm)
    for odd, (job, known, _) in zip(is_odd.tolist(), news, strict=True):
        if odd or known.lasting is not None or any(rank.notes for rank in job.ranks):
            yield job, known


def _matrix(columns: Sequence[Floats]) -> Floats:
    """The last values of each, as rows. Where a program logs one in several steps, only those."""
    found = np.full((len(columns), _WIDTH), np.nan)
    for at, values in enumerate(columns):
        last = values[-_WIDTH:]
        if len(values) > _WIDTH and np.isnan(last[0]) and not np.isnan(values).all():
            last = values[~np.isnan(values)][-_WIDTH:]
        if len(last):
            found[at, -len(last) :] = last
    return found


def _tells(values: Floats) -> Flags:
    some: Flags = ~np.logical_and.reduce(np.isnan(values), axis=1)
    return some


def _usual(values: Floats) -> Floats:
    """What is low in each row, the last ones left out; NaN where too little is known."""
    in_order = np.sort(values[:, :-_LATEST], axis=1)
    known = np.isfinite(in_order).sum(axis=1)
    low = in_order[np.arange(len(values)), known // 5]
    return np.where(known >= FEWEST // 2, low, np.nan)


def _above(values: Floats, factor: float) -> Flags:
    usual = _usual(values)
    least = usual + (factor - 1) * np.abs(usual)
    above: Flags = np.logical_and.reduce(values[:, -_LATEST:] > least[:, None], axis=1)
    return above


def _below(values: Floats) -> Flags:
    most = np.maximum(VANISHES * _usual(values), NOTHING)
    below: Flags = np.logical_and.reduce(values[:, -_LATEST:] < most[:, None], axis=1)
    return below


def _trouble(rank: RankView, known: _Job) -> _Seen | None:
    steps = rank.steps
    if not len(steps):
        return None
    lost = not_numbers(steps.loss)
    # Records tell in a note what was no number; without one it was only not logged.
    is_told = (
        rank.told_by is ToldBy.METRICS or bool(known.not_numbers) or np.isinf(steps.loss[-RECENT:]).any()
    )
    if lost is not None and is_told and np.isfinite(steps.loss[:lost]).any():
        at = min(lost, len(steps) - 1)
        return _Seen(rank, "nan", int(steps.step[at]), int(steps.end_ms[at]), None, float("nan"))
    found: Departure | None
    for cause, found in (
        ("loss-rising", rises(steps.loss)),
        ("gradient-explosion", explodes(steps.grad_norm)),
        ("gradient-vanishing", vanishes(steps.grad_norm)),
    ):
        if found is not None:
            at = found.at
            return _Seen(rank, cause, int(steps.step[at]), int(steps.end_ms[at]), found.band, found.value)
    return None


def _first_of(seen: Sequence[_Seen], known: _Job) -> _Lasting:
    """The rank with which it began, where it was alone then."""
    if seen[0].cause == "nan" and known.not_numbers:
        seen = [
            one._replace(step=min(one.step, said))
            if (said := known.not_numbers.get(one.rank.rank, -1)) >= 0
            else one
            for one in seen
        ]
    step = min(one.step for one in seen)
    first = [one for one in seen if one.step == step]
    one = first[0]
    is_sure = one.cause != "nan" or bool(known.not_numbers) or one.rank.told_by is ToldBy.RECORDS
    return _Lasting(
        one.cause,
        one.rank.rank if len(first) == 1 and len(seen) > 1 else None,
        step,
        min(one.end_ms for one in first),
        len(seen),
        one.band,
        one.value,
        0.95 if is_sure else 0.8,
    )


def _is_over(job: JobView, lasting: _Lasting) -> bool:
    """Its values are usual again."""
    for rank in job.ranks:
        steps = rank.steps
        if not len(steps):
            continue
        match lasting.cause:
            case "nan":
                if not_numbers(steps.loss) is not None:
                    return False
            case "loss-rising":
                assert lasting.band is not None
                if not is_back(steps.loss, lasting.band):
                    return False
            case _:
                assert lasting.band is not None
                norms = steps.grad_norm[~np.isnan(steps.grad_norm)][-RECENT // 2 :]
                usual = lasting.band.usual
                if len(norms) and not VANISHES * usual <= np.median(norms) <= EXPLODES / 2 * usual:
                    return False
    return True


_SEVERITY: Final = {
    "nan": Severity.CRITICAL,
    "loss-rising": Severity.WARNING,
    "gradient-explosion": Severity.WARNING,
    "gradient-vanishing": Severity.WARNING,
}


def _finding(job: JobView, lasting: _Lasting, scene: Scene) -> Finding:
    rank = next((one for one in job.ranks if one.rank == lasting.rank), None)
    first = f", first on rank {lasting.rank}" if rank is not None else ""
    figures = {"step": float(lasting.step), "ranks": float(lasting.ranks)}
    band = lasting.band
    if band is not None:
        figures |= {"usual": band.usual, "value": lasting.value}
    what = {
        "nan": "its loss is not a number any more",
        "loss-rising": "its loss rises and does not come back",
        "gradient-explosion": "its gradients explode",
        "gradient-vanishing": "its gradients vanish",
    }[lasting.cause]
    name = "loss" if lasting.cause == "loss-rising" else "gradient norm"
    evidence = [f"{lasting.ranks} of {len(job.ranks)} ranks show it"]
    if band is not None:
        evidence.append(f"{name} {lasting.value:.3g}, where {band.usual:.3g} was usual")
    run = f"`trilens lineage {job.run.run}`" if job.run is not None else "`trilens lineage`"
    return Finding(
        CODE,
        FindingKind.DIVERGENCE,
        of_job(job, scene, rank),
        _SEVERITY[lasting.cause],
        lasting.cause,
        lasting.onset_ms,
        f"{job_name(job)} diverges since step {lasting.step}{first}: {what}",
        f"Stop it, and go on from the last checkpoint before step {lasting.step}; which samples that step "
        f"saw: {run}; then a lower learning rate, or without that batch.",
        lasting.confidence,
        tuple(map(Evidence, evidence)),
        (),
        figures,
    )
