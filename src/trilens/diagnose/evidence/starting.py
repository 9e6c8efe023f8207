"""How far the pods of a case have come: made, placed, started; and who stopped them there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.scheduling.waiting import (
    event_words,
    names,
    node_of,
    not_started,
    pod_key,
    since_ms,
    without_node,
)
from trilens.model.finding import Subject
from trilens.model.verdict import Fact, Missing
from trilens.resolve.events import about_whom, happened_ms
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.case import Case
    from trilens.model.kubernetes import KubeObject

_EXCEEDED: Final = re.compile(
    r"exceeded quota: (?P<quota>[^,]+), requested: (?P<asked>.*?), used: (?P<used>.*?), "
    r"limited: (?P<hard>.*?)(?:$|\s)"
)
_REFUSED: Final = re.compile(r"forbidden|denied the request|admission webhook|must specify|is invalid")
_GPU_TROUBLE: Final = re.compile(
    r"nvidia|no healthy devices|unhealthy devices|could not select device driver|runtime handler",
    re.IGNORECASE,
)
_IMAGE: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "RegistryUnavailable",
)
_CONFIG: Final = ("CreateContainerConfigError",)
_CREATE: Final = ("CreateContainerError", "RunContainerError")


@evidence("waiting", "placed", "short", "none", "running")
def pods_made(case: Case) -> Answer:
    waiting, placed = without_node(case), not_started(case)
    if not case.pods:
        # Some that are there may not have been read.
        if not case.file.workloads or any(one.to_ms is None for one in case.file.members):
            return Answer.unknown(Missing("its pods", 'allow "list" on pods: trilens kubernetes rbac'))
        name = case.file.subject.name
        told = {"workload": name, "kind": _resource_of(case)}
        return Answer(("none",), (Fact(f"{name} has no pods", "the API server"),), names=told)
    told = {
        "pod": names(waiting or placed or list(case.pods)),
        "workload": case.file.subject.name,
        "kind": _resource_of(case),
    }
    said = (
        f"without a node: {names(waiting)}" if waiting else "",
        f"with a node, and not started: {names(placed)}" if placed else "",
    )
    fact = Fact("; ".join(filter(None, said)) or f"all {len(case.pods)} run", "status of the pods")
    short = refused_since(case)
    shown = (("waiting", waiting), ("placed", placed), ("short", short))
    values = tuple(value for value, found in shown if found) or ("running",)
    began = min(map(since_ms, (*waiting, *placed)), default=None)
    return Answer(values, (fact,), names=told, since_ms=began)


@evidence("quota", "refused", "suspended", "quiet")
def pods_refused(case: Case) -> Answer:
    """Of a workload without pods: what its controller says when it tries to make them."""
    refusals = sorted(_creations(case), key=happened_ms)
    for event in reversed(refusals):
        said = text(event.body, "message") or text(event.body, "note")
        about = about_whom(event)
        fact = Fact(
            said, f"event {text(event.body, 'reason')} of {about.kind} {about.name}", happened_ms(event)
        )
        if (found := _EXCEEDED.search(said)) is not None:
            quota = found["quota"].strip()
            facts = (fact, *_quota_facts(case, quota))
            return Answer(("quota",), facts, names=found.groupdict(), since_ms=happened_ms(refusals[0]))
        if _REFUSED.search(said):
            return Answer(("refused",), (fact,), names={"said": said}, since_ms=happened_ms(refusals[0]))
    for obj in case.file.objects:
        path = _suspended_by(obj) if obj.name == case.file.subject.name else None
        if path is not None:
            setting = ".".join(path)
            fact = Fact(f"{setting} is true", f"{obj.kind} {obj.name}")
            patch = "".join(f'{{"{key}":' for key in path) + "false" + "}" * len(path)
            # A queue suspends it as well, and somebody who has not seen that queue cannot tell.
            is_queued = any("queue" in label for label in obj.labels)
            return Answer(
                ("suspended",), (fact,), 0.6 if is_queued else 1.0, {"setting": setting, "patch": patch}
            )
    return Answer(("quiet",))


@evidence("image", "pulling", "mount", "config", "device", "sandbox", "starting")
def start_says(case: Case) -> Answer:
    """Of a pod that has a node: what its kubelet waits for."""
    pods = sorted(not_started(case), key=lambda pod: pod.name)
    if not pods:
        return Answer.unknown(Missing("a pod that does not start", "ask while it is pending"))
    found = [(pod, *_waits_for(case, pod)) for pod in pods]
    # One that says what is wrong tells more than one that is only on its way.
    pod, value, fact = min(found, key=lambda one: one[1] in ("starting", "pulling"))
    told = {
        "pod": f"{pod.namespace}/{pod.name}",
        "pod_name": pod.name,
        "node": node_of(pod),
        "said": fact.text if fact else "",
        "image": _image(pod),
    }
    subject = Subject(pod=pod_key(pod), node=node_of(pod) or None, cluster=pod.cluster)
    return Answer((value,), (fact,) if fact else (), names=told, subject=subject, since_ms=since_ms(pod))


def _suspended_by(obj: KubeObject) -> tuple[str, ...] | None:
    """Where it says that nobody shall make its pods: Kubeflow's jobs have it elsewhere than all others."""
    for path in (("spec",), ("spec", "runPolicy")):
        if section(obj.body, *path).get("suspend") is True:
            return (*path, "suspend")
    return None


