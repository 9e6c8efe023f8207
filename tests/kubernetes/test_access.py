"""Every way in: the pod's service account, and what a kubeconfig may hold."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
import yaml
from scripted_api import ScriptedApi, page, pod, scripted_api
from watching import watching

from kubernetes_api import Rule
from kubernetes_client import PODS
from trilens.collect.kubernetes.access import InClusterAccess
from trilens.collect.kubernetes.api import KubeApi
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess
from trilens.model.errors import ConfigError, KubeApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from kubernetes_api import KubernetesServer
    from trilens.collect.kubernetes.access import Access

READ_PODS = Rule("", ("pods",), ("list", "watch"))
EXEC = "client.authentication.k8s.io/v1"


async def who_am_i(access: Access) -> str:
    api = KubeApi(access)
    try:
        return await who_asks(api)
    finally:
        await api.close()


async def who_asks(api: KubeApi) -> str:
    """As the server sees it: whom it tells that nodes are not for them to see."""
    with pytest.raises(KubeApiError) as refused:
        await api.get("/api/v1/nodes")
    assert refused.value.status == 403, refused.value
    return refused.value.message.split('"')[1]


@pytest.fixture
def in_cluster(tmp_path: Path, kubernetes: KubernetesServer) -> Callable[[], InClusterAccess]:
    """What the kubelet puts into a pod, but for the token."""
    (tmp_path / "ca.crt").write_bytes(kubernetes.authority.read_bytes())
    address = urlsplit(kubernetes.url)
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(address.port)}
    return lambda: InClusterAccess(tmp_path, environ)


async def test_the_service_account_of_the_pod_whose_token_rotates(
    kubernetes: KubernetesServer,
    namespace: str,
    in_cluster: Callable[[], InClusterAccess],
    tmp_path: Path,
) -> None:
    reader = kubernetes.service_account(namespace, "reader", READ_PODS, namespace=namespace)
    (tmp_path / "token").write_text("expired", encoding="utf-8")
    async with watching(in_cluster(), only=["Pod"], namespaces=[namespace]) as cluster:
        await cluster.until_state(lambda: cluster.state().trouble is not None)
        trouble = cluster.state().trouble
        assert trouble is not None
        assert "does not accept the credentials (401 Unauthorized)" in trouble.text

        (tmp_path / "token").write_text(reader.token + "\n", encoding="utf-8")
        await cluster.until_synced("Pod")
        kubernetes.client().create(PODS, _POD, namespace)
        await cluster.sink.until(lambda: cluster.sink.names("Pod", namespace) == {"a"})
    assert await who_am_i(in_cluster()) == reader.name


def test_out_of_a_cluster_there_is_no_service_account(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"this is no pod.*give a kubeconfig"):
        InClusterAccess(tmp_path, {})
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(ConfigError, match="cannot read the service account's token"):
        InClusterAccess(tmp_path, environ)
    (tmp_path / "token").write_text(" \n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is empty"):
        InClusterAccess(tmp_path, environ)


class Kubeconfig:
    """One to be changed, on the way to a file."""

    def __init__(self, file: Path, whole: dict[str, Any]) -> None:
        self.file = file
        self.whole = whole

    @property
    def cluster(self) -> dict[str, Any]:
        found: dict[str, Any] = self.whole["clusters"][0]["cluster"]
        return found

    @property
    def user(self) -> dict[str, Any]:
        found: dict[str, Any] = self.whole["users"][0]["user"]
        return found

    def write(self) -> Path:
        self.file.write_text(yaml.safe_dump(self.whole), encoding="utf-8")
        return self.file

    def access(self) -> KubeconfigAccess:
        return KubeconfigAccess(self.write())


@pytest.fixture
def config(kubernetes: KubernetesServer, namespace: str, tmp_path: Path) -> Kubeconfig:
    """Of somebody with a certificate, whose name is that of the namespace."""
    file = kubernetes.kubeconfig(kubernetes.user(namespace))
    return Kubeconfig(tmp_path / "kubeconfig", yaml.safe_load(file.read_text(encoding="utf-8")))


def as_data(file: str) -> str:
    return base64.b64encode(Path(file).read_bytes()).decode()


def copy(source: str, target: Path) -> None:
    target.write_bytes(Path(source).read_bytes())


def text_of(file: str) -> str:
    return Path(file).read_text(encoding="utf-8")


async def test_a_certificate_by_file_and_by_data(config: Kubeconfig, namespace: str) -> None:
    assert await who_am_i(config.access()) == namespace
    for part, key in (
        (config.user, "client-certificate"),
        (config.user, "client-key"),
        (config.cluster, "certificate-authority"),
    ):
        part[f"{key}-data"] = as_data(part.pop(key))
    assert await who_am_i(config.access()) == namespace


async def test_files_are_found_beside_the_kubeconfig(config: Kubeconfig, namespace: str) -> None:
    for key in ("client-certificate", "client-key"):
        copy(config.user[key], config.file.parent / key)
        config.user[key] = key
    assert await who_am_i(config.access()) == namespace


async def test_a_certificate_that_is_replaced(
    kubernetes: KubernetesServer, config: Kubeconfig, namespace: str
) -> None:
    other = kubernetes.user(f"{namespace}-other").certificate
    assert other is not None
    for key in ("client-certificate", "client-key"):
        copy(config.user[key], config.file.parent / key)
        config.user[key] = key
    api = KubeApi(config.access())
    assert await who_asks(api) == namespace
    copy(f"{other}.pem", config.file.parent / "client-certificate")
    copy(f"{other}.key", config.file.parent / "client-key")
    assert await who_asks(api) == f"{namespace}-other"
    await api.close()


async def test_a_token_and_a_token_file(
    kubernetes: KubernetesServer, config: Kubeconfig, namespace: str
) -> None:
    first, second = (kubernetes.service_account(namespace, name) for name in ("first", "second"))
    config.whole["users"][0]["user"] = {"token": first.token}
    assert await who_am_i(config.access()) == first.name
    (config.file.parent / "token").write_text(second.token, encoding="utf-8")
    config.whole["users"][0]["user"] = {"tokenFile": "token"}
    access = config.access()
    assert await who_am_i(access) == second.name
    (config.file.parent / "token").write_text(first.token, encoding="utf-8")
    assert await who_am_i(access) == first.name, "it is read each time"


async def test_a_kubeconfig_that_is_written_anew_is_read_anew(
    kubernetes: KubernetesServer, config: Kubeconfig, namespace: str
) -> None:
    access = config.access()
    assert await who_am_i(access) == namespace
    account = kubernetes.service_account(namespace, "other")
    config.whole["users"][0]["user"] = {"token": account.token}
    config.write()
    assert await who_am_i(access) == account.name


async def test_a_server_that_is_not_trusted(config: Kubeconfig, namespace: str) -> None:
    del config.cluster["certificate-authority"]
    api = KubeApi(config.access())
    with pytest.raises(KubeApiError, match="certificate is not accepted"):
        await api.get("/version")
    await api.close()
    config.cluster["insecure-skip-tls-verify"] = True
    assert await who_am_i(config.access()) == namespace


async def test_the_name_that_the_servers_certificate_must_have(config: Kubeconfig) -> None:
    config.cluster["tls-server-name"] = "somebody-else"
    api = KubeApi(config.access())
    with pytest.raises(KubeApiError, match="certificate is not valid for 'somebody-else'"):
        await api.get("/version")
    await api.close()


async def test_another_context_and_on_behalf_of_somebody(
    kubernetes: KubernetesServer, tmp_path: Path
) -> None:
    whole = yaml.safe_load(kubernetes.kubeconfig().read_text(encoding="utf-8"))
    admin = whole["users"][0]["user"]
    whole["users"].append({"name": "as-alice", "user": {**admin, "as": "alice", "as-groups": ["ml"]}})
    whole["contexts"].append({"name": "second", "context": {"cluster": "test", "user": "as-alice"}})
    file = Kubeconfig(tmp_path / "kubeconfig", whole).write()
    assert await who_am_i(KubeconfigAccess(file, "second")) == "alice"
    with pytest.raises(ConfigError, match=r"no context 'third' among its contexts \(second, test\)"):
        KubeconfigAccess(file, "third")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedApi]:
    async with scripted_api() as api:
        yield api


async def test_a_user_name_and_a_password(server: ScriptedApi, tmp_path: Path) -> None:
    server.authorization = {"Basic " + base64.b64encode(b"me:secret").decode()}
    api = KubeApi(server.access(tmp_path, username="me", password="secret"))
    assert await api.get("/api")
    await api.close()


def plugin(folder: Path, **status: str) -> dict[str, Any]:
    """A program that counts how often it ran, and gives what `answer.json` says then."""
    write_answer(folder, **status)
    program = (
        "import os, pathlib, sys; folder = pathlib.Path(sys.argv[1]); "
        "open(folder / 'runs', 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + '\\n'); "
        "assert os.environ['MODE'] == 'test'; print((folder / 'answer.json').read_text())"
    )
    return {
        "apiVersion": EXEC,
        "command": sys.executable,
        "args": ["-c", program, str(folder)],
        "env": [{"name": "MODE", "value": "test"}],
        "provideClusterInfo": True,
    }


def write_answer(folder: Path, version: str = EXEC, **status: str) -> None:
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


def runs(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "runs").read_text(encoding="utf-8").splitlines()]


async def test_a_plugin_is_run_once_and_again_when_its_token_is_refused(
    server: ScriptedApi, tmp_path: Path
) -> None:
    server.authorization = {"Bearer one"}
    server.lists[0] = page(pod("a"))
    access = server.access(tmp_path, exec=plugin(tmp_path, token="one"))
    async with watching(access, only=["Pod"]) as cluster:
        await cluster.until_watched("Pod")
        assert len(runs(tmp_path)) == 1, "for many requests"
        told = runs(tmp_path)[0]
        assert (told["apiVersion"], told["spec"]["interactive"]) == (EXEC, False)
        assert told["spec"]["cluster"]["server"] == server.url

        server.authorization = {"Bearer two"}
        write_answer(tmp_path, token="two")
        asked = len(server.asked)
        await cluster.until_state(lambda: len(server.asked) > asked + 4)
        assert cluster.state().trouble is None
        assert len(runs(tmp_path)) == 2


async def test_a_plugin_is_run_again_when_its_token_expires(server: ScriptedApi, tmp_path: Path) -> None:
    given = plugin(tmp_path, token="one", expirationTimestamp="2020-01-01T00:00:00Z")
    access = server.access(tmp_path, exec=given)
    for _ in range(2):
        await access.entry()
    assert len(runs(tmp_path)) == 2


async def test_a_plugin_may_give_a_certificate(config: Kubeconfig, tmp_path: Path, namespace: str) -> None:
    texts = {
        given: text_of(config.user[key])
        for given, key in (("clientCertificateData", "client-certificate"), ("clientKeyData", "client-key"))
    }
    config.whole["users"][0]["user"] = {"exec": plugin(tmp_path, **texts)}
    assert await who_am_i(config.access()) == namespace


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"command": "no-such-program", "installHint": "get it at example.com"}, "get it at example.com"),
        ({"args": ["-c", "import sys; sys.exit('not signed in')"]}, "it ended with 1: not signed in"),
        ({"args": ["-c", "print('hello')"]}, "printed no ExecCredential"),
        ({"args": ["-c", 'print(\'{"apiVersion": "v9", "status": {}}\')']}, "answered in v9"),
    ],
    ids=["absent", "fails", "no JSON", "another version"],
)
async def test_a_plugin_that_gives_nothing(
    server: ScriptedApi, tmp_path: Path, change: dict[str, Any], expected: str
) -> None:
    api = KubeApi(server.access(tmp_path, exec={**plugin(tmp_path, token="x"), **change}))
    with pytest.raises(KubeApiError, match=expected):
        await api.get("/api")
    await api.close()


async def test_a_plugin_that_gives_neither_token_nor_certificate(server: ScriptedApi, tmp_path: Path) -> None:
    api = KubeApi(server.access(tmp_path, exec=plugin(tmp_path)))
    with pytest.raises(KubeApiError, match="neither a token nor a certificate"):
        await api.get("/api")
    await api.close()


WHOLE: dict[str, Any] = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {}}],
}


def with_user(**user: Any) -> dict[str, Any]:
    return {**WHOLE, "users": [{"name": "u", "user": user}]}


def with_cluster(**cluster: Any) -> dict[str, Any]:
    return {**WHOLE, "clusters": [{"name": "k", "cluster": cluster}]}


@pytest.mark.parametrize(
    ("whole", "expected"),
    [
        ([], "is not a set of names and values"),
        ({**WHOLE, "current-context": ""}, "it has no current-context"),
        ({**WHOLE, "contexts": 1}, "contexts is not a list"),
        ({**WHOLE, "clusters": []}, r"no cluster 'k' among its clusters \(none\)"),
        ({**WHOLE, "users": []}, "no user 'u'"),
        (with_cluster(), "cluster 'k': it has no server"),
        (with_cluster(server="ftp://x"), "is not an http:// or https:// URL"),
        (with_cluster(server="https://x", **{"proxy-url": "socks5://y"}), "proxy-url 'socks5://y'"),
        (with_user(token=7), "token is not a text"),
        (with_user(**{"client-certificate": "x"}), "a client certificate and its key go together"),
        (with_user(**{"client-key-data": "%"}), "client-key-data is not"),
        (with_user(**{"auth-provider": {"name": "gcp"}}), "use the exec plugin"),
        (with_user(exec={"command": "x", "apiVersion": "v0"}), "apiVersion v0 is not one of"),
        (with_user(exec={"apiVersion": EXEC}), "exec of user 'u': it has no command"),
        (
            with_user(exec={"command": "x", "apiVersion": EXEC, "interactiveMode": "Always"}),
            "at a terminal",
        ),
    ],
)
def test_a_kubeconfig_that_makes_no_sense(tmp_path: Path, whole: Any, expected: str) -> None:
    file = Kubeconfig(tmp_path / "kubeconfig", whole).write()
    with pytest.raises(ConfigError, match=expected):
        KubeconfigAccess(file)


def test_a_kubeconfig_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read the kubeconfig"):
        KubeconfigAccess(tmp_path / "none")


_POD = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "main", "image": "train"}]}}
