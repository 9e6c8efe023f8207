"""`trilens fix` on a real API server: what is done, what is refused, and the record of it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from command_here import trilens_here
from kubernetes_client import NODES, PODS, Resource
from live_cluster import LiveCluster, live_cluster, make_node
from servers import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kubernetes_api import KubernetesServer
    from kubernetes_client import Json, KubernetesClient

pytestmark = pytest.mark.whole

NAMESPACE = "fix-live"
NODE = f"{NAMESPACE}-node"
OTHERS = [f"{NAMESPACE}-{n}" for n in range(2, 6)]
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
BUDGETS = Resource("policy", "v1beta1", "poddisruptionbudgets", "PodDisruptionBudget")
NONE_MAY_GO = {
    "observedGeneration": 1,
    "disruptionsAllowed": 0,
    "currentHealthy": 1,
    "desiredHealthy": 1,
    "expectedPods": 1,
}
EVERY_FAULT = (
    (NODE, 31),
    (OTHERS[3], 43),
    (OTHERS[0], 79),
    (OTHERS[1], 48),
    (OTHERS[2], 79),
    (NODE, 95),
)
POLICY = {
    "allow": [
        {"do": ["cordon", "uncordon"], "nodes": [f"{NAMESPACE}-*"]},
        {"do": ["evict", "delete-pod", "restart", "annotate"], "namespaces": [NAMESPACE]},
    ],
    "max_nodes": 2,
    "approved": ["xid-79", "double-bit-ecc"],
}


@pytest.fixture(scope="module")
def cluster(kubernetes: KubernetesServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    for node in OTHERS:
        make_node(kubernetes.client(), node)
    with live_cluster(kubernetes, tmp_path_factory.mktemp("fix"), NAMESPACE, policy=POLICY) as found:
        yield found
    for node in (NODE, *OTHERS):
        kubernetes.client().delete(NODES, node)


@pytest.fixture
def admin(kubernetes: KubernetesServer) -> Iterator[KubernetesClient]:
    yield kubernetes.client()
    for node in (NODE, *OTHERS):
        kubernetes.client().request(
            "PATCH",
            NODES.path("", node),
            {"spec": {"unschedulable": None}, "metadata": {"labels": {"trilens/cordoned": None}}},
        )


def fix(cluster: LiveCluster, *arguments: str, code: int = 0) -> Any:
    answer = trilens_here("fix", *arguments, "--json", "--server", cluster.url)
    assert answer.returncode == code, answer.stderr or answer.stdout
    if code == 2:
        return answer.stderr
    told = json.loads(answer.stdout)
    return told[0] if isinstance(told, list) and arguments[0] != "log" else told


def is_closed(admin: KubernetesClient, node: str) -> bool:
    return bool(admin.get(NODES, node)["spec"].get("unschedulable"))


def test_a_cordon_is_tried_done_recorded_and_taken_back(
    cluster: LiveCluster, admin: KubernetesClient
) -> None:
    node = f"node/{NODE}"
    tried = fix(cluster, node, "--deed", "cordon")
    assert (tried["state"], tried["before"], tried["after"]) == (
        "dry-run",
        {"unschedulable": False},
        {"unschedulable": True},
    )
    assert not is_closed(admin, NODE)

    done = fix(cluster, node, "--deed", "cordon", "--do", "--why", "new fans", "--by", "ann")
    assert (done["state"], done["by"], done["why"]) == ("done", "ann", "new fans")
    assert is_closed(admin, NODE)
    metadata = admin.get(NODES, NODE)["metadata"]
    assert metadata["annotations"]["trilens/fix"] == done["id"]
    assert "already" in fix(cluster, node, "--deed", "cordon", "--do", code=2)

    undone = fix(cluster, "undo", done["id"])
    assert (undone["deed"], undone["state"], undone["undo_of"]) == ("uncordon", "done", done["id"])
    assert not is_closed(admin, NODE)
    assert "trilens/cordoned" not in admin.get(NODES, NODE)["metadata"].get("labels", {})
    kept = {one["id"]: one for one in fix(cluster, "log")}
    assert kept[done["id"]]["undone_by"] == undone["id"]
    assert kept[done["id"]]["before"] == {"unschedulable": False}
    assert "taken back already" in fix(cluster, "undo", done["id"], code=2)


def test_what_the_policy_does_not_name_is_refused(cluster: LiveCluster, admin: KubernetesClient) -> None:
    make_node(admin, "elsewhere")
    until(lambda: cluster.get("/api/why", subject="node/elsewhere").status_code == 200, "not seen")
    assert "does not allow cordon" in fix(cluster, "node/elsewhere", "--deed", "cordon", "--do", code=2)
    assert not is_closed(admin, "elsewhere")
    assert "does not allow" in fix(cluster, "node/elsewhere", "--deed", "cordon")["result"]
    admin.delete(NODES, "elsewhere")


def test_the_server_cordons_by_itself_within_the_budget(
    cluster: LiveCluster, admin: KubernetesClient
) -> None:
    """Xid 79 of three nodes with a budget of two, a program's fault, and one that nobody approved."""
    cluster.tell_faults(*EVERY_FAULT)

    def waiting() -> dict[str, Any]:
        return {one["target"]["name"]: one for one in fix(cluster, "log", "--state", "waiting")}

    until(lambda: {OTHERS[2], NODE} <= waiting().keys(), "nothing waits")
    assert [is_closed(admin, node) for node in (NODE, *OTHERS)] == [False, True, True, False, False]
    assert "at most 2 nodes" in waiting()[OTHERS[2]]["held_back"]
    assert "xid-95 is not approved" in waiting()[NODE]["held_back"]
    done = [one for one in fix(cluster, "log") if one["by"] == "server policy" and one["state"] == "done"]
    assert {one["target"]["name"] for one in done} == set(OTHERS[:2])
    assert all(one["source"].startswith("event ") and one["undo"] == "uncordon" for one in done)

    over = waiting()[OTHERS[2]]["id"]
    assert "at most 2 nodes" in fix(cluster, "approve", over, code=2)
    fix(cluster, "undo", done[0]["id"])
    approved = fix(cluster, "approve", over, "--by", "ann")
    assert (approved["state"], approved["by"], approved["approved_by"]) == ("done", "server policy", "ann")
    assert is_closed(admin, OTHERS[2])
    assert fix(cluster, "undo", waiting()[NODE]["id"])["result"].startswith("rejected by")
    shown = cluster.get("/metrics").text
    assert "\ntrilens_fix_delay_seconds " in shown
    assert 'trilens_fixes_total{deed="cordon",outcome="waiting"} 2.0' in shown
    assert "\ntrilens_fixes_waiting 0.0" in shown