def _resource_of(case: Case) -> str:
    """What kubectl calls its kind: job.batch."""
    if case.workload is None:
        return "pod"
    key = case.workload.key
    return f"{key.kind.lower()}.{key.group}" if key.group else key.kind.lower()


def refused_since(case: Case) -> list[KubeObject]:
    """What was said of refused pods after the last one was made: it wants more than it has."""
    last_ms = max((pod.created_ms for pod in case.pods), default=0)
    return [
        event
        for event in _creations(case)
        if happened_ms(event) > last_ms
        and _REFUSED.search(text(event.body, "message") or text(event.body, "note"))
    ]


def _waits_for(case: Case, pod: KubeObject) -> tuple[str, Fact | None]:
    status = section(pod.body, "status")
    source = f"status of Pod {pod.name}"
    if text(status, "reason") in ("UnexpectedAdmissionError", "OutOfnvidia.com/gpu"):
        return "device", Fact(text(status, "message") or text(status, "reason"), source)
    for key in ("containerStatuses", "initContainerStatuses"):
        for one in items(status, key):
            waiting = section(one, "state", "waiting")
            reason = text(waiting, "reason")
            fact = Fact(f"{text(one, 'name')}: {reason}: {text(waiting, 'message')}", source)
            if reason in _IMAGE:
                return "image", fact
            if reason in _CONFIG:
                return "config", fact
            if reason in _CREATE:
                return ("device" if _GPU_TROUBLE.search(fact.text) else "config"), fact
    said = event_words(case, pod)
    for word in reversed(said):
        fact = Fact(word.message, f"event {word.reason} of Pod {pod.name}, by {word.reporter}", word.t_ms)
        if word.reason in ("FailedMount", "FailedAttachVolume", "FailedMapVolume"):
            return "mount", fact
        if word.reason == "FailedCreatePodSandBox":
            return ("device" if _GPU_TROUBLE.search(word.message) else "sandbox"), fact
        if word.reason == "UnexpectedAdmissionError":
            return "device", fact
        if word.reason == "Failed" and "image" in word.message:
            return "image", fact
        if word.reason == "Pulling":
            return "pulling", fact
        if word.reason in ("Pulled", "Created", "Started"):
            break
    return "starting", None


def _creations(case: Case) -> Iterator[KubeObject]:
    """What was said about making the workload's pods: of it, or of what stands between it and them."""
    name = case.file.subject.name
    for group in ("", "events.k8s.io"):
        for event in case.of_kind(group, "Event"):
            about = about_whom(event)
            is_own = about.name == name or about.name.startswith(f"{name}-")
            if is_own and about.kind != "Pod" and text(event.body, "reason").startswith("Failed"):
                yield event


def _quota_facts(case: Case, name: str) -> Iterator[Fact]:
    for quota in case.of_kind("", "ResourceQuota"):
        if quota.name == name:
            hard, used = section(quota.body, "status", "hard"), section(quota.body, "status", "used")
            for resource in sorted(hard):
                text_ = f"{resource}: {used.get(resource, '0')} of {hard[resource]} used"
                yield Fact(text_, f"ResourceQuota {name}")


def _image(pod: KubeObject) -> str:
    images = [text(one, "image") for one in items(section(pod.body, "spec"), "containers")]
    return ", ".join(dict.fromkeys(one for one in images if one))
