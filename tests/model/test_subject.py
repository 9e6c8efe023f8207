"""Whom something is about, as far as is known."""

from __future__ import annotations

import pytest

from trilens.model.finding import Subject
from trilens.model.workload import PodKey, WorkloadKey

JOB = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
NOWHERE = JOB._replace(cluster="")  # as labels without a cluster name it
POD = PodKey("lab", "ml", "train-0", "u2")


@pytest.mark.parametrize(
    ("subject", "cluster"),
    [
        (Subject(workload=JOB), "lab"),
        (Subject(workload=NOWHERE, cluster="lab"), "lab"),  # of its node
        (Subject(workload=NOWHERE, pod=POD), "lab"),
        (Subject(cluster="lab", node="n1"), "lab"),
        (Subject(pod=POD), "lab"),
        (Subject(workload=NOWHERE, pod=POD._replace(cluster="")), ""),
        (Subject(node="n1"), ""),
    ],
)
def test_its_cluster_is_told_by_whatever_knows_it(subject: Subject, cluster: str) -> None:
    assert subject.known_cluster == cluster
