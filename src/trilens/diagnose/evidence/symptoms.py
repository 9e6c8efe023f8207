"""What shows of a case at first sight: which of the trees are worth asking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.daemons import Daemon, DaemonState, on_node
from trilens.diagnose.evidence.gpu_access import gpu_events, node_name
from trilens.diagnose.evidence.gpu_inside import log_signs
from trilens.diagnose.evidence.starting import refused_since
from trilens.diagnose.evidence.telemetry_path import expects_gpus, gpus_heard, target_says, telemetry_findings
from trilens.diagnose.scheduling.nodes import nodes_of
from trilens.diagnose.scheduling.waiting import not_started, without_node
from trilens.diagnose.trouble import crashed, gpu_failed, hangs, is_slower, learns_badly, serves_slowly
from trilens.model.finding import FindingKind
from trilens.model.life import Phase
from trilens.model.verdict import Fact, Missing
from trilens.resolve.accelerators import is_accelerator, wants_accelerator
from trilens.resolve.events import happened_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from trilens.diagnose.case import Case

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
            f"pods were refused, {len(refused)} times", "events of its controller", happened_ms(refused[-1])
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
        if on_node(case, Daemon.DEVICE_PLUGIN, node).state in (DaemonState.MISSING, DaemonState.FAILING):
            yield Fact(f"the device plugin does not run on {node}", "the pods there")


def _blind(case: Case) -> Iterator[Fact]:
    for one in telemetry_findings(case):
        yield Fact(one.finding.text, f"detector {one.finding.code}", one.finding.onset_ms)
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
    "service": serves_slowly,
    "blind": _blind,
}
# What shows beside one of these is a part of it: whoever has fallen makes the others wait.
_PART_OF: Final = {
    "hang": {"crashed"},
    "gpu-fault": {"crashed", "hang"},
    "slower": {"crashed", "hang"},
    "service": {"crashed"},
}


@evidence(*_SYMPTOMS, "nothing")
def what_shows(case: Case) -> Answer:
    file = case.file
    names = {"subject": file.subject.name}
    if not (file.members or file.objects or file.ranks or file.gpus):
        missing = (Missing(f"all of {file.subject.name}", "run trilens doctor"),)
        return Answer((UNKNOWN,), names=names, missing=missing)
    found = {symptom: tuple(dict.fromkeys(look(case))) for symptom, look in _SYMPTOMS.items()}
    there = {symptom for symptom, facts in found.items() if facts}
    shown = tuple(one for one in found if one in there and not there & _PART_OF.get(one, set()))
    facts = tuple(fact for told in found.values() for fact in told)
    return Answer(shown or ("nothing",), facts, names=names)
