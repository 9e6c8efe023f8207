"""The containers of a pod: what they are, what they ask for, how they are doing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilens.resolve.kube_state.quantity import amounts
from trilens.resolve.kube_state.sample import StateSample, count, moment
from trilens.resolve.reading import items, section, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from trilens.model.kubernetes import KubeObject


def container_samples(pod: KubeObject) -> Iterator[StateSample]:
    spec, status = section(pod.body, "spec"), section(pod.body, "status")
    node = text(spec, "nodeName")
    for prefix, specs, statuses in (
        ("kube_pod_container", "containers", "containerStatuses"),
        ("kube_pod_init_container", "initContainers", "initContainerStatuses"),
    ):
        asked = {text(container, "name"): container for container in items(spec, specs)}
        for name, container in asked.items():
            whose = {"container": name, "node": node}
            resources = section(container, "resources")
            yield from amounts(f"{prefix}_resource_requests", section(resources, "requests"), whose)
            yield from amounts(f"{prefix}_resource_limits", section(resources, "limits"), whose)
        for found in items(status, statuses):
            name = text(found, "name")
            if name in asked:
                yield _info(prefix, asked[name], found)
            yield from _status(prefix, {"container": name}, found)


def _info(prefix: str, container: Mapping[str, Any], found: Mapping[str, Any]) -> StateSample:
    labels = {
        "container": text(found, "name"),
        "image_spec": text(container, "image"),
        "image": text(found, "image"),
        "image_id": text(found, "imageID"),
        "container_id": text(found, "containerID"),
    }
    if prefix == "kube_pod_init_container":
        labels["restart_policy"] = text(container, "restartPolicy")
    return StateSample(f"{prefix}_info", 1, labels)


def _status(prefix: str, whose: Mapping[str, str], found: Mapping[str, Any]) -> Iterator[StateSample]:
    state = section(found, "state")
    yield StateSample(f"{prefix}_status_ready", float(found.get("ready") is True), whose)
    for restarts in count(f"{prefix}_status_restarts_total", found, "restartCount"):
        yield restarts._replace(labels=whose)
    for name in ("waiting", "running", "terminated"):
        yield StateSample(f"{prefix}_status_{name}", float(isinstance(state.get(name), dict)), whose)
    for name in ("waiting", "terminated"):  # only while it is so: a series for each reason would be many
        if isinstance(state.get(name), dict):
            reason = text(section(state, name), "reason")
            yield StateSample(f"{prefix}_status_{name}_reason", 1, {**whose, "reason": reason})
    for name in ("running", "terminated"):
        yield from moment(f"{prefix}_state_started", section(state, name).get("startedAt"), whose)
    yield from _last_end(prefix, whose, section(found, "lastState", "terminated"))


def _last_end(prefix: str, whose: Mapping[str, str], ended: Mapping[str, Any]) -> Iterator[StateSample]:
    if not ended:
        return
    last = f"{prefix}_status_last_terminated"
    yield StateSample(f"{last}_reason", 1, {**whose, "reason": text(ended, "reason")})
    for code in count(f"{last}_exitcode", ended, "exitCode"):
        yield code._replace(labels=whose)
    yield from moment(f"{last}_timestamp", ended.get("finishedAt"), whose)
