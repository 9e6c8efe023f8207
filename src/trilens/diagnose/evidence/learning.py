"""Whether a run learns: its loss, its gradients, and the data with which it went wrong."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.found import answer_of
from trilens.model.finding import FindingKind
from trilens.model.verdict import Fact, Missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import RankSteps, SuspectBatch

_CAUSES: Final = {
    "nan": "not-a-number",
    "loss-rising": "rises",
    "gradient-explosion": "explodes",
    "gradient-vanishing": "vanishes",
    "loss-flat": "flat",
}
_ALERTS: Final = {
    "TrainingLossNotFinite": "not-a-number",
    "TrainingLossDiverging": "rises",
    "TrainingGradientExploding": "explodes",
    "TrainingGradientVanishing": "vanishes",
    "TrainingLossNotDecreasing": "flat",
    "TrainingValidationGap": "by-heart",
}
_BY_ALERT: Final = 0.8
_BY_STEPS: Final = 0.75  # no detector looked: it knows the noise, and what was long before
_FEWEST: Final = 20  # losses
_NOT_NUMBERS: Final = 3  # in a row: mixed precision skips one now and then
_RISEN: Final = 1.3
_NOTHING: Final = 1e-7  # a gradient norm that moves no weight
_NEAR: Final = 5  # steps between a batch and where it began
_FEW: Final = 3


@evidence("not-a-number", "rises", "explodes", "vanishes", "flat", "by-heart", "falls")
def loss_does(case: Case) -> Answer:
    """Of what is over, the loss tells now."""
    for interval in case.findings(FindingKind.DIVERGENCE) or case.findings(FindingKind.PLATEAU):
        if interval.ended_ms is not None:
            break
        finding = interval.finding
        return answer_of(interval, _CAUSES[finding.cause], {"curve": finding.text})
    for alert in case.file.alerts:
        name = alert.labels.get("alertname", "")
        if name in _ALERTS:
            said = alert.annotations.get("summary", name)
            fact = Fact(said, f"alert {name}", alert.active_ms)
            return Answer((_ALERTS[name],), (fact,), _BY_ALERT, {"curve": said}, since_ms=alert.active_ms)
    return _by_steps(case)


def _by_steps(case: Case) -> Answer:
    told = next((steps for steps in case.file.steps if len(_known(steps.loss)) >= _FEWEST), None)
    if told is None:
        return Answer.unknown(Missing("its loss", "log it with every step: docs/sdk.md"))
    losses = _known(told.loss)
    part = max(5, len(losses) // 4)
    first, last = losses[:part], losses[-part:]
    source = f"loss of rank {told.rank}"
    if all(not math.isfinite(value) for value in losses[-_NOT_NUMBERS:]):
        said = f"the last {_NOT_NUMBERS} values are {losses[-1]}"
        return _curve("not-a-number", said, source, told)
    before, now = median(filter(math.isfinite, first)), median(filter(math.isfinite, last))
    said = f"{before:.4g} at step {told.step[0]}, {now:.4g} at step {told.step[-1]}"
    if now > _RISEN * before > 0:
        return _curve("rises", said, source, told)
    if now < before:
        return _curve("falls", said, source, told)
    return Answer.unknown(Missing("whether its loss still falls", "wait: some hundred steps more will tell"))


def _curve(how: str, said: str, source: str, steps: RankSteps) -> Answer:
    return Answer((how,), (Fact(said, source, steps.end_ms[-1]),), _BY_STEPS, {"curve": said})


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


@evidence("nothing", "move")
def gradients_do(case: Case) -> Answer:
    norms = [value for steps in case.file.steps for value in _known(steps.grad_norm)[-10:]]
    if not norms:
        return Answer.unknown(Missing("its gradient norms", "log grad_norm with every step: docs/sdk.md"))
    now = median(norms)
    fact = Fact(f"the last gradient norms are {now:.3g}", "steps of the run")
    if now <= _NOTHING:
        return Answer(("nothing",), (fact,), 0.95, {"curve": fact.text})
    return Answer(("move",), (fact,))


@evidence("repeats", "one", "none")
def suspect_batch(case: Case) -> Answer:
    """`repeats`: data that came before several jumps. `one`: a rank was alone when it began, with its batch;
    where all ranks began together it is not the data of one of them."""
    suspects = case.file.suspects
    if not suspects:
        return Answer.unknown(
            Missing("which data its steps saw", "give its loader to run.data(loader): docs/sdk.md")
        )
    again = max(suspects, key=lambda one: one.jumps)
    # Of many samples before many jumps, two will meet by chance.
    if again.jumps > 1 and 2 * again.jumps >= len({one.step for one in suspects}):
        return _suspect("repeats", again, suspects, 0.95)
    found = case.findings(FindingKind.DIVERGENCE)
    rank = found[0].finding.subject.rank if found else None
    step = found[0].finding.figures.get("step") if found else None
    near = [
        one for one in suspects if one.rank == rank and (step is None or -_NEAR <= one.step - step <= _NEAR)
    ]
    if rank is not None and near:
        return _suspect("one", near[0], near, 0.95)
    return Answer(("none",), tuple(_fact(one) for one in suspects[:_FEW]), 0.9)


def _suspect(how: str, worst: SuspectBatch, all_of_them: Sequence[SuspectBatch], confidence: float) -> Answer:
    names = {"batch": worst.batch, "batch_step": str(worst.step)}
    facts = tuple(_fact(one) for one in all_of_them[:_FEW])
    return Answer((how,), facts, confidence, names, since_ms=worst.t_ms)


def _fact(one: SuspectBatch) -> Fact:
    times = f" (before {one.jumps} jumps)" if one.jumps > 1 else ""
    return Fact(
        f"{one.value} jumped at step {one.step}, rank {one.rank}: {one.batch}{times}", "lineage", one.t_ms
    )
