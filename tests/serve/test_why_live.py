"""Case files of a real API server and an agent: live and from a bundle the verdict is the same."""

from __future__ import annotations

import io
import json
import zipfile
from functools import partial
from typing import TYPE_CHECKING

import pytest

from command_here import trilens_here
from kubernetes_client import NODES, PODS, Resource
from live_cluster import SECRETS, UNSCHEDULABLE, LiveCluster, live_cluster
from servers import until
from trilens.diagnose.bundle import read_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.walk import why

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes_api import KubernetesServer
    from trilens.diagnose.case_file import CaseFile

pytestmark = pytest.mark.whole

NAMESPACE = "why-live"
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")


@pytest.fixture(scope="module")
def cluster(kubernetes: KubernetesServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveCluster]:
    with live_cluster(kubernetes, tmp_path_factory.mktemp("live"), NAMESPACE) as found:
        yield found


def _case(cluster: LiveCluster, subject: str, **params: str) -> CaseFile:
    answer = cluster.get("/api/case", subject=subject, **params)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    return read_bundle(io.BytesIO(answer.content))


@pytest.mark.parametrize(
    "subject",
    [
        f"{NAMESPACE}/waiting",
        f"lab/{NAMESPACE}/Job/running",
        f"lab/{NAMESPACE}/pod/running-0",
        f"node/{NAMESPACE}-node",
    ],
    ids=["waiting-workload", "running-workload", "pod", "node"],
)
def test_the_verdict_is_the_same_live_and_from_a_bundle(
    cluster: LiveCluster, subject: str, tmp_path: Path
) -> None:
    file = tmp_path / "case.zip"
    written = trilens_here("bundle", subject, "-o", str(file), "--server", cluster.url)
    assert written.returncode == 0, written.stderr
    live = json.loads(trilens_here("why", subject, "--server", cluster.url, "--json").stdout)
    carried = json.loads(trilens_here("why", "--bundle", str(file), "--json").stdout)
    assert live["subject"] == carried["subject"]
    assert live["verdicts"]
    told = ("cause", "layer", "text", "confidence", "fix", "where")
    assert [[one[name] for name in told] for one in live["verdicts"]] == [
        [one[name] for name in told] for one in carried["verdicts"]
    ]


def test_a_case_has_what_the_cluster_and_the_agent_know(cluster: LiveCluster) -> None:
    case = _case(cluster, "waiting", namespace=NAMESPACE)
    kinds = {(one.kind, one.name) for one in case.objects}
    assert {("Pod", "waiting-0"), ("Job", "waiting"), ("Node", cluster.node)} <= kinds
    assert ("Pod", "running-0") in kinds  # which has the GPUs that it waits for
    (event,) = (one for one in case.objects if one.kind == "Event")
    assert event.body["message"] == UNSCHEDULABLE
    assert [one.membership.pod.name for one in case.members] == ["waiting-0"]
    assert case.phases[-1].phase == "scheduling"

    case = _case(cluster, f"lab/{NAMESPACE}/Job/running")
    (log,) = case.logs
    assert (log.name, log.node, log.lines[0]) == ("main", cluster.node, "step 1 of running-0")
    assert [one.code for one in case.events] == [31]

    case = _case(cluster, f"node/{cluster.node}")
    assert {one.name for one in case.objects if one.kind == "Pod"} == {"running-0"}
    assert [one.key.name for one in case.workloads] == ["running"]


def test_xids_of_a_bundle_are_those_that_the_agent_told(cluster: LiveCluster, tmp_path: Path) -> None:
    file = tmp_path / "case.zip"
    written = trilens_here("bundle", f"lab/{NAMESPACE}/Job/running", "-o", str(file), "--server", cluster.url)
    assert written.returncode == 0, written.stderr
    told = json.loads(trilens_here("xid", "--bundle", str(file), "--json").stdout)
    assert [one["root"]["code"] for one in told["episodes"]] == [31]


@pytest.mark.parametrize("subject", ["waiting", "running"])
def test_no_secret_is_handed_on(cluster: LiveCluster, subject: str) -> None:
    answer = cluster.get("/api/case", subject=subject, namespace=NAMESPACE)
    with zipfile.ZipFile(io.BytesIO(answer.content)) as bundle:
        content = b"".join(bundle.read(name) for name in bundle.namelist())
    assert [secret for secret in SECRETS if secret.encode() in content] == []
    assert b"DB_LOGIN" in content  # names of variables stay
    assert b"--api-key" in content