def test_the_policy_is_read_again_and_a_wrong_one_changes_nothing(cluster: LiveCluster) -> None:
    file, node = cluster.folder / "policy.yaml", f"node/{NODE}"
    written = file.read_text()

    def reload(text: str) -> httpx.Response:
        file.write_text(text)
        return httpx.post(f"{cluster.url}/-/reload", timeout=60)

    wrong = reload(written.replace("xid-79", "xid-13"))
    assert (wrong.status_code, "never closes a node" in wrong.text) == (400, True)
    assert fix(cluster, node, "--deed", "cordon")["result"] == ""
    assert reload("allow: []\n").status_code == 200
    assert "does not allow cordon" in fix(cluster, node, "--deed", "cordon")["result"]
    assert reload(written).status_code == 200
    assert fix(cluster, node, "--deed", "cordon")["result"] == ""


def test_pods_go_and_budgets_stand_against_it(cluster: LiveCluster, admin: KubernetesClient) -> None:
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"job-name": "running"}}}}
    admin.create(BUDGETS, {"metadata": {"name": "keep"}, **budget}, NAMESPACE)
    admin.patch_status(BUDGETS, "keep", NONE_MAY_GO, NAMESPACE)
    refused = fix(cluster, "pod/running-0", "--deed", "evict", "--do", code=1)
    assert refused["state"] == "failed"
    assert "violate the pod's disruption budget" in refused["result"]
    assert "refused now" in fix(cluster, "pod/running-0", "--deed", "evict")["result"]

    tried = fix(cluster, "pod/running-0", "--deed", "delete-pod")
    assert tried["before"]["node"] == NODE
    assert "deletionTimestamp" not in admin.get(PODS, "running-0", NAMESPACE)["metadata"]
    noted = fix(cluster, "pod/running-0", "--deed", "annotate", "--set", "who=ann", "--do")
    assert admin.get(PODS, "running-0", NAMESPACE)["metadata"]["annotations"]["who"] == "ann"
    fix(cluster, "undo", noted["id"])
    assert "who" not in admin.get(PODS, "running-0", NAMESPACE)["metadata"]["annotations"]
    with ThreadPoolExecutor(1) as somebody:
        told = {"subject": "pod/running-0", "deed": "evict", "do": "true", "wait": "1m"}
        evicts = somebody.submit(httpx.post, f"{cluster.url}/api/fixes", data=told, timeout=90)
        until(lambda: bool(cluster.get("/api/fixes", state="begun").json()["data"]), "not begun")
        admin.delete(BUDGETS, "keep", NAMESPACE)
        done = evicts.result().json()["data"]
    assert (done["state"], done["after"], done["undo"]) == ("done", {"evicted": True}, "")
    pod = admin.get(PODS, "running-0", NAMESPACE)
    assert pod["metadata"]["deletionTimestamp"]  # no kubelet is there to end it


