"""What pods wrote, where no agent tells: a real API server asks a kubelet, which alone is made up."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from kubernetes_api import Rule
from kubernetes_client import NODES, PODS
from trilens.collect.kubernetes.rbac import why_manifests
from trilens.model.workload import PodKey
from trilens.serve.cases.about import About
from trilens.serve.cases.kinds import ONLY_ASKED
from trilens.serve.cases.objects import CaseObjects
from trilens.settings.kubernetes import ClusterSettings, KubernetesSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence
    from pathlib import Path

    from kubernetes_api import Identity, KubernetesServer
    from trilens.model.kubernetes import KubeObject
    from trilens.serve.cases.about import Written

SOON_S = 20.0
LONG = "x" * 1000


class Kubelet:
    """Says what containers wrote as a kubelet does: the last lines, of these the first bytes."""

    def __init__(self, said: Mapping[tuple[str, bool], str]) -> None:
        self.said = said
        self.asked: list[dict[str, str]] = []
        self.hangs = asyncio.Event()
        self.port = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(dict(request.query))
        if request.match_info["container"] == "hangs":
            await self.hangs.wait()
        text = self.said.get((request.match_info["container"], "previous" in request.query))
        if text is None:
            return web.Response(status=404, text="there is no such container")
        lines = text.splitlines(keepends=True)[-int(request.query["tailLines"]) :]
        return web.Response(body="".join(lines).encode()[: int(request.query["limitBytes"])])


@asynccontextmanager
async def kubelet(
    kubernetes: KubernetesServer, said: Mapping[tuple[str, bool], str]
) -> AsyncIterator[Kubelet]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    folder = kubernetes.authority.parent
    tls.load_cert_chain(folder / "server.pem", folder / "server.key")
    there = Kubelet(said)
    app = web.Application()
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", there.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    there.port = runner.addresses[0][1]
    try:
        yield there
    finally:
        there.hangs.set()
        await runner.cleanup()


def _make_pod(kubernetes: KubernetesServer, namespace: str, port: int, *statuses: dict[str, Any]) -> PodKey:
    admin = kubernetes.client()
    admin.create(NODES, {"metadata": {"name": namespace}})
    address = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
    admin.patch_status(NODES, namespace, {**address, "daemonEndpoints": {"kubeletEndpoint": {"Port": port}}})
    containers = [{"name": one["name"], "image": "x"} for one in statuses]
    spec = {"nodeName": namespace, "containers": containers}
    made = admin.create(PODS, {"metadata": {"name": "train-0"}, "spec": spec}, namespace)
    told = [{"ready": False, "image": "x", "imageID": "x", **one} for one in statuses]
    admin.patch_status(PODS, "train-0", {"phase": "Running", "containerStatuses": told}, namespace)
    return PodKey("lab", namespace, "train-0", made["metadata"]["uid"])


def _status(name: str, *, restarts: int = 0, state: str = "running") -> dict[str, Any]:
    began = {"startedAt": "2026-01-01T00:00:00Z"}
    ended = {"exitCode": 1, **began, "finishedAt": "2026-01-01T01:00:00Z", "containerID": "cri://1"}
    states = {"running": {"running": began}, "waiting": {"waiting": {"reason": "ContainerCreating"}}}
    before = {"lastState": {"terminated": ended}} if restarts else {}
    return {"name": name, "restartCount": restarts, "state": states[state], **before}


class Followed:
    def pods_of(self, _cluster: str, _keep: object, _within_s: float) -> Sequence[KubeObject]:
        return ()


async def _logs(
    kubernetes: KubernetesServer,
    folder: Path,
    pod: PodKey,
    who: Identity | None = None,
    within_s: float = SOON_S,
) -> Written:
    about = About("lab", [], [pod], [])
    settings = KubernetesSettings(
        clusters={"lab": ClusterSettings(kubeconfig=kubernetes.kubeconfig(who), namespaces=[pod.namespace])}
    )
    case = CaseObjects(settings, folder, Followed())
    now = asyncio.get_running_loop().time
    try:
        found = await case.ask(about, now() + SOON_S)
        return await case.logs(about, found.objects, [pod], {pod: 3}, now() + within_s)
    finally:
        await case.close()


async def test_this_run_and_the_one_before_it(
    kubernetes: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    said = {
        ("main", False): "".join(f"line {n}\n" for n in range(600)),
        ("main", True): "RuntimeError: fell\n",
        ("wide", False): f"{LONG}\n" * 400 + "the end\n",
    }
    async with kubelet(kubernetes, said) as there:
        pod = _make_pod(
            kubernetes,
            namespace,
            there.port,
            _status("main", restarts=2),
            _status("wide"),
            _status("new", state="waiting"),
        )
        # With what is printed for it and, as everybody who watches has it, the list of pods.
        role = why_manifests(ONLY_ASKED)[0]
        rules = [Rule(one["apiGroups"][0], one["resources"], one["verbs"]) for one in role["rules"]]
        reader = kubernetes.user(f"{namespace}-why", *rules, Rule("", ("pods",), ("list",)))
        written = await _logs(kubernetes, tmp_path, pod, reader)
    assert (written.missing, written.pods) == ((), {pod})
    before, now, wide = written.logs
    assert (before.name, before.lines, before.is_cut) == ("main (run 1)", ("RuntimeError: fell",), False)
    assert (now.name, now.lines[0], now.lines[-1], now.is_cut) == ("main", "line 100", "line 599", True)
    assert (now.node, now.pod, now.rank) == (namespace, pod, 3)
    assert (wide.lines[-1], wide.is_cut) == ("the end", True)  # fewer lines, but the last
    assert len(there.asked) == 4, "a container that has not begun is not asked for"


async def test_who_may_not_read_them_is_told_the_rule(
    kubernetes: KubernetesServer, namespace: str, tmp_path: Path
) -> None:
    pod = _make_pod(kubernetes, namespace, 1, _status("main", restarts=1))
    reader = kubernetes.user(f"{namespace}-logs", Rule("", ("pods",), ("list",)), namespace=namespace)
    written = await _logs(kubernetes, tmp_path, pod, reader)
    (missing,) = written.missing
    assert (written.logs, written.pods) == ((), frozenset())
    assert missing.what == f"what containers in {namespace} wrote, from the API server: it may not be read"
    assert missing.remedy.startswith(f'allow "get" on pods/log of API group "" in namespace {namespace};')


@pytest.mark.parametrize("fault", ["gone", "silent"])
async def test_a_kubelet_that_does_not_tell_is_named(
    kubernetes: KubernetesServer, namespace: str, tmp_path: Path, fault: str
) -> None:
    async with kubelet(kubernetes, {}) as there:
        port = 1 if fault == "gone" else there.port
        pod = _make_pod(kubernetes, namespace, port, _status("hangs"))
        written = await _logs(kubernetes, tmp_path, pod, within_s=SOON_S if fault == "gone" else 0.3)
    (missing,) = written.missing
    assert f"what containers on {namespace} wrote, from the API server: " in missing.what
    assert written.pods == frozenset()
