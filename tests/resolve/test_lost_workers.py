"""A job that has lost some of its pods does not run, whatever its operator has not said yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from small_jobs import make, make_pod
from story import Story, condition, ended, now, running, unschedulable

if TYPE_CHECKING:
    from kube_objects import Manifest

_SPECS = {"PyTorchJob": "pytorchReplicaSpecs", "JAXJob": "jaxReplicaSpecs", "MPIJob": "mpiReplicaSpecs"}


def a_job(story: Story, kind: str = "PyTorchJob", *, status: Any = None, **spec: Any) -> Manifest:
    replicas = {"Worker": {"replicas": 3}}
    spec = {_SPECS[kind]: replicas, **spec}
    return make(story.made, "kubeflow.org/v1", kind, "llm", spec=spec, status=status or {})


def worker(story: Story, own: Manifest, index: int) -> Manifest:
    prefix = "training.kubeflow.org/"
    labels = {f"{prefix}replica-type": "worker", f"{prefix}replica-index": str(index)}
    return make_pod(story.made, f"llm-worker-{index}", own, labels)


@pytest.mark.parametrize("kind", list(_SPECS))
def test_a_worker_that_is_gone_is_a_restart_until_it_is_back(kind: str) -> None:
    story = Story()
    own = a_job(story, kind)
    workers = [running(worker(story, own, index), 10) for index in range(3)]
    assert now(story.at(11, own, *workers)) == ("running", "")
    assert now(story.without(20, workers[2])) == ("restarting", "2 of 3 worker pods are there")
    assert now(story.at(21)) == ("restarting", "2 of 3 worker pods are there")
    assert story.told[-1] == ("restarting", 20)
    assert now(story.at(30, unschedulable(worker(story, own, 2))))[0] == "scheduling"
    assert now(story.at(40, running(worker(story, own, 2), 40))) == ("running", "")


def test_a_worker_that_has_ended_well_is_not_lost() -> None:
    story = Story()
    own = a_job(story)
    workers = [running(worker(story, own, index), 10) for index in range(3)]
    story.at(11, own, *workers)
    assert now(story.at(31, ended(workers[2], 10, 30))) == ("running", "")


def test_pods_that_are_not_made_yet_are_not_lost() -> None:
    story = Story()
    own = a_job(story)
    first = running(worker(story, own, 0), 10)
    assert now(story.at(11, own, first)) == ("scheduling", "1 of 3 worker pods are there")


def test_a_first_look_believes_the_operator_that_it_had_been_running() -> None:
    story = Story()
    own = a_job(story, status={"conditions": [condition("Running", 5)]})
    first = running(worker(story, own, 0), 10)
    assert now(story.at(11, own, first)) == ("restarting", "1 of 3 worker pods are there")


def test_pods_whose_role_nobody_tells_are_not_counted() -> None:
    story = Story()
    own = a_job(story)
    assert now(story.at(11, own, running(make_pod(story.made, "llm-0", own), 10))) == ("running", "")


def test_an_elastic_job_runs_with_fewer() -> None:
    story = Story()
    own = a_job(story, elasticPolicy={"minReplicas": 2, "maxReplicas": 3})
    workers = [running(worker(story, own, index), 10) for index in range(3)]
    story.at(11, own, *workers)
    assert now(story.without(20, workers[2])) == ("running", "")
    assert now(story.without(30, workers[1])) == ("restarting", "1 of 2 worker pods are there")