def test_a_job_of_an_old_server_cannot_be_suspended_and_a_deployment_is_rolled(
    cluster: LiveCluster, admin: KubernetesClient
) -> None:
    assert "has no spec.suspend" in fix(cluster, "Job/waiting", "--deed", "restart", code=2)
    template: Json = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    made = admin.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec}, NAMESPACE)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "web",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    pod = {
        "metadata": {"name": "web-0", "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {**template["spec"], "nodeName": NODE},
    }
    admin.create(PODS, pod, NAMESPACE)
    until(lambda: bool(cluster.get("/api/workloads", name="web").json()["data"]), "not seen")
    done = fix(cluster, "Deployment/web", "--deed", "restart", "--do")
    assert done["state"] == "done", done
    stamped = admin.get(DEPLOYMENTS, "web", NAMESPACE)["spec"]["template"]["metadata"]["annotations"]
    assert stamped["kubectl.kubernetes.io/restartedAt"] == done["after"]["restarted_at"]


def test_proposals_name_the_command(cluster: LiveCluster, admin: KubernetesClient) -> None:
    """Also of an incident, which stands for its node."""
    cluster.tell_faults(*EVERY_FAULT)
    until(lambda: bool(cluster.get("/api/events", node=OTHERS[0]).json()["data"]), "no fault")
    shown = trilens_here("fix", f"node/{OTHERS[0]}", "--server", cluster.url)
    assert shown.returncode == 0, shown.stderr
    assert f"trilens fix lab/node/{OTHERS[0]} --deed cordon --do" in shown.stdout

    def incidents() -> list[str]:
        found = cluster.get("/api/incidents", node=OTHERS[0]).json()["data"]
        return [one["id"] for one in found if one["subject"]["node"] == OTHERS[0]]

    until(lambda: bool(incidents()), "no incident")
    assert trilens_here("fix", incidents()[0], "--server", cluster.url).stdout == shown.stdout
    refused = trilens_here("fix", "20260101-0000-abcd", "--server", cluster.url)
    assert (refused.returncode, "20260101-0000-abcd" in refused.stderr) == (2, True)


def test_nobody_passes_for_the_server(cluster: LiveCluster) -> None:
    for path in ("", "/1/approve", "/1/undo"):
        told = {"subject": f"node/{NODE}", "deed": "cordon", "by": "server policy"}
        refused = httpx.post(f"{cluster.url}/api/fixes{path}", data=told, timeout=60)
        assert (refused.status_code, '"by"' in refused.json()["error"]) == (400, True)


def test_what_waits_is_shown_without_a_name(cluster: LiveCluster) -> None:
    assert cluster.get("/api/fixes", state="odd").status_code == 400
    assert cluster.get("/api/fixes", limit="5000").status_code == 400
    shown = trilens_here("fix", "--server", cluster.url)
    assert shown.returncode == 0, shown.stderr
    log = trilens_here("fix", "log", "--server", cluster.url)
    assert log.returncode == 0, log.stderr
    named = trilens_here("fix", "--deed", "cordon", "--server", cluster.url)
    assert (named.returncode, "nobody is named" in named.stderr) == (2, True)
