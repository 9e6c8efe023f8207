"""What could be done about what is wrong: from verdicts and faults, by tables. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.case_file import SubjectKind
from trilens.diagnose.cure.faults import fault_told
from trilens.model.fix import Deed, FixTarget
from trilens.model.packaged_yaml import packaged_yaml
from trilens.model.verdict import TELL_FROM

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from trilens.diagnose.case_file import CaseFile
    from trilens.model.verdict import Verdict

REMEDIES: Final[Mapping[str, Sequence[Mapping[str, str]]]] = packaged_yaml(
    "trilens.diagnose.cure", "remedies.yml"
)

_FAULT_CONFIDENCE: Final = 0.9  # that a node whose GPU has such a fault should have no new work


class Proposal(NamedTuple):
    deed: Deed
    target: FixTarget
    why: str
    source: str
    confidence: float


def proposals(case: CaseFile, verdicts: Sequence[Verdict]) -> list[Proposal]:
    """The surest first; each deed to each target once. Guesses propose nothing."""
    found: dict[tuple[Deed, FixTarget], Proposal] = {}
    for one in (*_of_verdicts(case, verdicts), *_of_faults(case)):
        found.setdefault((one.deed, one.target), one)
    return sorted(found.values(), key=lambda one: -one.confidence)


def _of_verdicts(case: CaseFile, verdicts: Iterable[Verdict]) -> Iterator[Proposal]:
    for verdict in verdicts:
        if verdict.confidence < TELL_FROM:
            continue
        for remedy in REMEDIES.get(verdict.cause, ()):
            target = _target(case, verdict, remedy["to"])
            if target is not None:
                source = f"verdict {verdict.cause}"
                yield Proposal(Deed(remedy["do"]), target, verdict.text, source, verdict.confidence)


def _of_faults(case: CaseFile) -> Iterator[Proposal]:
    for event in case.events:
        fault = fault_told(event)
        if fault is not None and fault.node:
            target = _node(case.subject.cluster, fault.node)
            yield Proposal(Deed.CORDON, target, fault.why, fault.source, _FAULT_CONFIDENCE)


def _target(case: CaseFile, verdict: Verdict, to: str) -> FixTarget | None:
    blamed, subject = verdict.subject, case.subject
    if to == "node":
        is_node = subject.kind is SubjectKind.NODE
        name = blamed.node or (subject.name if is_node else _node_of(case, verdict))
        return _node(subject.cluster, name) if name else None
    if to == "pod":
        if blamed.pod is not None:
            return FixTarget(subject.cluster, "", "Pod", blamed.pod.namespace, blamed.pod.name)
        if subject.kind is SubjectKind.POD:
            return FixTarget(subject.cluster, "", "Pod", subject.namespace, subject.name)
        return None
    key = blamed.workload or (case.workloads[0].key if len(case.workloads) == 1 else None)
    return FixTarget(key.cluster, key.group, key.kind, key.namespace, key.name) if key else None


def _node_of(case: CaseFile, verdict: Verdict) -> str | None:
    """Of the pod that it blames, or of the only pod there is."""
    pod = verdict.subject.pod
    nodes = {one.node for one in case.members if one.node and (pod is None or one.membership.pod == pod)}
    return nodes.pop() if len(nodes) == 1 else None


def _node(cluster: str, name: str) -> FixTarget:
    return FixTarget(cluster, "", "Node", "", name)
