"""A workload's life told step by step: its objects change, and the resolver looks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from small_jobs import make, make_pod

from kube_objects import KeptIntervals, MadeObjects, Manifest, at, at_ms, resolver, to_object

if TYPE_CHECKING:
    from trilens.model.life import PhaseInterval
    from trilens.resolve.resolver import ClusterResolver


class Story:
    """One workload's objects, changed step by step."""

    def __init__(self, **ownership: Any) -> None:
        self.made = MadeObjects()
        self.sink = KeptIntervals()
        self.resolver: ClusterResolver = resolver(self.sink, **ownership)

    def at(self, seconds: float, *manifests: Manifest) -> PhaseInterval | None:
        """Tell these and look; returns the phase of the only workload."""
        for manifest in manifests:
            self.resolver.changed(to_object(manifest))
        self.resolver.settle(at_ms(seconds))
        found = [self.resolver.phase(key) for key in self.resolver.workloads()]
        return found[0] if found else None

    def without(self, seconds: float, *manifests: Manifest) -> PhaseInterval | None:
        for manifest in manifests:
            self.resolver.removed(to_object(manifest))
        return self.at(seconds)

    @property
    def told(self) -> list[tuple[str, float]]:
        """Every phase with the second it began."""
        return [
            (interval.phase.value, (interval.from_ms - at_ms(0)) / 1000)
            for interval in sorted(
                self.sink.phases.values(), key=lambda one: (one.from_ms, one.to_ms or 1 << 60)
            )
        ]


def condition(
    type_: str, seconds: float, reason: str = "", status: str = "True", message: str = ""
) -> Manifest:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at(seconds),
    }


def job(story: Story, **more: Any) -> Manifest:
    return make(
        story.made, "batch/v1", "Job", "train", spec={"parallelism": 2, **more.pop("spec", {})}, **more
    )


def pod(story: Story, owner: Manifest | None, index: int, created: float = 0, **meta: Any) -> Manifest:
    labels = {"batch.kubernetes.io/job-completion-index": str(index)}
    return make_pod(
        story.made, f"train-{index}-{created:g}", owner, labels, creationTimestamp=at(created), **meta
    )


def unschedulable(
    manifest: Manifest, message: str = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
) -> Manifest:
    manifest["status"] = {
        "phase": "Pending",
        "conditions": [condition("PodScheduled", 0, "Unschedulable", "False", message)],
    }
    return manifest


def scheduled(
    manifest: Manifest, seconds: float, waiting: str = "ContainerCreating", node: str = "n1"
) -> Manifest:
    manifest["spec"]["nodeName"] = node
    manifest["status"] = {
        "phase": "Pending",
        "conditions": [condition("PodScheduled", seconds), condition("Ready", seconds, status="False")],
        "containerStatuses": [{"name": "main", "state": {"waiting": {"reason": waiting}}}],
    }
    return manifest


def running(manifest: Manifest, seconds: float, scheduled_at: float = 0, node: str = "n1") -> Manifest:
    manifest["spec"]["nodeName"] = node
    manifest["status"] = {
        "phase": "Running",
        "conditions": [condition("PodScheduled", scheduled_at), condition("Ready", seconds)],
        "containerStatuses": [{"name": "main", "state": {"running": {"startedAt": at(seconds)}}}],
    }
    return manifest


def ended(manifest: Manifest, started: float, finished: float, code: int = 0, reason: str = "") -> Manifest:
    manifest["spec"].setdefault("nodeName", "n1")
    terminated = {
        "exitCode": code,
        "reason": reason or ("Completed" if code == 0 else "Error"),
        "startedAt": at(started),
        "finishedAt": at(finished),
    }
    manifest["status"] = {
        "phase": "Failed" if code else "Succeeded",
        "conditions": [condition("PodScheduled", started - 1)],
        "containerStatuses": [{"name": "main", "state": {"terminated": terminated}}],
    }
    return manifest


def event(story: Story, about: Manifest, reason: str, seconds: float, message: str = "") -> Manifest:
    return make(
        story.made,
        "v1",
        "Event",
        f"{about['metadata']['name']}.{reason}.{seconds:g}",
        involvedObject={"uid": about["metadata"]["uid"]},
        reason=reason,
        message=message,
        lastTimestamp=at(seconds),
    )


def now(interval: PhaseInterval | None) -> tuple[str, str]:
    assert interval is not None
    return interval.phase.value, interval.reason
