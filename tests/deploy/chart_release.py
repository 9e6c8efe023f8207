"""The chart in a real API server, by the real helm, and its pods as a kubelet would prepare them."""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import yaml
from chart import CHART, RELEASE, helm
from local_container import running_container

from kubernetes_client import NAMESPACES, Resource

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from local_container import Container

    from kubernetes_api import KubernetesServer

Json = dict[str, Any]

STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


class Release:
    """`trilens` in one namespace."""

    def __init__(self, server: KubernetesServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self._client = server.client()

    def install(self, *settings: str, values: Path | None = None) -> str:
        """Or upgrade, with images of a registry unless told otherwise. Returns what helm tells."""
        return self._helm(settings, values, check=True).stdout

    def refusal(self, *settings: str) -> str:
        """What helm says where it installs nothing."""
        answer = self._helm(settings, None, check=False)
        assert answer.returncode != 0, f"{settings} are taken"
        return answer.stderr

    def _helm(
        self, settings: tuple[str, ...], values: Path | None, *, check: bool
    ) -> subprocess.CompletedProcess[str]:
        every = ("image.registry=registry.example", *settings)
        flags: list[str | Path] = [word for one in every for word in ("--set", one)]
        if values is not None:
            flags += ["--values", values]
        way: list[str | Path] = ["--kubeconfig", self.server.kubeconfig(), "--namespace", self.namespace]
        with tempfile.TemporaryDirectory() as folder:
            chart = _that_an_old_server_takes(Path(folder) / "trilens")
            return helm("upgrade", "--install", RELEASE, chart, *way, *flags, check=check)

    def pod(self, resource: Resource, name: str) -> Json:
        spec: Json = self._client.get(resource, name, self.namespace)["spec"]["template"]["spec"]
        return spec

    def token(self, key: str) -> str:
        data = self._client.get(SECRETS, RELEASE, self.namespace)["data"]
        return base64.b64decode(data[key]).decode()

    def ask(self, url: str) -> Json:
        """Of the server, with its token."""
        token = {"Authorization": f"Bearer {self.token('server-token')}"}
        answer = httpx.get(url, headers=token, trust_env=False, timeout=30)
        assert answer.status_code == 200, answer.text
        told: Json = answer.json()
        return told

    def account_token(self, name: str) -> str:
        path = SERVICE_ACCOUNTS.path(self.namespace, name) + "/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token: str = self._client.request("POST", path, asked)["status"]["token"]
        return token

    def volumes(self, pod: Json, folder: Path, host: Mapping[str, Path]) -> dict[str, Path]:
        """By their names; `host` has what stands for paths of the node. A claim is an empty folder."""
        made = {}
        group = pod["securityContext"].get("fsGroup", -1)
        for volume in pod.get("volumes", []):
            path = folder / f"volume-{volume['name']}"
            if "hostPath" in volume:
                path = host[volume["hostPath"]["path"]]
            elif "configMap" in volume:
                data = self._client.get(CONFIG_MAPS, volume["configMap"]["name"], self.namespace)["data"]
                _write(path, data, group)
            elif "secret" in volume:
                wanted = volume["secret"]
                kept = self._client.get(SECRETS, wanted["secretName"], self.namespace)["data"]
                items = wanted.get("items") or [{"key": key, "path": key} for key in kept]
                texts = {one["path"]: base64.b64decode(kept[one["key"]]).decode() for one in items}
                _write(path, texts, group)
            else:
                _empty(path, group)
            made[volume["name"]] = path
        return made

    def claim(self, folder: Path, group: int) -> Path:
        """The volume that a claim of the StatefulSet would be bound to."""
        return _empty(folder / "claim", group)

    def account(self, name: str, folder: Path) -> dict[str, Path]:
        """What a cluster puts into each pod of a service account."""
        path = folder / "service-account"
        files = {
            "token": self.account_token(name),
            "ca.crt": self.server.authority.read_text(),
            "namespace": self.namespace,
        }
        _write(path, files, -1)
        return {ACCOUNT_FOLDER: path}


def new_release(server: KubernetesServer) -> Release:
    """In a namespace of its own, and not installed yet."""
    namespace = f"chart-{uuid.uuid4().hex[:8]}"
    server.client().create(NAMESPACES, {"metadata": {"name": namespace, "labels": {"team": "platform"}}})
    return Release(server, namespace)


def pod_address() -> str:
    """Of loopback, as no other pod has it."""
    number = uuid.uuid4().int
    return f"127.{77 + number % 100}.{number // 1000 % 250}.{1 + number // 1000000 % 250}"


@contextmanager
def running_server(release: Release, folder: Path) -> Iterator[tuple[Container, str]]:
    """The first pod of the StatefulSet, well, and its URL."""
    address, pod = pod_address(), release.pod(STATEFUL_SETS, RELEASE)
    host, port = release.server.url.removeprefix("https://").split(":")
    environ = {
        "metadata.name": f"{RELEASE}-0",
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "TRILENS_SERVER_LISTEN": f"{address}:9333",
    }
    volumes = {
        **release.volumes(pod, folder, {}),
        **release.account(pod["serviceAccountName"], folder),
        "data": release.claim(folder, pod["securityContext"]["fsGroup"]),
    }
    scheme = pod["containers"][0]["livenessProbe"]["httpGet"]["scheme"].lower()
    with running_container(
        "server", pod, address=address, volumes=volumes, environ=environ, folder=folder
    ) as running:
        running.until_well()
        yield running, f"{scheme}://{address}:9333"


def _that_an_old_server_takes(chart: Path) -> Path:
    """A copy. The API server of the tests is 1.20, which of what the chart needs lacks policy/v1 alone."""
    shutil.copytree(CHART, chart)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump({**about, "kubeVersion": ">=1.20.0-0"}))
    return chart


def _write(path: Path, texts: Mapping[str, str], group: int) -> None:
    path.mkdir()
    for name, text in texts.items():
        file = path / name
        file.write_text(text, encoding="utf-8")
        os.chown(file, 0, group)
        file.chmod(0o644)


def _empty(path: Path, group: int) -> Path:
    """As a kubelet gives a volume to the pod's group."""
    path.mkdir()
    os.chown(path, 0, group)
    path.chmod(0o2775)
    return path
