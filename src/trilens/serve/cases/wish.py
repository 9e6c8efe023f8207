"""What somebody asks: about whom, and since when. An incident stands for whom it hits, in its time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.alert.incidents.causes import Trouble, trouble_of_alert
from trilens.model.errors import RequestError

if TYPE_CHECKING:
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
        named = next(((one, name) for one in subjects if (name := _written(one))), None)
        if named is None:
            raise RequestError(f"the incident {incident.id} is about no workload, pod or node")
        subject, written = named
        to_ms, from_ms = self.to_ms, self.from_ms
        if not _is_weakness(incident, subject):
            from_ms = min(from_ms, incident.onset_ms - _BEFORE_MS)
        if incident.resolved_ms is not None:
            to_ms = min(to_ms, incident.resolved_ms + _AFTER_MS)
            from_ms = incident.onset_ms - _BEFORE_MS
        return Wish(written, None, max(from_ms, to_ms - MOST_MS), to_ms, self.executes)


def _is_weakness(incident: Incident, subject: Subject) -> bool:
    """That may last for weeks, in which other things went wrong. Of a node also where no more is left of it:
    a fault that stands is told of a node however old it is."""
    told = incident.symptoms[:1]
    if subject.workload is None and subject.pod is None:
        told = tuple(one for one in incident.symptoms if one.ended_ms is None)
    # The labels of a finding say what it is, too.
    troubles = {trouble_of_alert(dict(one.labels)) for one in told}
    return troubles == {Trouble.WEAKNESS}


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
