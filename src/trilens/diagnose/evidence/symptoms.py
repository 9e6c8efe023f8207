"""What shows of a case at first sight: which of the trees are worth asking."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.evidence.checkpoints import checkpoint_alerts, failed_writes
from trilens.diagnose.evidence.gpu_access import device_plugin_on_node, gpu_events, node_name
from trilens.diagnose.evidence.gpu_inside import log_signs
from trilens.diagnose.evidence.starting import refused_since
from trilens.diagnose.evidence.telemetry_path import expects_gpus, gpus_heard, target_says, telemetry_findings
from trilens.diagnose.found import facts_of
from trilens.diagnose.scheduling.nodes import nodes_of
from trilens.diagnose.scheduling.waiting import not_started, without_node
from trilens.diagnose.trouble import (
    crashed,
    gone_nodes,
    gpu_failed,
    hangs,
    is_slower,
    learns_badly,
    serves_slowly,
)
from trilens.model.finding import FindingKind, Severity
from trilens.model.life import Phase
from trilens.model.verdict import Fact, Missing
from trilens.resolve.accelerators import is_accelerator, wants_accelerator
from trilens.resolve.events import happened_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.diagnose.case import Case
    from trilens.model.finding import FindingInterval

_TELLS_MS: Final = 60_000  # whoever was heard so lately tells
_LONG: Final = 3  # times its longest step: steps have stopped, whether detectors have looked yet or not
_LATELY_MS: Final = 5 * 60_000
_JUST_OVER: Final = 0.8  # something was found until just now: it may only be out of sight
_FEW: Final = 3
_UNTOLD: Final = 0.54  # nobody tells whether it goes on: "cannot tell", then
_OVER: Final = (Phase.SUCCEEDED, Phase.SUSPENDED)
_NOT_YET: Final = (
    Phase.QUEUED,
    Phase.ADMITTED,
    Phase.SCHEDULING,
    Phase.PULLING,
    Phase.STARTING,
    Phase.SUSPENDED,
)


def _pending(case: Case) -> Iterator[Fact]:
    if waiting := without_node(case):
        yield Fact(f"{len(waiting)} of {len(case.pods)} pods have no node", "status of the pods")
    if starting := not_started(case):
        yield Fact(
            f"{len(starting)} of {len(case.pods)} pods have a node and have not started", "status of the pods"
        )
    if refused := refused_since(case):
        yield Fact(
            f"making pods was refused, {len(refused)} x", "events of its controller", happened_ms(refused[-1])
        )
    for phase in case.file.phases:
        if phase.to_ms is None and phase.phase in _NOT_YET:
            yield Fact(f"it is {phase.phase}: {phase.reason}", "its phases", phase.from_ms)
    if case.file.workloads and not case.pods and not case.file.phases:
        yield Fact("it has no pods", "the API server")


def _no_gpu(case: Case) -> Iterator[Fact]:
    for one in case.file.findings:
        if one.finding.kind is FindingKind.CPU_FALLBACK and one.ended_ms is None:
            yield Fact(one.finding.text, f"detector {one.finding.code}", one.finding.onset_ms)
    yield from (fact for _, fact in log_signs(case))
    if {"allocation", "runtime"} & {*(told := gpu_events(case)).values}:
        yield from told.facts
    for probe in case.file.probes:  # whoever had one run wants to know, however it went
        if any("nvidia-smi" in word for word in probe.command):
            yield Fact(f"nvidia-smi ended with {probe.exit_code}", f"Pod {probe.pod.name}", probe.t_ms)
    if case.file.ranks and case.pods and not any(wants_accelerator(pod) for pod in case.pods):
        yield Fact("it trains, and none of its pods asks for a GPU", "spec of the pods")
    if case.file.subject.kind == "node":
        yield from _node_without(case, node_name(case))


def _node_without(case: Case, node: str) -> Iterator[Fact]:
    """Of a node that has GPUs: others need no device plugin."""
    for room in nodes_of(case):
        gpus = {name: amount for name, amount in room.capacity.items() if is_accelerator(name)}
        if room.name != node or not (gpus or room.is_labelled_gpu):
            continue
        if not any(gpus.values()):
            yield Fact(f"{node} has GPUs by its labels, and offers none", f"Node {node}")
        if any(room.allocatable.get(name, 0) < amount for name, amount in gpus.items()):
            yield Fact(f"{node} has GPUs that are not healthy", f"Node {node}")
        if {"missing", "failing"} & {*(plugin := device_plugin_on_node(case)).values}:
            yield from plugin.facts


def _saves_badly(case: Case) -> Iterator[Fact]:
    for alert in checkpoint_alerts(case):
        name = alert.labels["alertname"]
        yield Fact(alert.annotations.get("summary", name), f"alert {name}", alert.active_ms)
    for log, line in failed_writes(case)[-1:]:
        yield Fact(line, f"log of {log.pod.name if log.pod else log.name}")


def _blind(case: Case) -> Iterator[Fact]:
    gone = gone_nodes(case)
    for one in telemetry_findings(case):
        if one.finding.subject.node in gone:  # nobody is left there who could say anything
            continue
        yield Fact(one.finding.text, f"detector {one.finding.code}", one.finding.onset_ms)
    if gone:
        return
    if case.file.targets and "down" in (target := target_says(case)).values:
        yield from target.facts
    told = gpus_heard(case)
    if "stopped" in told.values or ("no" in told.values and expects_gpus(case)):
        yield from told.facts


# What stands first is the root of what stands after it: a pod without a node has no GPU, and says nothing.
_SYMPTOMS: Final[dict[str, Callable[[Case], Iterator[Fact]]]] = {
    "pending": _pending,
    "no-gpu": _no_gpu,
    "crashed": crashed,
    "hang": hangs,
    "gpu-fault": gpu_failed,
    "slower": is_slower,
    "not-learning": learns_badly,
    "checkpoints": _saves_badly,
    "service": serves_slowly,
    "blind": _blind,
}
# What shows beside one of these is a part of it: whoever has fallen makes the others wait.
_PART_OF: Final = {
    "hang": {"crashed"},
    "gpu-fault": {"crashed", "hang"},
    "slower": {"crashed", "hang"},
    "checkpoints": {"crashed", "hang"},
    "service": {"crashed"},
}


@evidence(*_SYMPTOMS, "nothing")
def what_shows(case: Case) -> Answer:
    file = case.file
    names = {"subject": file.subject.name, "namespace": file.subject.namespace}
    if not (file.members or file.objects or file.ranks or file.gpus):
        missing = (Missing(f"all of {file.subject.name}", "run trilens doctor"),)
        return Answer((UNKNOWN,), names=names, missing=missing)
    found = {symptom: tuple(dict.fromkeys(look(case))) for symptom, look in _SYMPTOMS.items()}
    there = {symptom for symptom, facts in found.items() if facts}
    shown = tuple(one for one in found if one in there and not there & _PART_OF.get(one, set()))
    facts = tuple(fact for told in found.values() for fact in told)
    return Answer(shown, facts, names=names) if shown else replace(_nothing(case), names=names)


def _ended_lately(case: Case, interval: FindingInterval) -> bool:
    ended_ms = interval.ended_ms
    is_lately = ended_ms is not None and case.now_ms - ended_ms <= _LATELY_MS
    return is_lately and interval.finding.severity is not Severity.INFO


def _stands_still(case: Case) -> Answer | None:
    """Heartbeats go on in a job that hangs, and detectors find it only when they look the next time."""
    attempt = max((one.attempt for one in case.file.steps), default=0)
    lately = [one for one in case.file.steps if one.attempt == attempt and one.end_ms]
    if not lately:
        return None
    ended_ms = max(one.end_ms[-1] for one in lately)
    for_ms = case.now_ms - ended_ms
    if for_ms <= max(_TELLS_MS, _LONG * max(max(one.ms) for one in lately)):
        return None
    what = f"whether {case.file.subject.name} goes on: its ranks are heard, and no step has ended for a while"
    fact = Fact(f"no step has ended for {for_ms // 1000:,} s", "records of the run", ended_ms)
    remedy = "ask again in half a minute: detectors tell a long pause from a job that hangs"
    return Answer(("nothing",), (fact,), _UNTOLD, missing=(Missing(what, remedy),))


def _nothing(case: Case) -> Answer:
    """That it goes on is sure only where somebody tells of it: a job that hangs keeps its GPUs busy."""
    if case.file.subject.kind == "node" or not any(wants_accelerator(pod) for pod in case.pods):
        return Answer(("nothing",))
    if any(one.to_ms is None and one.phase in _OVER for one in case.file.phases):
        return Answer(("nothing",))
    if over := [one for one in case.file.findings if _ended_lately(case, one)]:
        return Answer(("nothing",), tuple(facts_of(one)[0] for one in over[:_FEW]), _JUST_OVER)
    heard = [one.heard_ms for one in case.lives if one.step is not None]
    if heard and case.now_ms - max(heard) <= _TELLS_MS:
        if (still := _stands_still(case)) is not None:
            return still
        return Answer(
            ("nothing",), (Fact("its ranks tell of their steps", "records of the run", max(heard)),)
        )
    served = [one.t_ms[-1] for one in case.series("inference-requests") if one.t_ms]
    if served and case.now_ms - max(served) <= _TELLS_MS:
        return Answer(("nothing",), (Fact("it answers requests", "metrics of the server", max(served)),))
    name = case.file.subject.name
    remedy = "have it call trilens.init(); of a server, have its metrics scraped (docs/serving.md)"
    return Answer(("nothing",), confidence=_UNTOLD, missing=(Missing(f"whether {name} goes on", remedy),))
