"""What queues say that hold a job back before any scheduler sees it: Kueue."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import UNKNOWN, Answer, evidence
from trilens.diagnose.scheduling.messages import Blocker, read_message
from trilens.diagnose.scheduling.waiting import event_words
from trilens.model.verdict import Fact, Missing
from trilens.resolve.reading import condition, conditions, items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.diagnose.case import Case
    from trilens.model.kubernetes import KubeObject

_GROUP: Final = "kueue.x-k8s.io"
_QUEUE_LABEL: Final = f"{_GROUP}/queue-name"
_SHORT: Final = re.compile(
    r"quota for (?P<resource>\S+) in flavor (?P<flavor>[^\s,.]+), (?P<more>\S+) more needed"
)
_ABOUT: Final = re.compile(
    r"(?:quota for|resource) (?P<resource>[\w.-]*[/\w-]+)(?: in flavor (?P<flavor>[^\s,.]+))?"
)
_PREEMPTED: Final = "Preempted"  # why Kueue has evicted it
_NEVER: Final = re.compile(r"\((?P<asked>[^ ]+) > (?P<most>[^)]+)\)")

_ANSWERS: Final[Mapping[Blocker, str]] = {
    Blocker.QUOTA: "quota",
    Blocker.QUOTA_PENDING_PREEMPTION: "preempting",
    Blocker.QUOTA_NEVER: "never",
    Blocker.QUEUE_INACTIVE: "inactive",
    Blocker.DEACTIVATED: "deactivated",
    Blocker.TOPOLOGY: "topology",
    Blocker.SELECTOR: "flavor",
    Blocker.TAINT: "flavor",
}


@evidence(*dict.fromkeys(_ANSWERS.values()), "preempted", "check", "admitted", "none")
def queue_says(case: Case) -> Answer:
    queue = _queue_of(case)
    held = list(_workloads(case))
    if not held:
        return _by_events(case, queue)
    workload = held[0]
    queue = text(section(workload.body, "spec"), "queueName") or queue
    told = {**_queue_names(case, queue), "said": "", "record": workload.name}
    source = f"Workload {workload.name} of Kueue"
    if section(workload.body, "spec").get("active") is False:
        return Answer(("deactivated",), (Fact("spec.active is false", source),), names=told)
    admitted = condition(workload, "Admitted")
    if admitted is not None:
        return Answer(
            ("admitted",), (Fact(admitted.message or "admitted", source, admitted.since_ms),), names=told
        )
    evicted = condition(workload, "Evicted")
    if evicted is not None and evicted.reason == _PREEMPTED:
        # It ran, and had to go: what the queue says since is of its second turn.
        told |= {"said": evicted.message or evicted.reason}
        facts = tuple(Fact(one.message, source, one.since_ms) for one in conditions(workload) if one.message)
        return Answer(("preempted",), tuple(dict.fromkeys(facts)), names=told, since_ms=evicted.since_ms)
    for check in items(section(workload.body, "status"), "admissionChecks"):
        if text(check, "state") in ("Pending", "Retry", "Rejected"):
            told |= {
                "check": text(check, "name"),
                "state": text(check, "state"),
                "said": text(check, "message"),
            }
            if condition(workload, "QuotaReserved") is not None:
                fact = Fact(f"{told['check']} is {told['state']}: {told['said']}", source)
                return Answer(("check",), (fact,), names=told)
    for one in conditions(workload):
        if one.type != "QuotaReserved" or one.holds:
            continue
        fact = Fact(one.message, source, one.since_ms)
        told |= {"said": one.message, **_figures(one.message)}
        for blocked in read_message(one.message, reporter="kueue", reason=one.reason):
            value = _ANSWERS.get(blocked.blocker)
            if value is not None:
                told |= {"detail": blocked.detail}
                return Answer(
                    (value,), (fact, *_queue_facts(case, told["queue"])), names=told, since_ms=one.since_ms
                )
    said = Missing(
        "why Kueue has not admitted it", f"kubectl describe workload -n {workload.namespace} {workload.name}"
    )
    return Answer.unknown(said)


def _by_events(case: Case, queue: str) -> Answer:
    """Where its Workload cannot be read: what Kueue says of the job itself, or of its pods."""
    told = {**_queue_names(case, queue), "said": ""}
    for obj in (*case.pods, *(one for one in case.file.objects if one.name == case.file.subject.name)):
        for said in reversed([one for one in event_words(case, obj) if "kueue" in one.reporter]):
            for blocked in read_message(said.message, reporter=said.reporter, reason=said.reason):
                if (value := _ANSWERS.get(blocked.blocker)) is not None:
                    told |= {"said": said.message, **_figures(said.message)}
                    fact = Fact(said.message, f"event {said.reason} of {obj.kind} {obj.name}", said.t_ms)
                    return Answer((value,), (fact,), 0.95, told, since_ms=said.t_ms)
    if not queue:
        return Answer(("none",))
    # It names a queue, and Kueue keeps a record of each such job: this one may not be read.
    remedy = f'allow "list" on workloads of {_GROUP}: trilens kubernetes rbac; or see that Kueue runs'
    return Answer((UNKNOWN,), names=told, missing=(Missing("its Workload of Kueue", remedy),))


def _workloads(case: Case) -> Iterator[KubeObject]:
    """Kueue's record of the job: owned by it, or by its pods. The newest first."""
    owners = {one.key.uid for one in case.file.workloads} | {pod.uid for pod in case.pods}
    owners |= {owner.uid for pod in case.pods for owner in pod.owners}
    named = {case.file.subject.name}
    found = [
        one
        for one in case.of_kind(_GROUP, "Workload")
        if any(owner.uid in owners or owner.name in named for owner in one.owners)
        and condition(one, "Finished") is None
    ]
    yield from sorted(found, key=lambda one: -one.created_ms)


