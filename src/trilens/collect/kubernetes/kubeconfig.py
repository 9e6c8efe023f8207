"""A kubeconfig, as kubectl has it: one context of it, read again when the file changes."""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from trilens.collect.kubernetes.access import Entry, basic, bearer, read_token
from trilens.collect.kubernetes.exec_plugin import ExecPlugin, PluginConfig
from trilens.collect.kubernetes.tls import Pem, TlsConfig, TlsContexts
from trilens.model.errors import ConfigError
from trilens.settings.yaml_file import read_yaml

if TYPE_CHECKING:
    from pathlib import Path

_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_BEARER: Final = "Bearer "


class KubeconfigAccess:
    def __init__(self, file: Path, context: str | None = None) -> None:
        self._file = file
        self._context = context
        self._read_at = _stamp(file)
        self._user, self._plain, self._plugin = self._read()

    async def entry(self) -> Entry:
        stamp = _stamp(self._file)
        if stamp != self._read_at:
            user, plain, plugin = self._read()
            if self._plugin is None or plugin is None or plugin.config != self._plugin.config:
                self._plugin = plugin  # else what it said stays good
            self._user, self._plain, self._read_at = user, plain, stamp
        entry = replace(self._plain, headers=self._plain.headers + _signature(self._user))
        return await self._with_plugin(entry) if self._plugin is not None else entry

    def check(self) -> None:
        """Raises ConfigError where a certificate that it names cannot be used."""
        TlsContexts().current(self._plain.tls)

    def refused(self, entry: Entry) -> None:
        if self._plugin is not None:
            self._plugin.refused(dict(entry.headers).get("Authorization", "").removeprefix(_BEARER))

    async def _with_plugin(self, entry: Entry) -> Entry:
        assert self._plugin is not None
        given = await self._plugin.credential()
        if given.client_certificate_data:
            certificate = Pem("the plugin's certificate", text=given.client_certificate_data)
            key = Pem("the plugin's key", text=given.client_key_data)
            entry = replace(entry, tls=replace(entry.tls, certificate=certificate, key=key))
        if given.token:
            entry = replace(entry, headers=(*entry.headers, bearer(given.token)))
        return entry

    def _read(self) -> tuple[_Node, Entry, ExecPlugin | None]:
        root = _Node(self._file, "the kubeconfig", read_yaml(self._file, "the kubeconfig").tree)
        name = self._context or root.text("current-context")
        if not name:
            raise root.error("it has no current-context", hint="say which context to use")
        context = root.named("contexts", name, "context")
        cluster = root.named("clusters", context.required("cluster"), "cluster")
        user_name = context.text("user")
        user = root.named("users", user_name, "user") if user_name else _Node(self._file, "no user", {})
        if user.value.get("auth-provider"):
            hint = "Kubernetes 1.26 gave them up: use the exec plugin of your provider"
            raise user.error("it has an auth-provider", hint=hint)
        _signature(user)  # or what is wrong with it would be said only when it is needed
        server = cluster.required("server").rstrip("/")
        if urlsplit(server).scheme not in ("http", "https"):
            raise cluster.error(f"server {server!r} is not an http:// or https:// URL")
        tls = TlsConfig(
            authority=cluster.pem("certificate-authority"),
            certificate=user.pem("client-certificate"),
            key=user.pem("client-key"),
            verify=cluster.value.get("insecure-skip-tls-verify") is not True,
        )
        proxy = cluster.text("proxy-url") or None
        if proxy and urlsplit(proxy).scheme != "http":
            raise cluster.error(f"proxy-url {proxy!r} is not an http:// URL, which is what Trilens can use")
        entry = Entry(server, tls, _on_behalf_of(user), cluster.text("tls-server-name") or None, proxy)
        return user, entry, _plugin(user, cluster, entry)


