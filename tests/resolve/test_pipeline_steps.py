"""The steps of a pipeline run, as Argo and Kubeflow Pipelines write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from small_jobs import make, make_pod

from kube_objects import MadeObjects, at, at_ms, resolved, resolver
from pipeline_run import RUN, kubeflow_run, node

if TYPE_CHECKING:
    from kube_objects import Manifest
    from trilens.model.workload import Step


def steps_of(nodes: Manifest, name_format: str | None = "v2") -> tuple[Step, ...]:
    made = MadeObjects()
    annotations = {"workflows.argoproj.io/pod-name-format": name_format} if name_format else {}
    status = {"phase": "Running", "nodes": nodes}
    make(made, "argoproj.io/v1alpha1", "Workflow", RUN, status=status, meta={"annotations": annotations})
    found = resolver()
    resolved(made.objects(), found)
    (record,) = found.workloads().values()
    return record.steps


def test_the_pod_of_a_step_in_both_formats_of_its_name() -> None:
    nodes = {
        RUN: node(RUN, "DAG", "main"),
        f"{RUN}-11": node(f"{RUN}.prepare", "Pod", "prep", RUN, finishedAt=at(60)),
        f"{RUN}-12": {**node(f"{RUN}.fit", "Pod", "", RUN), "templateRef": {"template": "shared-fit"}},
        f"{RUN}-13": node(f"{RUN}.approve", "Suspend", "gate", RUN, "Running"),
    }
    del nodes[f"{RUN}-12"]["templateName"]
    long_names = {step.name: step.pod for step in steps_of(nodes)}
    assert long_names == {"prepare": f"{RUN}-prep-11", "fit": f"{RUN}-shared-fit-12", "approve": None}
    for old in ("v1", None):
        assert {step.name: step.pod for step in steps_of(nodes, old)}["prepare"] == f"{RUN}-11"
    (prepared,) = [step for step in steps_of(nodes) if step.name == "prepare"]
    assert (prepared.started_ms, prepared.finished_ms) == (at_ms(10), at_ms(60))


def test_a_run_of_one_pod() -> None:
    (step,) = steps_of({RUN: node(RUN, "Pod", "main")})
    assert (step.name, step.pod) == (RUN, RUN)


def test_kubeflows_steps_are_its_tasks() -> None:
    assert [(step.name, step.state, step.pod) for step in steps_of(kubeflow_run())] == [
        ("prepare", "Succeeded", f"{RUN}-system-container-impl-9"),
        ("tokens", "Skipped", None),
        ("train(0)", "Failed", f"{RUN}-system-container-impl-6"),
        ("train(1)", "Running", f"{RUN}-system-container-impl-7"),
    ]


def test_a_driver_that_does_not_get_on_is_shown() -> None:
    names = [step.name for step in steps_of(kubeflow_run("Failed"))]
    assert "train-driver" in names


def test_steps_with_one_name_are_told_apart_by_what_holds_them() -> None:
    nodes = {
        RUN: node(RUN, "DAG", "main"),
        f"{RUN}-1": node(f"{RUN}.a", "DAG", "sub", RUN),
        f"{RUN}-2": node(f"{RUN}.b", "DAG", "sub", RUN),
        f"{RUN}-3": node(f"{RUN}.a.fit", "Pod", "fit", f"{RUN}-1"),
        f"{RUN}-4": node(f"{RUN}.b.fit", "Pod", "fit", f"{RUN}-2"),
        f"{RUN}-5": node(f"{RUN}.report", "Pod", "report", RUN),
    }
    assert [step.name for step in steps_of(nodes)] == ["a/fit", "b/fit", "report"]


def test_nodes_that_hold_each_other_are_survived() -> None:
    nodes = {
        f"{RUN}-1": node(f"{RUN}.executor", "Pod", "system-container-impl", f"{RUN}-2"),
        f"{RUN}-2": node(f"{RUN}.executor", "Pod", "system-container-impl", f"{RUN}-1"),
    }
    assert len(steps_of(nodes)) == 2


def test_a_pods_role_is_its_task() -> None:
    made = MadeObjects()
    run = make(made, "argoproj.io/v1alpha1", "Workflow", RUN, status={"phase": "Running"})
    for number, path in enumerate(("root.train.executor", "root.train-driver")):
        labels = {
            "workflows.argoproj.io/workflow": RUN,
            "pipelines.kubeflow.org/v2_component": "true",
        }
        annotations = {"workflows.argoproj.io/node-name": f"{RUN}.{path}"}
        make_pod(made, f"{RUN}-{number}", run, labels, annotations=annotations)
    assert [member.role for member in resolved(made.objects()).values()] == ["train", "train-driver"]
