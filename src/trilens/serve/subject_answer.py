"""Whom a finding, a symptom or an incident is about, as the API answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from trilens.serve.event_answers import WorkloadName

if TYPE_CHECKING:
    from trilens.model.finding import Subject


class SubjectAnswer(msgspec.Struct, frozen=True):
    """Whom it is about. Null is what it does not concern, or nobody knows."""

    workload: WorkloadName | None
    team: str | None
    run: str | None
    job_name: str | None
    rank: int | None
    cluster: str | None
    namespace: str | None
    pod: str | None
    node: str | None
    gpu: str | None
    gpu_number: str | None


def subject_answer(subject: Subject) -> SubjectAnswer:
    workload, pod = subject.workload, subject.pod
    return SubjectAnswer(
        WorkloadName(*workload) if workload is not None else None,
        subject.team,
        subject.run,
        subject.job_name,
        subject.rank,
        subject.known_cluster or None,
        workload.namespace if workload is not None else pod.namespace if pod is not None else None,
        pod.name if pod is not None else None,
        subject.node,
        subject.gpu,
        subject.gpu_number,
    )