def _queue_of(case: Case) -> str:
    marked = [
        one.labels[_QUEUE_LABEL] for one in (*case.pods, *case.file.objects) if _QUEUE_LABEL in one.labels
    ]
    return marked[0] if marked else ""


def _figures(said: str) -> dict[str, str]:
    told = {"resource": "resources", "flavor": "its flavor", "more": "some", "excess": "", "limit": "less"}
    if (short := _SHORT.search(said)) is not None:
        told |= short.groupdict()
    if (never := _NEVER.search(said)) is not None:
        told |= {"excess": f" ({never['asked']} of {never['most']})", "limit": f"at most {never['most']}"}
    if (about := _ABOUT.search(said)) is not None:
        told |= {name: value for name, value in about.groupdict().items() if value}
    return told


def _queue_names(case: Case, queue: str) -> dict[str, str]:
    named = _cluster_queue(case, queue)
    behind = f"ClusterQueue {named}" if named else f"the ClusterQueue behind {queue or 'its queue'}"
    return {"queue": queue or "(not named)", "cluster_queue": behind}


def _cluster_queue(case: Case, queue: str) -> str:
    """Behind a queue of its namespace; "" where nobody told."""
    wanted = (case.file.subject.namespace, queue)
    for local in case.of_kind(_GROUP, "LocalQueue"):
        if (local.namespace, local.name) == wanted:
            return text(section(local.body, "spec"), "clusterQueue")
    return ""


def _queue_facts(case: Case, queue: str) -> Iterator[Fact]:
    """How much of the queue's quota is taken."""
    name = _cluster_queue(case, queue)
    for one in case.of_kind(_GROUP, "ClusterQueue"):
        if not name or one.name != name:
            continue
        waiting = section(one.body, "status").get("pendingWorkloads")
        if waiting is not None:
            yield Fact(f"{waiting} workloads wait in it", f"ClusterQueue {name}")
        for flavor in items(section(one.body, "status"), "flavorsReservation"):
            for resource in items(flavor, "resources"):
                told = f"{text(flavor, 'name')}: {resource.get('total')} {text(resource, 'name')} reserved"
                yield Fact(told, f"ClusterQueue {name}")