def test_masked_names_are_nowhere_in_it(cluster: LiveCluster) -> None:
    answer = cluster.get("/api/case", subject="running", namespace=NAMESPACE, mask_names="true")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as bundle:
        content = b"".join(bundle.read(name) for name in bundle.namelist())
    assert [name for name in (NAMESPACE, cluster.node, "running-0") if name.encode() in content] == []
    case = read_bundle(io.BytesIO(answer.content))
    (pod,) = {one.membership.pod for one in case.members}
    assert case.logs[0].lines[0] == f"step 1 of {pod.name}"


def test_what_nobody_is_called_and_what_several_are(cluster: LiveCluster) -> None:
    answer = cluster.get("/api/why", subject="nobody")
    assert (answer.status_code, answer.json()["errorType"]) == (404, "not_found")
    assert cluster.get("/api/why").status_code == 400
    assert cluster.get("/api/why", subject="a//b").status_code == 400
    refused = trilens_here("why", "nobody", "--server", cluster.url)
    assert (refused.returncode, "no workload, pod or node 'nobody'" in refused.stderr) == (2, True)


def test_people_read_the_cause_first_and_then_the_way(cluster: LiveCluster) -> None:
    shown = trilens_here("why", "waiting", "-n", NAMESPACE, "--server", cluster.url)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0].startswith(f"workload waiting in {NAMESPACE} (lab), ")
    assert lines.index("The way to it:") > 2


def test_pods_that_are_in_no_workload(cluster: LiveCluster, kubernetes: KubernetesServer) -> None:
    """One by itself is a workload; a static one and those of DaemonSets are not, and are asked about, too."""
    admin = kubernetes.client()
    spec = {"containers": [{"name": "main", "image": "x"}]}
    template = {"metadata": {"labels": {"app": "plugin"}}, "spec": spec}
    daemons = admin.create(
        DAEMON_SETS,
        {
            "metadata": {"name": "plugin"},
            "spec": {"selector": {"matchLabels": {"app": "plugin"}}, "template": template},
        },
        NAMESPACE,
    )
    node = admin.get(NODES, cluster.node)
    owners = {
        "bare": [],
        "static": [("v1", "Node", node)],
        "plugin-x": [("apps/v1", "DaemonSet", daemons)],
    }
    for name, of in owners.items():
        owned = [
            {"apiVersion": version, "kind": kind, "controller": True}
            | {key: one["metadata"][key] for key in ("name", "uid")}
            for version, kind, one in of
        ]
        metadata = {"name": name, "ownerReferences": owned, "labels": {"app": "plugin"}}
        admin.create(PODS, {"metadata": metadata, "spec": {**spec, "nodeName": cluster.node}}, NAMESPACE)
    for name in owners:
        # The watch tells of one by itself a moment before it is written down as a workload.
        until(partial(_is_known, cluster, name if name == "bare" else f"pod/{name}"), f"{name} is not seen")
        case = _case(cluster, f"{NAMESPACE}/{name}")
        assert (case.subject.kind == "workload", len(case.members)) == (
            (True, 1) if name == "bare" else (False, 0)
        )
        kinds = {(one.kind, one.name) for one in case.objects}
        assert {("Pod", name), ("Node", cluster.node), ("DaemonSet", "plugin")} <= kinds
        assert why(Case(case))[0].cause == "still-starting"


def _is_known(cluster: LiveCluster, subject: str) -> bool:
    answer = cluster.get("/api/why", subject=subject)
    is_workload = answer.status_code == 200 and answer.json()["data"]["subject"]["kind"] == "workload"
    return is_workload or (answer.status_code == 200 and subject.startswith("pod/"))


def test_an_incident_by_its_id(cluster: LiveCluster) -> None:
    """As `trilens incidents` shows it; the last of this file, since it makes a GPU fall."""
    cluster.tell_faults((cluster.node, 79))

    def incidents() -> list[str]:
        found = cluster.get("/api/incidents", node=cluster.node).json()["data"]
        return [one["id"] for one in found]

    until(lambda: bool(incidents()), "no incident")
    id = incidents()[0]
    shown = trilens_here("incidents", id, "--server", cluster.url)
    assert f"trilens why {id}" in shown.stdout
    told = trilens_here("why", id, "--server", cluster.url, "--json")
    assert told.returncode == 0, told.stderr
    answer = json.loads(told.stdout)
    assert cluster.node in {one["where"]["node"] for one in answer["verdicts"]}
    absent = cluster.get("/api/why", subject="20260101-0000-abcd")
    assert (absent.status_code, "20260101-0000-abcd" in absent.json()["error"]) == (404, True)
