"""How each kind of workload is restarted through its own operator, and when that would do harm."""

from __future__ import annotations

from typing import Any

import pytest

from trilens.diagnose.cure.changes import change_of
from trilens.diagnose.cure.restarts import restartable, says_suspended
from trilens.model.errors import RequestError
from trilens.model.fix import Deed, Fix, FixState, FixTarget

VOLCANO = ("batch.volcano.sh", "Job")
RAY_SPEC = {"shutdownAfterJobFinishes": True}


def restart(kind: tuple[str, str], now: dict[str, Any]) -> Any:
    target = FixTarget("lab", *kind, "ml", "llm")
    return change_of(Fix("f1", 0, Deed.RESTART, target, "ann", "why", "", FixState.BEGUN), now)


@pytest.mark.parametrize(
    ("group", "kind", "spec", "field"),
    [
        ("batch", "Job", {}, ("spec", "suspend")),
        ("jobset.x-k8s.io", "JobSet", {}, ("spec", "suspend")),
        ("trainer.kubeflow.org", "TrainJob", {}, ("spec", "suspend")),
        ("kubeflow.org", "PyTorchJob", {}, ("spec", "runPolicy", "suspend")),
        ("kubeflow.org", "MPIJob", {}, ("spec", "runPolicy", "suspend")),
        ("ray.io", "RayJob", RAY_SPEC, ("spec", "suspend")),
    ],
)
def test_a_job_is_suspended_and_resumed(group: str, kind: str, spec: Any, field: tuple[str, ...]) -> None:
    change = restart((group, kind), {"metadata": {}, "spec": spec})
    wanted: Any = change.patch
    for step in field:
        wanted = wanted[step]
    assert (wanted, change.watched) == (True, field)
    assert change.then is not None
    queued = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}, "spec": spec}
    with pytest.raises(RequestError, match="Kueue alone"):
        restart((group, kind), queued)


def test_volcano_is_given_a_command_as_long_as_it_has_retries() -> None:
    now = {"metadata": {"uid": "u1"}, "spec": {}, "status": {"retryCount": 1, "state": {"phase": "Running"}}}
    change = restart(VOLCANO, now)
    assert (change.command["action"], change.before) == ("RestartJob", {"retries": 1})
    assert change.command["target"] == change.command["metadata"]["ownerReferences"][0]
    assert change.command["target"]["uid"] == "u1"
    with pytest.raises(RequestError, match="Volcano would end it"):
        restart(VOLCANO, {"status": {"retryCount": 2}})  # 3 unless the job says more
    assert restart(VOLCANO, {"spec": {"maxRetry": 9}, "status": {"retryCount": 2}}).command


@pytest.mark.parametrize(
    "spec",
    [{}, {"shutdownAfterJobFinishes": False}, {**RAY_SPEC, "clusterSelector": {"ray.io/cluster": "x"}}],
)
def test_a_job_of_ray_is_suspended_only_where_ray_takes_it(spec: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="KubeRay suspends"):
        restart(("ray.io", "RayJob"), {"spec": spec})


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (("batch", "Job"), {"conditions": [{"type": "Complete", "status": "True"}]}),
        (("jobset.x-k8s.io", "JobSet"), {"conditions": [{"type": "Completed", "status": "True"}]}),
        (("kubeflow.org", "PyTorchJob"), {"conditions": [{"type": "Succeeded", "status": "True"}]}),
        (("ray.io", "RayJob"), {"jobDeploymentStatus": "Failed"}),
        (VOLCANO, {"state": {"phase": "Completed"}}),
    ],
)
def test_what_has_ended_is_not_restarted(kind: tuple[str, str], status: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="has ended"):
        restart(kind, {"spec": RAY_SPEC, "status": status})


def test_what_has_no_restart_says_what_helps() -> None:
    with pytest.raises(RequestError, match="cannot be restarted") as told_so:
        restart(("argoproj.io", "Workflow"), {})
    assert "argo retry" in str(told_so.value)
    assert not restartable("Workflow.argoproj.io")
    assert restartable("Job.batch.volcano.sh")


def test_an_operator_says_that_it_is_suspended_in_its_own_words() -> None:
    assert says_suspended({"status": {"conditions": [{"type": "Suspended", "status": "True"}]}})
    assert says_suspended({"status": {"jobDeploymentStatus": "Suspended"}})
    assert not says_suspended({"status": {"conditions": [{"type": "Suspended", "status": "False"}]}})
    assert not says_suspended({"status": {"conditions": "odd"}})
