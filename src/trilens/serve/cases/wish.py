"""What somebody asks: about whom, and since when. An incident stands for whom it hits, in its time,
and a node that is in trouble is asked about since that began."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.case_file import SubjectKind
from trilens.model.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.diagnose.case_file import CaseSubject
    from trilens.model.finding import Subject
    from trilens.model.incident import Incident
    from trilens.model.workload import WorkloadKey

INCIDENT: Final = re.compile(r"\d{8}-\d{4}-[0-9a-f]+")
MOST_MS: Final = 7 * 24 * 3_600_000  # a case is about now: of more than that there would be too much
_BEFORE_MS: Final = 1_800_000  # how it was while it went well
_AFTER_MS: Final = 300_000  # what is told of an end comes a little later


class Wish(NamedTuple):
    written: str
    namespace: str | None
    from_ms: int
    to_ms: int
    executes: bool = False  # whether commands may be run in its containers

    def of_incident(self, incident: Incident) -> Wish:
        """About the first of its symptoms that names a workload, a pod or a node: the root is asked first."""
        subjects = [incident.subject, *(one.subject for one in incident.symptoms)]
        written = next(filter(None, map(_written, subjects)), None)
        if written is None:
            raise RequestError(f"the incident {incident.id} is about no workload, pod or node")
        to_ms, from_ms = self.to_ms, min(self.from_ms, incident.onset_ms - _BEFORE_MS)
        if incident.resolved_ms is not None:
            to_ms = min(to_ms, incident.resolved_ms + _AFTER_MS)
            from_ms = incident.onset_ms - _BEFORE_MS
        return Wish(written, None, max(from_ms, to_ms - MOST_MS), to_ms, self.executes)

    def since_trouble(self, subject: CaseSubject, lasting: Iterable[Incident]) -> Wish:
        """Of a node: from before the first incident that is about it and lasts. What broke it was told once,
        and may be hours old."""
        if subject.kind is not SubjectKind.NODE:
            return self
        onsets = [one.onset_ms for one in lasting if _is_about(one.subject, subject)]
        began_ms = min([one for one in onsets if one <= self.to_ms], default=None)
        if began_ms is None:
            return self
        from_ms = min(self.from_ms, began_ms - _BEFORE_MS)
        return self._replace(from_ms=max(from_ms, self.to_ms - MOST_MS))


def _is_about(root: Subject, node: CaseSubject) -> bool:
    cluster = root.workload.cluster if root.workload is not None else root.cluster
    return root.node == node.name and node.may_be_in(cluster)


def whole_name(key: WorkloadKey) -> str:
    """Which is never ambiguous."""
    kind = f"{key.kind}.{key.group}" if key.group else key.kind
    return f"{key.cluster}/{key.namespace}/{kind}/{key.name}"


def _written(subject: Subject) -> str | None:
    if subject.workload is not None:
        return whole_name(subject.workload)
    if (pod := subject.pod) is not None:
        return f"{pod.cluster}/{pod.namespace}/pod/{pod.name}"
    if subject.node is None:
        return None
    return f"{subject.cluster}/node/{subject.node}" if subject.cluster else f"node/{subject.node}"
