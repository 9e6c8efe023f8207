"""The workloads of the corpus on a real API server: made there, watched, and resolved."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from watching import RecordingSink, as_user, watching

from kube_objects import KeptIntervals, Manifest, at_ms
from kubernetes_api import Rule
from kubernetes_client import NAMESPACES, Resource
from operators_at_work import NO_WORKLOAD, AtWork, Expected, put_to_work
from servers import corpus
from trilens.collect.kubernetes.catalogue import choose
from trilens.model.kubernetes import GroupKind
from trilens.resolve.clusters import Clusters
from trilens.settings.ownership import OwnershipSettings
from trilens.settings.topology import TopologySettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from kubernetes_api import KubernetesServer
    from kubernetes_client import KubernetesClient
    from trilens.model.kubernetes import KubeObject

CORPUS = corpus("manifests")

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no manifests at {CORPUS}")

PLURALS = {kind.group_kind: kind.plural for kind in choose()}
BUILT_IN = ("", "apps", "batch")
KNATIVE = ("Service", "Configuration", "Revision")


class ResolvingSink(RecordingSink):
    """What the watch tells goes to the resolver, as it will in the server."""

    def __init__(self) -> None:
        super().__init__()
        self.clusters = Clusters(OwnershipSettings(), TopologySettings(), KeptIntervals())

    def changed(self, obj: KubeObject) -> None:
        self.clusters.changed(obj)
        super().changed(obj)

    def removed(self, obj: KubeObject) -> None:
        self.clusters.removed(obj)
        super().removed(obj)

    def synced(self, cluster: str, kind: GroupKind) -> None:
        self.clusters.synced(cluster, kind)
        super().synced(cluster, kind)

    def refused(self, cluster: str, kind: GroupKind, remedy: str) -> None:
        self.clusters.refused(cluster, kind, remedy)
        super().refused(cluster, kind, remedy)


class Maker:
    """Creates what operators would, in a namespace for each manifest, with what the API server insists on."""

    def __init__(self, admin: KubernetesClient) -> None:
        self._admin = admin
        self._defined: set[Resource] = set()

    def in_namespace(self, namespace: str) -> Callable[[Manifest], Manifest]:
        self._admin.create(NAMESPACES, {"metadata": {"name": namespace}})

        def create(manifest: Manifest) -> Manifest:
            resource = _resource(manifest)
            if resource.group not in BUILT_IN and resource not in self._defined:
                self._admin.define(resource)
                self._defined.add(resource)
            written = {key: value for key, value in manifest.items() if key != "status"}
            written["metadata"] = {**manifest["metadata"], "namespace": namespace}
            made = self._admin.create(resource, _accepted(written), namespace)
            # The operator goes on with the job as it was written, not as the server filled it in.
            return {**manifest, "metadata": {**manifest["metadata"], **made["metadata"]}}

        return create


def _resource(manifest: Manifest) -> Resource:
    group, _, version = manifest["apiVersion"].rpartition("/")
    kind = manifest["kind"]
    return Resource(group, version, PLURALS.get(GroupKind(group, kind), f"{kind.lower()}s"), kind)


def _accepted(manifest: Manifest) -> Manifest:
    """With the fields that validation asks for, and pods cut down to what tells them apart."""
    manifest = copy.deepcopy(manifest)
    spec = manifest.get("spec", {})
    if manifest["kind"] == "Pod":
        manifest["spec"] = _pod_spec(spec)
    elif manifest["apiVersion"] == "batch/v1":
        sizes = {key: spec[key] for key in ("parallelism", "completions") if key in spec}
        manifest["spec"] = {
            **sizes,
            "template": {"spec": _pod_spec(spec.get("template", {}).get("spec", {}))},
        }
    elif manifest["apiVersion"] == "apps/v1":
        labels = {"app": manifest["metadata"]["name"]}
        manifest["spec"] = {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {**_pod_spec({}), "restartPolicy": "Always"},
            },
        }
        if manifest["kind"] == "StatefulSet":
            manifest["spec"]["serviceName"] = "x"
    return manifest


def _pod_spec(spec: dict[str, Any]) -> dict[str, Any]:
    containers = []
    for container in spec.get("containers") or [{"name": "main"}]:
        resources = container.get("resources", {})
        asked = {**resources.get("requests", {}), **resources.get("limits", {})}
        devices = {name: str(amount) for name, amount in asked.items() if "/" in name}
        containers.append({"name": container["name"], "image": "x", "resources": {"limits": devices}})
    return {"containers": containers, "restartPolicy": "Never"}


@pytest.fixture(scope="module")
def maker(kubernetes_of_module: KubernetesServer) -> Maker:
    return Maker(kubernetes_of_module.client())


async def test_every_workload_of_the_corpus_resolves(
    private_kubernetes: KubernetesServer, maker: Maker
) -> None:
    made: dict[str, AtWork] = {}
    for path in sorted(CORPUS.rglob("*.yaml")):
        documents = [one for one in yaml.safe_load_all(path.read_text(encoding="utf-8")) if one]
        runtimes = [one for one in documents if one["kind"] == "ClusterTrainingRuntime"]
        for document in documents:
            if document["kind"] in NO_WORKLOAD:
                continue
            namespace = f"m{len(made)}"
            work = put_to_work(document, maker.in_namespace(namespace), runtimes)
            assert work is not None
            made[namespace] = work
    assert len(made) == 42

    sink = ResolvingSink()
    async with watching(as_user(private_kubernetes), sink=sink) as cluster:
        await cluster.until_synced(
            *{str(GroupKind(*_kind(work))) for work in made.values()}, "Pod", "Job.batch"
        )
        await sink.until(lambda: all(sink.names("Pod", ns) == set(work.members) for ns, work in made.items()))
        await cluster.until_synced("ReplicaSet.apps", "StatefulSet.apps", "JobSet.jobset.x-k8s.io")
        await cluster.until_synced(*(f"{kind}.serving.knative.dev" for kind in KNATIVE))

    resolver = sink.clusters["test"]
    resolver.settle(at_ms(0))
    members = resolver.memberships()
    for namespace, work in made.items():
        found = {key: one for key, one in members.items() if key.namespace == namespace}
        assert {(one.workload.kind, one.workload.name) for one in found.values()} == {(work.kind, work.name)}
        assert len({one.workload.uid for one in found.values()}) == 1
        seats = {key.name: Expected(one.role, one.group, one.node_rank) for key, one in found.items()}
        assert seats == work.members
        assert [doubt for one in found.values() for doubt in one.doubts] == []


async def test_jobs_that_may_not_be_read(private_kubernetes: KubernetesServer, maker: Maker) -> None:
    """The pods' labels tell the JobSet, and the doubt says what to grant."""
    template = {"spec": {"parallelism": 2, "template": {"spec": {"containers": [{"name": "main"}]}}}}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "train"},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": template}]},
    }
    work = put_to_work(jobset, maker.in_namespace("ml"))
    assert work is not None
    reader = private_kubernetes.user(
        "reader",
        Rule("", ("pods",), ("list", "watch")),
        Rule("jobset.x-k8s.io", ("jobsets",), ("list", "watch")),
    )
    sink = ResolvingSink()
    only = ["Pod", "Job.batch", "JobSet.jobset.x-k8s.io"]
    async with watching(as_user(private_kubernetes, reader), sink=sink, only=only) as cluster:
        await cluster.until_synced("Pod", "JobSet.jobset.x-k8s.io")
        await sink.until(lambda: any("jobs" in remedy for remedy in sink.remedies))
    resolver = sink.clusters["test"]
    resolver.settle(at_ms(0))
    members = [one for pod, one in resolver.memberships().items() if pod.namespace == "ml"]
    assert {(one.workload.kind, one.workload.name) for one in members} == {("JobSet", "train")}
    assert sorted(one.node_rank for one in members if one.node_rank is not None) == [0, 1, 2, 3]
    (record,) = (one for key, one in resolver.workloads().items() if key.namespace == "ml")
    assert [doubt.code for doubt in record.doubts] == ["from-labels", "owner-unreadable"]
    assert "jobs" in str(record.doubts[1].remedy)


def _kind(work: AtWork) -> tuple[str, str]:
    groups = [kind.group for kind in PLURALS if kind.kind == work.kind]
    return ("batch", "Job") if work.kind == "Job" else (groups[0], work.kind)
