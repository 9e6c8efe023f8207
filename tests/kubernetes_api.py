"""A real Kubernetes API server with its etcd, as the envtest convention has it: no kubelet, no controllers.

Nothing runs in it and nothing cleans up: a pod stays as it was created until a test says otherwise, and a
deleted namespace keeps its objects. `tests/conftest.py` has one for the session, and one for a test alone.
"""

from __future__ import annotations

import os
import ssl
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import httpx
import yaml

from certificates import make_authority, sign
from kubernetes_client import NAMESPACES, Json, KubernetesClient, Resource
from servers import free_port, missing, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_RBAC = "rbac.authorization.k8s.io"
_CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", namespaced=False)
_CLUSTER_ROLE_BINDINGS = Resource(_RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
_ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding")
_SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


class Rule(NamedTuple):
    """What RBAC lets somebody do, to resources of one API group."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]


@dataclass(frozen=True)
class Identity:
    """Somebody the API server knows, by a certificate (a path without its ending) or by a token."""

    name: str
    certificate: Path | None = None
    token: str = ""


class KubernetesServer:
    """Begins and ends, and knows who may speak with it. Killed, it starts again on its port with its data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._programs = _assets()
        self._etcd_url = f"http://127.0.0.1:{free_port()}"
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._clients: dict[Identity, KubernetesClient] = {}
        self.url = f"https://127.0.0.1:{self._port}"
        make_authority(folder)
        sign(folder, "server", hosts="IP:127.0.0.1")
        self.admin = self._with_certificate("admin", group="system:masters")  # may do everything

    @property
    def authority(self) -> Path:
        """The certificate that the server's own is signed with."""
        return self._folder / "ca.pem"

    @property
    def runs(self) -> bool:
        return bool(self._processes)

    def start(self) -> None:
        etcd: list[str | Path] = [
            self._programs / "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--unsafe-no-fsync",  # what the kernel has survives kill -9, and tests need no more
        ]
        self._run(etcd, lambda: httpx.get(f"{self._etcd_url}/health", trust_env=False).is_success)
        own = self._folder / "server"
        api_server: list[str | Path] = [
            self._programs / "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            f"--tls-cert-file={own}.pem",
            f"--tls-private-key-file={own}.key",
            f"--client-ca-file={self.authority}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={own}.pem",
            f"--service-account-signing-key-file={own}.key",
            # It wants a service account in each namespace, which a controller would make.
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",  # a loopback address cannot be the endpoint of a service
            "--advertise-address=127.0.0.1",  # or it looks for a network, and there may be none
        ]
        self._run(api_server, self.client().is_ready)
        # It counts as ready a moment before the namespaces that every cluster has are made.
        until(self._has_default_namespace, "there is no namespace default")

    def kill(self) -> None:
        """As kill -9 does: both, at once."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self.kill()  # its data is not wanted, so there is nothing to wait for

    def forget_history(self) -> None:
        """From here on a watch from any earlier resourceVersion is Gone (410). Watches under way are cut off.

        etcd drops the past, and the API server, which remembers some of it too, starts again.
        """
        # A watch from the very last change would not be too old.
        put = self._etcd("kv/put", {"key": "Zm9yZ2V0", "value": ""})
        self._etcd("kv/compaction", {"revision": put["header"]["revision"], "physical": True})
        self.kill()
        self.start()

    def client(self, identity: Identity | None = None) -> KubernetesClient:
        """Calls as somebody; as the admin unless told."""
        identity = identity or self.admin
        if identity not in self._clients:
            trust = ssl.create_default_context(cafile=self.authority)
            if identity.certificate:
                trust.load_cert_chain(f"{identity.certificate}.pem", f"{identity.certificate}.key")
            self._clients[identity] = KubernetesClient(self.url, trust, identity.token)
        return self._clients[identity]

    def kubeconfig(self, identity: Identity | None = None) -> Path:
        """A file that kubectl would take; for the admin unless told."""
        identity = identity or self.admin
        user = {"token": identity.token}
        if identity.certificate:
            user = {
                "client-certificate": f"{identity.certificate}.pem",
                "client-key": f"{identity.certificate}.key",
            }
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": identity.name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": identity.name}}],
            "current-context": "test",
        }
        path = self._folder / f"{identity.name.replace(':', '-')}.kubeconfig"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return path

    def user(self, name: str, *rules: Rule, namespace: str = "") -> Identity:
        """Somebody with a certificate who may do this: in one namespace, or in all."""
        identity = self._with_certificate(name)
        self._allow(identity, {"kind": "User", "name": name, "apiGroup": _RBAC}, rules, namespace)
        return identity

    def service_account(self, home: str, name: str, *rules: Rule, namespace: str = "") -> Identity:
        """Somebody with a token, as a pod in the namespace `home` has it."""
        self.client().create(_SERVICE_ACCOUNTS, {"metadata": {"name": name}}, home)
        path = _SERVICE_ACCOUNTS.path(home, name) + "/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.client().request("POST", path, asked)["status"]["token"]
        identity = Identity(f"system:serviceaccount:{home}:{name}", token=token)
        subject = {"kind": "ServiceAccount", "name": name, "namespace": home}
        self._allow(identity, subject, rules, namespace)
        return identity

    def _with_certificate(self, name: str, group: str = "") -> Identity:
        files = f"user-{name}"
        sign(self._folder, files, subject=f"/O={group}/CN={name}" if group else f"/CN={name}")
        return Identity(name, certificate=self._folder / files)

    def _allow(self, identity: Identity, subject: Json, rules: tuple[Rule, ...], namespace: str) -> None:
        if not rules:
            return
        role = {
            "metadata": {"name": identity.name},
            "rules": [{"apiGroups": [r.group], "resources": r.resources, "verbs": r.verbs} for r in rules],
        }
        self.client().create(_CLUSTER_ROLES, role)
        binding = {
            "metadata": {"name": identity.name},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": identity.name},
            "subjects": [subject],
        }
        bindings = _ROLE_BINDINGS if namespace else _CLUSTER_ROLE_BINDINGS
        self.client().create(bindings, binding, namespace)
        # The server reads roles by watching them as well, so a new one counts a little later.
        until(lambda: self._may(identity, rules[-1], namespace), f"{identity.name} has no rights")

    def _may(self, identity: Identity, rule: Rule, namespace: str) -> bool:
        wish = {"group": rule.group, "resource": rule.resources[0], "verb": rule.verbs[0]}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**wish, "namespace": namespace}},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = self.client(identity).request("POST", path, review)
        allowed: bool = answer["status"]["allowed"]
        return allowed

    def _has_default_namespace(self) -> bool:
        namespaces = self.client().list(NAMESPACES)["items"]
        return any(namespace["metadata"]["name"] == "default" for namespace in namespaces)

    def _run(self, command: list[str | Path], is_ready: Callable[[], bool]) -> None:
        log = self._folder / f"{Path(command[0]).name}.log"
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        self._processes.append(process)

        def is_up() -> bool:
            assert process.poll() is None, f"{command[0]} ended:\n{log.read_text(errors='replace')[-2000:]}"
            try:
                return is_ready()
            except httpx.TransportError:
                return False

        until(is_up, f"{command[0]} did not become ready, see {log}")

    def _etcd(self, call: str, body: Json) -> Json:
        answer = httpx.post(f"{self._etcd_url}/v3/{call}", json=body, trust_env=False)
        decoded: Json = answer.raise_for_status().json()
        return decoded


@contextmanager
def kubernetes_server(folder: Path) -> Iterator[KubernetesServer]:
    """A ready API server; what it keeps and logs is in `folder`. Skips where there is none."""
    server = KubernetesServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.close()


def _assets() -> Path:
    tool = Path(__file__).resolve().parent.parent / "tools" / "kubernetes"
    answer = subprocess.run([tool, "--where"], capture_output=True, text=True, check=True)
    folder = Path(answer.stdout.strip())
    for program in ("etcd", "kube-apiserver"):
        if not os.access(folder / program, os.X_OK):
            missing(f"no {program} in {folder}: run tools/kubernetes, or set KUBEBUILDER_ASSETS")
    return folder
