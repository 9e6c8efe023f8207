"""Of an object is kept what is used; secrets, and what is only large, are not."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from servers import require_corpus
from trilens.collect.kubernetes.catalogue import ALL, choose
from trilens.collect.kubernetes.mask import Trimmer, read_mask
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.kubernetes.rbac import as_yaml, manifests
from trilens.collect.kubernetes.wire import Unreadable
from trilens.model.errors import ConfigError
from trilens.model.kubernetes import GroupKind, KubeObject, OwnerRef

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
KINDS = {str(kind.group_kind): kind for kind in ALL}
METADATA: dict[str, Any] = {
    "name": "a",
    "namespace": "train",
    "uid": "u-1",
    "resourceVersion": "7",
    "creationTimestamp": "2026-01-01T00:00:00Z",
}


def read(kind: str, **whole: Any) -> KubeObject:
    whole = {"apiVersion": "v1", "kind": "X", "metadata": METADATA, **whole}
    return ObjectReader("c").read(KINDS[kind], "v1", json.dumps(whole).encode())


def test_metadata_becomes_the_object() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u-0", "controller": True}
    other = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u-9"}
    metadata = {
        **METADATA,
        "labels": {"team": "vision"},
        "annotations": {
            "note": "x",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "document": "x" * 5000,
        },
        "ownerReferences": [owner, other],
        "managedFields": [{"manager": "kubectl"}],
        "deletionTimestamp": "2026-01-01T00:01:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    obj = read("Pod", metadata=metadata)
    assert obj == KubeObject(
        cluster="c",
        group="",
        version="v1",
        kind="Pod",
        namespace="train",
        name="a",
        uid="u-1",
        resource_version="7",
        created_ms=1767225600000,
        deleted_ms=1767225600000 + 60_000,  # asked for then; the pod has 30 s from there
        labels={"team": "vision"},
        annotations={"note": "x"},
        owners=(OwnerRef("batch", "Job", "j", "u-0", True), OwnerRef("", "Pod", "p", "u-9")),
        body={},
    )


@pytest.mark.parametrize(
    "broken", [b"", b"7", b'{"metadata": {}}', b'{"metadata": {"name": 1}}', b"\xff", b'{"metadata": null}']
)
def test_what_is_no_object_is_refused(broken: bytes) -> None:
    with pytest.raises(Unreadable):
        ObjectReader("c").read(KINDS["Pod"], "v1", broken)


def test_variables_that_may_be_secret_are_not_kept() -> None:
    container = {
        "name": "main",
        "image": "train",
        "command": ["run", "--password=hunter2"],
        "args": ["--token", "hunter2"],
        "env": [
            {"name": "RANK", "value": "3"},
            {"name": "PASSWORD", "value": "hunter2"},
            {"name": "MASTER_ADDR", "valueFrom": {"secretKeyRef": {"name": "hunter2", "key": "k"}}},
            {"name": "NODE_RANK", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "x"}}},
        ],
        "envFrom": [{"secretRef": {"name": "hunter2"}}],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    quiet = {"name": "side", "env": [{"name": "PASSWORD", "value": "hunter2"}]}
    body = read("Pod", spec={"containers": [container, quiet], "initContainers": [container]}).body
    assert "hunter2" not in json.dumps(body)
    assert body["spec"]["containers"] == [
        {
            "name": "main",
            "image": "train",
            "env": [
                {"name": "RANK", "value": "3"},
                {"name": "MASTER_ADDR", "valueFrom": {}},
                {"name": "NODE_RANK", "valueFrom": {"fieldRef": {"fieldPath": "x"}}},
            ],
            "resources": {"limits": {"nvidia.com/gpu": "8"}},
        },
        {"name": "side"},
    ]


def test_of_a_node_neither_images_nor_heartbeats() -> None:
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
    status = {"images": [{"names": ["x"]}], "conditions": [condition], "capacity": {"nvidia.com/gpu": "8"}}
    body = read("Node", spec={"configSource": {"kind": "x"}, "unschedulable": True}, status=status).body
    assert body == {
        "spec": {"unschedulable": True},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "capacity": {"nvidia.com/gpu": "8"},
        },
    }


def test_of_a_job_of_an_operator_how_large_it_is() -> None:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "containers": [
                {"name": "pytorch", "resources": {"limits": {"nvidia.com/gpu": 8}}, "env": [{"name": "X"}]}
            ],
            "volumes": [{"name": "v"}],
        },
    }
    spec = {
        "pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template}},
        "runPolicy": {"suspend": True},
    }
    body = read("PyTorchJob.kubeflow.org", spec=spec).body
    assert body["spec"]["runPolicy"] == {"suspend": True}
    assert body["spec"]["pytorchReplicaSpecs"]["Worker"] == {
        "replicas": 4,
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "pytorch", "resources": {"limits": {"nvidia.com/gpu": 8}}}]},
        },
    }


def manifests_of_the_corpus() -> Iterator[tuple[str, dict[str, Any]]]:
    for file in sorted(require_corpus("manifests").rglob("*.yaml")):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if document is not None:  # a file may end in a separator
                group = document["apiVersion"].rpartition("/")[0]
                yield str(GroupKind(group, document["kind"])), document


def accelerators(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where in a body a number of GPUs stands."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        if str(name).startswith("nvidia.com/") and not isinstance(part, dict | list):
            yield (*path, name)
        yield from accelerators(part, (*path, name))


def test_no_gpu_that_a_real_manifest_asks_for_is_cut_away() -> None:
    read_at_all = 0
    for kind, document in manifests_of_the_corpus():
        if kind in KINDS:
            whole = {name: part for name, part in document.items() if name not in ("metadata", "kind")}
            assert set(accelerators(read(kind, **whole).body)) == set(accelerators(whole)), document
            read_at_all += 1
    assert read_at_all > 40


def test_the_steps_of_a_packed_workflow_are_unpacked() -> None:
    nodes = {"n": {"id": "n", "phase": "Succeeded", "inputs": {"parameters": [{"name": "secret"}]}}}
    packed = base64.b64encode(gzip.compress(json.dumps(nodes).encode())).decode()
    body = read("Workflow.argoproj.io", status={"phase": "Running", "compressedNodes": packed}).body
    assert body["status"] == {"phase": "Running", "nodes": {"n": {"id": "n", "phase": "Succeeded"}}}
    for broken in (
        "%%%",
        base64.b64encode(b"no gzip").decode(),
        base64.b64encode(gzip.compress(b"[]")).decode(),
    ):
        body = read("Workflow.argoproj.io", status={"compressedNodes": broken}).body
        assert body["status"] == {"compressedNodes": broken}


def test_a_mask_says_what_is_kept() -> None:
    mask = read_mask("spec { name every * { a } } status")
    assert mask == {"spec": {"name": {}, "every": {"*": {"a": {}}}}, "status": {}}
    value = {
        "spec": {"name": 1, "other": 2, "every": [{"a": 1, "b": 2}, {"a": 3}]},
        "status": {"all": ["of", "it"]},
        "other": 1,
    }
    expected = {"spec": {"name": 1, "every": [{"a": 1}, {"a": 3}]}, "status": {"all": ["of", "it"]}}
    assert Trimmer().trim(value, mask) == expected
    by_name = {"spec": {"every": {"x": {"a": 1, "b": 2}}}}
    assert Trimmer().trim(by_name, mask) == {"spec": {"every": {"x": {"a": 1}}}}


@pytest.mark.parametrize("value", [None, 7, "text", True])
def test_what_has_another_shape_is_kept_as_it_is(value: Any) -> None:
    assert Trimmer().trim({"spec": value}, read_mask("spec { name }")) == {"spec": value}


def test_what_is_the_same_is_shared() -> None:
    reader = ObjectReader("c")
    pods = [
        reader.read(
            KINDS["Pod"],
            "v1",
            json.dumps(
                {
                    "metadata": {**METADATA, "labels": {"team": "vision"}},
                    "spec": {"tolerations": [{"key": "gpu"}], "schedulerName": "kai-scheduler"},
                }
            ).encode(),
        )
        for _ in range(2)
    ]
    a, b = (pod.body["spec"] for pod in pods)
    assert a["tolerations"] is b["tolerations"]
    assert a["schedulerName"] is b["schedulerName"]
    assert pods[0].labels["team"] is pods[1].labels["team"]


def test_kinds_are_left_out_and_added_by_name() -> None:
    usual = {str(kind.group_kind) for kind in choose()}
    assert {"Pod", "Job.batch", "Job.batch.volcano.sh"} <= usual
    assert "Service" not in usual
    chosen = {str(kind.group_kind) for kind in choose(["Job.batch.volcano.sh", "Event"], ["Service"])}
    assert usual - chosen == {"Job.batch.volcano.sh", "Event"}
    assert chosen - usual == {"Service"}
    with pytest.raises(ConfigError, match=r"any kind 'pods'.*did you mean 'Pod'"):
        choose(["pods"])


def test_every_kind_is_in_the_table_once() -> None:
    assert len({kind.group_kind for kind in ALL}) == len(ALL)
    assert GroupKind("batch", "Job") in {kind.group_kind for kind in ALL}


def test_the_docs_name_every_kind_and_show_the_role() -> None:
    text = (DOCS / "kubernetes.md").read_text(encoding="utf-8")
    for kind in ALL:
        assert f"`{kind.group_kind}`" in text, f"{kind.group_kind} is not in docs/kubernetes.md"
    assert as_yaml(manifests(choose())) in text, "the role in docs/kubernetes.md is not the generated one"
