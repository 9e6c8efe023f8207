"""Jobs of Kubernetes itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.resolve.kube_state.sample import (
    StateSample,
    condition_statuses,
    conditions_of,
    count,
    created,
    given,
    moment,
    owners,
)
from trilens.resolve.reading import section, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.kubernetes import KubeObject

_FAILURES: Final = ("BackoffLimitExceeded", "DeadlineExceeded", "Evicted")


def job_labels(job: KubeObject) -> dict[str, str]:
    return {"namespace": job.namespace, "job_name": job.name}


def job_samples(job: KubeObject) -> Iterator[StateSample]:
    spec, status = section(job.body, "spec"), section(job.body, "status")
    yield StateSample("kube_job_info", 1)
    yield from created("kube_job_created", job)
    yield from owners("kube_job_owner", job)
    yield from given("kube_job_spec_parallelism", spec, "parallelism")
    yield from given("kube_job_spec_completions", spec, "completions")
    yield from given("kube_job_spec_active_deadline_seconds", spec, "activeDeadlineSeconds")
    yield from count("kube_job_status_active", status, "active")
    yield from count("kube_job_status_ready", status, "ready")
    yield from count("kube_job_status_succeeded", status, "succeeded")
    yield from _failed(job)
    yield from moment("kube_job_status_start_time", status.get("startTime"))
    yield from moment("kube_job_status_completion_time", status.get("completionTime"))
    for condition in conditions_of(job, "Complete"):
        yield from condition_statuses("kube_job_complete", text(condition, "status"), "condition")
    for condition in conditions_of(job, "Failed"):
        yield from condition_statuses("kube_job_failed", text(condition, "status"), "condition")
    for condition in conditions_of(job, "Suspended"):
        yield StateSample("kube_job_status_suspended", float(text(condition, "status") == "True"))


def _failed(job: KubeObject) -> Iterator[StateSample]:
    """The number of failed pods; once the Job has failed for a known reason, 1 for that and 0 for others."""
    reasons = [text(condition, "reason") for condition in conditions_of(job, "Failed")]
    for failed in count("kube_job_status_failed", section(job.body, "status"), "failed"):
        if not failed.value:
            yield failed
            continue
        for known in _FAILURES if reasons else ():
            yield StateSample("kube_job_status_failed", float(known in reasons), {"reason": known})
        if not any(reason in _FAILURES for reason in reasons):
            yield failed
