"""Which objects of a real API server are in a case, and what is said where they may not be read."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from kubernetes_api import Rule
from kubernetes_client import NODES, PODS, Resource
from trilens.model.kubernetes import GroupKind, KubeObject
from trilens.model.workload import PodKey, WorkloadKey
from trilens.serve.cases.about import About, Objects, Probed, Written
from trilens.serve.cases.objects import CaseObjects
from trilens.settings.kubernetes import ClusterSettings, KubernetesSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence
    from pathlib import Path

    from kubernetes_api import Identity, KubernetesServer

JOBS = Resource("batch", "v1", "jobs", "Job")
QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
EVENTS = Resource("", "v1", "events", "Event")


class Followed:
    """The other pods that are followed."""

    def __init__(self, *pods: KubeObject) -> None:
        self.pods = pods

    def pods_of(
        self, cluster: str, keep: Callable[[KubeObject], bool], within_s: float
    ) -> Sequence[KubeObject]:
        return [pod for pod in self.pods if keep(pod)]


def _soon() -> float:
    return asyncio.get_running_loop().time() + 20


def _about(kubernetes: KubernetesServer, namespace: str) -> About:
    """A pod that waits, with all that may hold it back."""
    admin = kubernetes.client()
    spec = {
        "restartPolicy": "Never",
        "runtimeClassName": namespace,
        "containers": [{"name": "main", "image": "x"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    admin.create(CLASSES, {"metadata": {"name": namespace}, "handler": "nvidia"})
    template = {"template": {"spec": {k: v for k, v in spec.items() if k != "runtimeClassName"}}}
    job = admin.create(JOBS, {"metadata": {"name": "train"}, "spec": template}, namespace)
    uid = job["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    metadata = {"name": "train-0", "ownerReferences": [owner]}
    pod = admin.create(PODS, {"metadata": metadata, "spec": spec}, namespace)
    admin.create(PODS, {"metadata": {"name": "other"}, "spec": spec}, namespace)
    admin.create(NODES, {"metadata": {"name": namespace}})
    admin.create(QUOTAS, {"metadata": {"name": "gpus"}, "spec": {"hard": {"pods": "10"}}}, namespace)
    size = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name in ("data", "of-another"):
        admin.create(CLAIMS, {"metadata": {"name": name}, "spec": size}, namespace)
    for number, (kind, name) in enumerate(
        (
            ("Pod", "train-0"),
            ("PersistentVolumeClaim", "data"),
            ("Pod", "other"),
            ("PodGroup", "podgroup-train-1"),
            ("PodGroup", "podgroup-tune-1"),
        )
    ):
        told = {"kind": kind, "namespace": namespace, "name": name}
        event = {
            "metadata": {"name": f"e{number}"},
            "involvedObject": told,
            "reason": "Told",
            "message": name,
        }
        admin.create(EVENTS, event, namespace)
    key = WorkloadKey("lab", namespace, "batch", "Job", "train", uid)
    return About("lab", [key], [PodKey("lab", namespace, "train-0", pod["metadata"]["uid"])], [])


@pytest.fixture
async def objects_of(
    kubernetes: KubernetesServer, tmp_path: Path
) -> AsyncIterator[Callable[..., CaseObjects]]:
    made: list[CaseObjects] = []

    def make(identity: Identity | None = None, *followed: KubeObject) -> CaseObjects:
        cluster = ClusterSettings(kubeconfig=kubernetes.kubeconfig(identity))
        made.append(CaseObjects(KubernetesSettings(clusters={"lab": cluster}), tmp_path, Followed(*followed)))
        return made[-1]

    yield make
    for one in made:
        await one.close()


async def test_what_belongs_to_a_waiting_pod_and_nothing_of_others(
    kubernetes: KubernetesServer, namespace: str, objects_of: Callable[..., CaseObjects]
) -> None:
    about = _about(kubernetes, namespace)
    answer = await objects_of().ask(about, _soon())
    assert answer.missing == ()
    assert {one.kind for one in answer.kinds} == {"DaemonSet", "ServiceMonitor", "PodMonitor", "Prometheus"}
    found = {(one.kind, one.name) for one in answer.objects if one.namespace == namespace}
    assert found == {
        ("Pod", "train-0"),
        ("Job", "train"),
        ("ResourceQuota", "gpus"),
        ("PersistentVolumeClaim", "data"),
        ("Event", "e0"),
        ("Event", "e1"),
        ("Event", "e3"),
    }
    wide = {(one.kind, one.name) for one in answer.objects if not one.namespace}
    assert {("Node", namespace), ("RuntimeClass", namespace)} <= wide
    (runtime,) = (one for one in answer.objects if (one.kind, one.name) == ("RuntimeClass", namespace))
    assert runtime.body["handler"] == "nvidia"


async def test_what_may_not_be_read_is_missing_with_the_rule_and_the_rest_is_there(
    kubernetes: KubernetesServer, namespace: str, objects_of: Callable[..., CaseObjects]
) -> None:
    about = _about(kubernetes, namespace)
    user = kubernetes.user(f"{namespace}-reader", Rule("", ("pods",), ("list",)), namespace=namespace)
    answer = await objects_of(user).ask(about, _soon())
    assert [one.name for one in answer.objects] == ["train-0"]
    assert GroupKind("apps", "DaemonSet") not in answer.kinds
    told = {one.remedy.partition(";")[0] for one in answer.missing}
    assert f'allow "list" on resourcequotas of API group "" in namespace {namespace}' in told
    assert 'allow "list" on nodes of API group "" in the whole cluster' in told
    assert 'allow "list" on runtimeclasses of API group "node.k8s.io" in the whole cluster' in told


async def test_of_others_those_that_have_gpus_while_somebody_waits(
    objects_of: Callable[..., CaseObjects],
) -> None:
    def pod(name: str, node: str, gpus: int = 0) -> KubeObject:
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        spec = {"nodeName": node, "containers": [{"name": "main", "resources": {"limits": limits}}]}
        body = {"spec": spec if node else {"containers": []}}
        return KubeObject("lab", "", "v1", "Pod", "ml", name, name, "1", 0, None, {}, {}, (), body)

    others = [pod("has-gpus", "n9", 8), pod("has-none", "n9"), pod("near", "n1"), pod("dcgm-exporter", "n9")]
    case = objects_of(None, *others)
    about = About("lab", [], [], ["n1"])
    waiting = case.neighbours(about, [pod("own", "")])
    assert [one.name for one in waiting.objects] == ["has-gpus", "near", "dcgm-exporter"]
    running = case.neighbours(about, [pod("own", "n1")])
    assert [one.name for one in running.objects] == ["near", "dcgm-exporter"]
    assert (waiting.kinds, running.kinds) == ((GroupKind("", "Pod"),), ())


async def test_its_own_pods_that_the_api_server_did_not_tell_are_those_that_are_followed(
    objects_of: Callable[..., CaseObjects],
) -> None:
    body = {"spec": {"containers": []}}
    waits = KubeObject("lab", "", "v1", "Pod", "ml", "own", "u", "1", 0, None, {}, {}, (), body)
    case, about = objects_of(None, waits), About("lab", [], [PodKey("lab", "ml", "own", "u")], [])
    assert case.neighbours(about, []).objects == (waits,)
    assert case.neighbours(about, [waits]).objects == ()


async def test_a_command_where_no_kubelet_answers_is_missing(
    kubernetes: KubernetesServer, namespace: str, objects_of: Callable[..., CaseObjects]
) -> None:
    admin = kubernetes.client()
    spec = {"nodeName": namespace, "containers": [{"name": "main", "image": "x"}]}
    made = admin.create(PODS, {"metadata": {"name": "runs"}, "spec": spec}, namespace)
    admin.patch_status(PODS, "runs", {"phase": "Running"}, namespace)
    about = About("lab", [], [PodKey("lab", namespace, "runs", made["metadata"]["uid"])], [])
    key = WorkloadKey("lab", namespace, "", "Pod", "runs", made["metadata"]["uid"])
    case = objects_of()
    found = await case.ask(about._replace(workloads=[key]), _soon())
    probed = await case.probe(about, found.objects)
    assert probed.probes == ()
    assert "what main of runs sees of its GPUs" in probed.missing[0].what
    user = kubernetes.user(f"{namespace}-looker", Rule("", ("pods",), ("list",)), namespace=namespace)
    refused = await objects_of(user).probe(about, found.objects)
    assert (
        f'allow "create" on pods/exec of API group "" in namespace {namespace}' in refused.missing[0].remedy
    )


async def test_a_server_that_does_not_answer_is_told_of_once(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        "{current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}], "
        "users: [{name: a, user: {}}], clusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    settings = KubernetesSettings(clusters={"lab": ClusterSettings(kubeconfig=file)})
    case = CaseObjects(settings, tmp_path, Followed())
    key = WorkloadKey("lab", "ml", "batch", "Job", "train", "u")
    answer = await case.ask(About("lab", [key], [PodKey("lab", "ml", "p", "u-p")], ["n1"]), _soon())
    await case.close()
    (missing,) = answer.missing
    assert missing.what.startswith("Pod, Job.batch, ")
    assert "no answer from the API server" in missing.what


def test_a_kubeconfig_that_is_gone_is_told_once(tmp_path: Path) -> None:
    """The rest of the case is as good as without the cluster."""
    pod = PodKey("lab", "ml", "train-0", "u1")
    about = About("lab", (), (pod,), ("gpu-1",))

    async def asked() -> tuple[Objects, Written, Probed]:
        settings = KubernetesSettings(clusters={"lab": ClusterSettings(kubeconfig=tmp_path / "gone")})
        objects = CaseObjects(settings, tmp_path, Followed())
        return (
            await objects.ask(about, _soon()),
            await objects.logs(about, (), (pod,), {}, _soon()),
            await objects.probe(about, ()),
        )

    objects, written, probed = asyncio.run(asked())
    [missing] = objects.missing
    assert missing.what.startswith("the objects of lab: ")
    assert (written, probed) == (Written(), Probed())