class _Node:
    """A part of the file, which says what is wrong with it."""

    def __init__(self, file: Path, what: str, value: Any) -> None:
        self.file = file
        self.what = what
        if not isinstance(value, dict):
            raise self.error("is not a set of names and values")
        self.value: dict[str, Any] = value

    def error(self, problem: str, *, hint: str | None = None) -> ConfigError:
        return ConfigError(f"{self.what}: {problem}", where=str(self.file), hint=hint)

    def text(self, key: str) -> str:
        value = self.value.get(key)
        if value is not None and not isinstance(value, str):
            raise self.error(f"{key} is not a text")
        return value or ""

    def required(self, key: str) -> str:
        value = self.text(key)
        if not value:
            raise self.error(f"it has no {key}")
        return value

    def named(self, entries: str, name: str, key: str) -> _Node:
        """`entries` is a list of {name: ..., `key`: {...}}."""
        found = self.value.get(entries) or []
        if not isinstance(found, list):
            raise self.error(f"{entries} is not a list")
        by_name = {entry.get("name"): entry.get(key) for entry in found if isinstance(entry, dict)}
        if name not in by_name:
            have = ", ".join(sorted(str(known) for known in by_name)) or "none"
            raise self.error(f"no {key} {name!r} among its {entries} ({have})")
        return _Node(self.file, f"{key} {name!r}", by_name[name] or {})

    def beside(self, path: str) -> Path:
        return self.file.parent / path

    def pem(self, key: str) -> Pem | None:
        if data := self.text(f"{key}-data"):
            try:
                return Pem(key, text=base64.b64decode("".join(data.split()), validate=True).decode("ascii"))
            except (binascii.Error, UnicodeDecodeError) as e:
                raise self.error(f"{key}-data is not a certificate or key in base64") from e
        path = self.text(key)
        return Pem(key, file=self.beside(path)) if path else None


def _signature(user: _Node) -> tuple[tuple[str, str], ...]:
    """Read for every request: the token of a file rotates."""
    if file := user.text("tokenFile"):
        return (bearer(read_token(user.beside(file), "the tokenFile")),)
    if token := user.text("token"):
        return (bearer(token),)
    if name := user.text("username"):
        return (basic(name, user.text("password")),)
    return ()


def _on_behalf_of(user: _Node) -> tuple[tuple[str, str], ...]:
    headers = [("Impersonate-User", user.text("as"))] if user.text("as") else []
    headers += [("Impersonate-Group", str(group)) for group in user.value.get("as-groups") or ()]
    return tuple(headers)


def _plugin(user: _Node, cluster: _Node, entry: Entry) -> ExecPlugin | None:
    if not user.value.get("exec"):
        return None
    node = _Node(user.file, f"exec of {user.what}", user.value["exec"])
    command, version = node.required("command"), node.required("apiVersion")
    if version not in _EXEC_VERSIONS:
        raise node.error(f"apiVersion {version} is not one of {', '.join(_EXEC_VERSIONS)}")
    if node.text("interactiveMode") == "Always":
        raise node.error("it wants to ask somebody at a terminal (interactiveMode: Always)")
    if "/" in command:
        command = str(node.beside(command))
    arguments = tuple(str(argument) for argument in node.value.get("args") or ())
    variables = [_Node(node.file, f"env of {node.what}", item) for item in node.value.get("env") or ()]
    environment = tuple((variable.required("name"), variable.text("value")) for variable in variables)
    told = _told(cluster, entry) if node.value.get("provideClusterInfo") is True else None
    return ExecPlugin(PluginConfig(command, arguments, environment, version, node.text("installHint"), told))


def _told(cluster: _Node, entry: Entry) -> dict[str, Any]:
    """The cluster as an ExecCredential describes it."""
    told: dict[str, Any] = {"server": entry.server}
    if not entry.tls.verify:
        told["insecure-skip-tls-verify"] = True
    if entry.tls.authority is not None:
        authority = entry.tls.authority.read().encode()
        told["certificate-authority-data"] = base64.b64encode(authority).decode()
    if entry.server_name:
        told["tls-server-name"] = entry.server_name
    if entry.proxy:
        told["proxy-url"] = entry.proxy
    for extension in cluster.value.get("extensions") or ():
        if isinstance(extension, dict) and extension.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return told


def _stamp(file: Path) -> tuple[int, int] | None:
    """None where it is gone for a moment, as while it is being replaced."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
