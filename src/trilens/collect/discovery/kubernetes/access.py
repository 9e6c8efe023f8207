"""The way to the API server that a `kubernetes_sd_configs` entry names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.kubernetes.access import SERVICE_ACCOUNT, Access, Entry, InClusterAccess
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess
from trilens.collect.kubernetes.tls import Pem, TlsConfig
from trilens.model.errors import ConfigError
from trilens.settings.files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from trilens.collect.discovery.kubernetes.section import KubernetesSdConfig


class ApiServerAccess:
    """An `api_server` with Prometheus's HTTP settings."""

    def __init__(self, section: KubernetesSdConfig) -> None:
        self._section = section
        tls = section.tls_config
        tls.context()  # or what is wrong with its files would be said only when they are needed
        self._tls = TlsConfig(
            authority=_pem("tls_config.ca", tls.ca_file, tls.ca),
            certificate=_pem("tls_config.cert_file", tls.cert_file),
            key=_pem("tls_config.key_file", tls.key_file),
            verify=not tls.insecure_skip_verify,
        )

    async def entry(self) -> Entry:
        section = self._section
        return Entry(
            server=section.api_server or "",
            tls=self._tls,
            headers=tuple(section.request_headers()),
            server_name=section.tls_config.server_name,
            proxy=section.proxy_url,
        )

    def refused(self, entry: Entry) -> None:
        pass  # secret files are read for every request


def access_of(
    section: KubernetesSdConfig, account: Path = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None
) -> Access:
    """Raises ConfigError when the files that it needs cannot be read."""
    if section.api_server:
        return ApiServerAccess(section)
    if section.kubeconfig_file:
        return KubeconfigAccess(section.kubeconfig_file, section.kubeconfig_context)
    return InClusterAccess(account, environ)


def namespaces_of(section: KubernetesSdConfig, account: Path = SERVICE_ACCOUNT) -> tuple[str, ...]:
    """Those to look at; an empty name stands for all of them."""
    if section.role == "node":
        return ("",)
    names = list(section.namespaces.names)
    if section.namespaces.own_namespace:
        own = read_text(account / "namespace", "the service account's namespace").strip()
        if not own:
            raise ConfigError(f"{account / 'namespace'} is empty, so our own namespace is not known")
        names.append(own)
    return tuple(dict.fromkeys(names)) or ("",)


def _pem(what: str, file: Path | None, text: str | None = None) -> Pem | None:
    return Pem(what, file=file, text=text or "") if file or text else None
