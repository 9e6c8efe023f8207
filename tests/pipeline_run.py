"""A pipeline run, as Argo and Kubeflow Pipelines write it into the status of a Workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kube_objects import at

if TYPE_CHECKING:
    from kube_objects import Manifest

RUN = "run-x7k"


def node(
    path: str, type_: str, template: str, boundary: str = "", phase: str = "Succeeded", **more: Any
) -> Any:
    """`path` is the node's name; its id ends with a hash of that, here the path's own number."""
    name = path.rpartition(".")[2]
    written = {"name": path, "displayName": name, "type": type_, "templateName": template, "phase": phase}
    return {"startedAt": at(10), **written, **({"boundaryID": boundary} if boundary else {}), **more}


def kubeflow_run(driver_phase: str = "Succeeded") -> Manifest:
    """What Kubeflow Pipelines 2 makes of a task, one that is tried again, and one found in its cache."""
    root, train, prep, cached = f"{RUN}-2", f"{RUN}-4", f"{RUN}-8", f"{RUN}-12"
    impl, driver = "system-container-impl", "system-container-driver"
    executor = "system-container-executor"
    return {
        RUN: node(RUN, "DAG", "entrypoint"),
        f"{RUN}-1": node(f"{RUN}.root-driver", "Pod", "system-dag-driver", RUN),
        root: node(f"{RUN}.root", "DAG", "root", RUN),
        f"{RUN}-3": node(f"{RUN}.root.train-driver", "Pod", driver, root, driver_phase),
        train: node(f"{RUN}.root.train", "DAG", executor, root),
        f"{RUN}-5": node(f"{RUN}.root.train.executor", "Retry", impl, train),
        f"{RUN}-6": node(f"{RUN}.root.train.executor(0)", "Pod", impl, train, "Failed"),
        f"{RUN}-7": node(f"{RUN}.root.train.executor(1)", "Pod", impl, train, "Running"),
        prep: node(f"{RUN}.root.prepare", "DAG", executor, root),
        f"{RUN}-9": node(f"{RUN}.root.prepare.executor", "Pod", impl, prep),
        cached: node(f"{RUN}.root.tokens", "DAG", executor, root),
        f"{RUN}-13": node(f"{RUN}.root.tokens.executor", "Skipped", impl, cached, "Skipped"),
    }
