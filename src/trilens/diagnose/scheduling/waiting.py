"""The pods of a case that do not run yet, and all that was said of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.diagnose.scheduling.messages import Blocked, read_message
from trilens.model.verdict import Fact
from trilens.model.workload import PodKey
from trilens.resolve.events import happened_ms
from trilens.resolve.reading import conditions, section, text, time_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from trilens.diagnose.case import Case
    from trilens.model.kubernetes import KubeObject

POD_GROUPS: Final = (
    "scheduling.volcano.sh",
    "scheduling.run.ai",
    "scheduling.x-k8s.io",
    "scheduling.sigs.k8s.io",
    "scheduling.k8s.io",
)
_OF_GROUPS: Final = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "pod-group-name",
)
_AUTOSCALERS: Final = ("cluster-autoscaler", "karpenter")
_FROM_SCHEDULERS: Final = frozenset(
    {"FailedScheduling", "Unschedulable", "PodGroupPending", "FilteringFailed"}
)
_OVER: Final = ("Succeeded", "Failed")


class Word(NamedTuple):
    """One thing that somebody said."""

    blocked: Blocked
    fact: Fact


class EventWord(NamedTuple):
    reason: str
    message: str
    reporter: str
    t_ms: int


def pod_key(pod: KubeObject) -> PodKey:
    return PodKey(pod.cluster, pod.namespace, pod.name, pod.uid)


def node_of(pod: KubeObject) -> str:
    return text(section(pod.body, "spec"), "nodeName")


def without_node(case: Case) -> list[KubeObject]:
    return [
        pod
        for pod in case.pods
        if not node_of(pod) and text(section(pod.body, "status"), "phase") not in _OVER
    ]


def not_started(case: Case) -> list[KubeObject]:
    """They have a node, and none of their containers has ever run."""
    found = []
    for pod in case.pods:
        status = section(pod.body, "status")
        is_refused = text(status, "reason") in ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu")
        if node_of(pod) and (text(status, "phase") == "Pending" or is_refused):
            found.append(pod)
    return found


def since_ms(pod: KubeObject) -> int:
    scheduled = next((one for one in conditions(pod) if one.type == "PodScheduled"), None)
    if scheduled is not None and scheduled.since_ms is not None:
        return scheduled.since_ms
    return time_ms(section(pod.body, "status").get("startTime")) or pod.created_ms


def event_words(case: Case, obj: KubeObject) -> list[EventWord]:
    """The latest of each reporter and reason, the latest last."""
    latest: dict[tuple[str, str], EventWord] = {}
    for event in case.events_about(obj):
        reporter = text(event.body, "reportingComponent") or text(section(event.body, "source"), "component")
        message = text(event.body, "message") or text(event.body, "note")
        one = EventWord(text(event.body, "reason"), message, reporter, happened_ms(event))
        key = (reporter, one.reason)
        if key not in latest or latest[key].t_ms <= one.t_ms:
            latest[key] = one
    return sorted(latest.values(), key=lambda one: one.t_ms)


def scheduler_words(case: Case, pod: KubeObject) -> list[Word]:
    """Of the pod, and of the group that it belongs to."""
    found: list[Word] = []
    for obj in (pod, *_groups(case, pod)):
        found += _of_schedulers(case, obj)
    return list({word.blocked: word for word in found}.values())


def first_waiting(case: Case) -> KubeObject | None:
    """The one that tells most: schedulers try a gang's members one by one, and stop at the first."""
    pods = sorted(without_node(case), key=lambda pod: pod.name)
    return max(pods, key=lambda pod: len(scheduler_words(case, pod)), default=None)


def autoscaler_words(case: Case, pod: KubeObject) -> list[Word]:
    """The latest last."""
    return [
        Word(one, Fact(said.message, _source(said, pod), said.t_ms))
        for said in event_words(case, pod)
        if _is_autoscaler(said)
        for one in read_message(said.message, reporter=said.reporter, reason=said.reason)
    ]


def group_of(case: Case, pod: KubeObject) -> KubeObject | None:
    return next(iter(_groups(case, pod)), None)


def group_name(pod: KubeObject) -> str:
    marks = (*pod.annotations.items(), *pod.labels.items())
    return next((value for name, value in marks if name in _OF_GROUPS), "")


def _groups(case: Case, pod: KubeObject) -> Iterator[KubeObject]:
    name = group_name(pod)
    for group in POD_GROUPS:
        for one in case.of_kind(group, "PodGroup"):
            if name and (one.namespace, one.name) == (pod.namespace, name):
                yield one


def _of_schedulers(case: Case, obj: KubeObject) -> Iterator[Word]:
    said = [
        one for one in event_words(case, obj) if one.reason in _FROM_SCHEDULERS and not _is_autoscaler(one)
    ]
    # Each reporter's latest: what it said before may hold no longer.
    for one in {each.reporter: each for each in said}.values():
        fact = Fact(one.message, _source(one, obj), one.t_ms)
        for blocked in read_message(one.message, reporter=one.reporter, reason=one.reason):
            yield Word(blocked, fact)
    if said:
        return
    for condition in _refusals(obj):
        fact = Fact(
            condition.message, f"status of {obj.kind} {obj.name}: {condition.type}", condition.since_ms
        )
        for blocked in read_message(condition.message, reason=condition.reason):
            yield Word(blocked, fact)


class _Refusal(NamedTuple):
    type: str
    reason: str
    message: str
    since_ms: int | None


def _refusals(obj: KubeObject) -> Iterable[_Refusal]:
    """Events are forgotten within the hour; the condition stays."""
    for one in conditions(obj):
        is_refusal = (one.type == "PodScheduled" and not one.holds) or (
            one.type == "Unschedulable" and one.holds
        )
        if is_refusal and one.message:
            yield _Refusal(one.type, one.reason, one.message, one.since_ms)


def _is_autoscaler(said: EventWord) -> bool:
    return (
        any(name in said.reporter for name in _AUTOSCALERS)
        or said.reason in ("NotTriggerScaleUp", "TriggeredScaleUp", "Nominated")
        or "predicate checking error" in said.message
    )


def _source(said: EventWord, obj: KubeObject) -> str:
    return f"event {said.reason} of {obj.kind} {obj.name}, by {said.reporter or 'somebody'}"


def names(pods: Sequence[KubeObject]) -> str:
    listed = ", ".join(pod.name for pod in pods[:3])
    return f"{listed} and {len(pods) - 3} more" if len(pods) > 3 else listed
