"""A run of Kubeflow Pipelines on a real API server, shown with its steps."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

import yaml

from kubernetes_client import PODS, Resource
from pipeline_run import RUN, kubeflow_run
from servers import until
from trilens_process import server, trilens

if TYPE_CHECKING:
    from pathlib import Path

    from kubernetes_api import KubernetesServer

WORKFLOWS = Resource("argoproj.io", "v1alpha1", "workflows", "Workflow")
PREFIX = "workflows.argoproj.io/"


def steps(url: str) -> list[dict[str, Any]]:
    found = trilens("show", f"workflow/{RUN}", "--json", "--server", url)
    return [dict(step) for step in json.loads(found.stdout)[0]["steps"]] if found.stdout else []


def test_a_run_is_shown_with_its_steps(kubernetes: KubernetesServer, namespace: str, tmp_path: Path) -> None:
    admin = kubernetes.client()
    admin.define(WORKFLOWS)
    metadata = {"name": RUN, "annotations": {PREFIX + "pod-name-format": "v2"}}
    run = admin.create(WORKFLOWS, {"metadata": metadata, "spec": {"entrypoint": "entrypoint"}}, namespace)
    nodes = kubeflow_run()
    admin.patch_status(WORKFLOWS, RUN, {"phase": "Running", "nodes": nodes}, namespace)
    owner = {"apiVersion": WORKFLOWS.api_version, "kind": "Workflow", "controller": True}
    owner |= {key: run["metadata"][key] for key in ("name", "uid")}
    pod = {
        "name": f"{RUN}-system-container-impl-7",
        "labels": {PREFIX + "workflow": RUN, "pipelines.kubeflow.org/v2_component": "true"},
        "annotations": {PREFIX + "node-name": f"{RUN}.root.train.executor(1)"},
        "ownerReferences": [owner],
    }
    admin.create(PODS, {"metadata": pod, "spec": {"containers": [{"name": "main", "image": "x"}]}}, namespace)
    config = tmp_path / "trilens.yaml"
    cluster = {"kubeconfig": str(kubernetes.kubeconfig()), "namespaces": [namespace]}
    config.write_text(yaml.safe_dump({"kubernetes": {"clusters": {"lab": cluster}}}))

    with server(tmp_path, "--config", str(config)) as (url, _):
        until(lambda: len(steps(url)) == 4, "the run's steps are not seen")
        text = trilens("show", f"workflow/{RUN}", "--server", url).stdout
        members, _, shown = text.partition("\nsteps\n")
        assert "train  run-x7k-system-container-impl-7" in members
        table = [line.split() for line in shown.splitlines()]
        assert table[0] == ["step", "state", "since", "for", "pod"]
        assert [(row[0], row[1], row[-1]) for row in table[1:]] == [
            ("prepare", "Succeeded", f"{RUN}-system-container-impl-9"),
            ("tokens", "Skipped", "-"),
            ("train(0)", "Failed", f"{RUN}-system-container-impl-6"),
            ("train(1)", "Running", f"{RUN}-system-container-impl-7"),
        ]

        # Grown large, Argo packs them.
        nodes[f"{RUN}-7"] |= {"phase": "Succeeded", "finishedAt": "2026-01-14T13:00:00Z"}
        packed = base64.b64encode(gzip.compress(json.dumps(nodes).encode())).decode()
        status = {"phase": "Succeeded", "nodes": None, "compressedNodes": packed}
        admin.patch_status(WORKFLOWS, RUN, status, namespace)
        until(lambda: [step["state"] for step in steps(url)][-1:] == ["Succeeded"], "the end is not seen")
        assert len(steps(url)) == 4
