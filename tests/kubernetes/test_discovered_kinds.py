"""Operators' kinds are followed where, and as soon as, a cluster has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from watching import IMPATIENT, as_user, watching

from kubernetes_api import Rule
from kubernetes_client import CRDS, Json, Resource
from servers import until
from trilens.collect.kubernetes.catalogue import choose
from trilens.resolve.operators import BY_KIND

if TYPE_CHECKING:
    from kubernetes_api import KubernetesServer
    from kubernetes_client import KubernetesClient

JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
RAY_JOBS = Resource("ray.io", "v3alpha7", "rayjobs", "RayJob")  # a version that nobody has seen yet
WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
# Only their pods' labels and owner references are read.
NOT_WATCHED = {"PodGroup.scheduling.run.ai", "Task.determined.ai", "ReplicationController"}


def test_every_kind_that_may_be_a_workload_is_watched() -> None:
    watched = {str(kind.group_kind) for kind in choose()}
    known = {str(kind) for kind in BY_KIND if kind.group != "run.ai"}
    assert known - watched == NOT_WATCHED


def job_set(name: str) -> Json:
    return {"metadata": {"name": name}, "spec": {"suspend": False, "network": {"enableDNSHostnames": True}}}


def until_undefined(admin: KubernetesClient, name: str) -> None:
    query = {"fieldSelector": f"metadata.name={name}"}
    until(lambda: not admin.list(CRDS, query=query)["items"], "the definition stays")


@pytest.mark.parametrize("may_read_definitions", [True, False])
async def test_an_operator_that_comes_and_goes(
    private_kubernetes: KubernetesServer, may_read_definitions: bool
) -> None:
    admin = private_kubernetes.client()
    rules = [Rule("jobset.x-k8s.io", ("jobsets",), ("list", "watch"))]
    if may_read_definitions:
        rules.append(Rule("apiextensions.k8s.io", ("customresourcedefinitions",), ("list", "watch")))
    user = private_kubernetes.user(f"reader-of-{len(rules)}", *rules)
    timing = replace(IMPATIENT, discovery_s=3600.0) if may_read_definitions else IMPATIENT
    async with watching(
        as_user(private_kubernetes, user), only=["JobSet.jobset.x-k8s.io"], timing=timing
    ) as cluster:
        sink = cluster.sink
        definitions = "CustomResourceDefinition.apiextensions.k8s.io"
        await cluster.until_state(
            lambda: (
                (cluster.resource(definitions).trouble is None) == may_read_definitions
                and (cluster.resource(definitions).synced or not may_read_definitions)
            )
        )
        assert not cluster.state().resources, "what is not there costs nothing"

        admin.define(WIDGETS)
        admin.define(JOB_SETS)
        admin.create(JOB_SETS, job_set("a"), "default")
        await sink.until(lambda: sink.names("JobSet.jobset.x-k8s.io", "default") == {"a"})
        found = sink.get("JobSet.jobset.x-k8s.io", "a")
        assert (found.version, found.body) == ("v1alpha2", {"spec": {"suspend": False}})

        admin.delete(CRDS, "jobsets.jobset.x-k8s.io")
        await sink.until(lambda: not sink.objects)
        if may_read_definitions:
            await cluster.until_state(lambda: not cluster.state().resources)

        until_undefined(admin, "jobsets.jobset.x-k8s.io")
        admin.define(JOB_SETS)
        admin.create(JOB_SETS, job_set("b"), "default")
        await sink.until(lambda: sink.names("JobSet.jobset.x-k8s.io", "default") == {"b"})

    for name in ("jobsets.jobset.x-k8s.io", "widgets.example.com"):  # the next starts without them
        admin.delete(CRDS, name)
        until_undefined(admin, name)


async def test_an_unexpected_version_is_followed_all_the_same(
    private_kubernetes: KubernetesServer,
) -> None:
    admin = private_kubernetes.client()
    admin.define(RAY_JOBS)
    admin.create(
        RAY_JOBS, {"metadata": {"name": "a"}, "spec": ["not", "as", "before"], "status": 7}, "default"
    )
    async with watching(as_user(private_kubernetes), only=["RayJob.ray.io"]) as cluster:
        await cluster.until_synced("RayJob.ray.io")
        found = cluster.sink.get("RayJob.ray.io", "a")
        assert (found.version, found.body["spec"]) == ("v3alpha7", ["not", "as", "before"])


async def test_the_preferred_of_several_versions_is_taken(private_kubernetes: KubernetesServer) -> None:
    admin = private_kubernetes.client()
    mpi_jobs = Resource("kubeflow.org", "v2beta1", "mpijobs", "MPIJob")
    admin.define(mpi_jobs)
    admin.define(Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"))
    admin.create(mpi_jobs, {"metadata": {"name": "a"}, "spec": {"slotsPerWorker": 8}}, "default")
    kinds = ["MPIJob.kubeflow.org", "PyTorchJob.kubeflow.org"]
    async with watching(as_user(private_kubernetes), only=kinds) as cluster:
        await cluster.until_synced(*kinds)
        assert cluster.resource("PyTorchJob.kubeflow.org").version == "v1"
        assert cluster.resource("MPIJob.kubeflow.org").version == "v2beta1", "v1 is preferred, and has none"
        assert cluster.sink.get("MPIJob.kubeflow.org", "a").body == {"spec": {"slotsPerWorker": 8}}

        versions = [
            {"name": name, "served": True, "storage": name == "v2beta1", "schema": _ANYTHING}
            for name in ("v2beta1", "v1")
        ]
        admin.patch(CRDS, "mpijobs.kubeflow.org", {"spec": {"versions": versions}})
        await cluster.sink.until(lambda: cluster.sink.get("MPIJob.kubeflow.org", "a").version == "v1")
        assert ("removed", "MPIJob.kubeflow.org", "a") not in cluster.sink.told


_ANYTHING = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
