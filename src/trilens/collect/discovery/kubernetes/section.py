"""A `kubernetes_sd_configs` entry, as Prometheus has it."""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from pydantic import field_validator, model_validator

from trilens.collect.config_section import ConfigPath, Section
from trilens.collect.http_config import HttpConfig
from trilens.model.masking import without_passwords

RoleName = Literal["node", "pod", "service", "endpoints", "endpointslice"]

# Which objects play a part in the targets of a role, and so can be selected from.
_SELECTABLE: Final[dict[str, tuple[str, ...]]] = {
    "node": ("node",),
    "pod": ("pod",),
    "service": ("service",),
    "endpoints": ("pod", "service", "endpoints"),
    "endpointslice": ("pod", "service", "endpointslice"),
}


class Namespaces(Section):
    """All of them unless something is said."""

    own_namespace: bool = False
    names: tuple[str, ...] = ()


class Selector(Section):
    """Objects of one kind, chosen by the API server."""

    role: RoleName
    label: str = ""
    field: str = ""


class AttachMetadata(Section):
    node: bool = False


class KubernetesSdConfig(HttpConfig):
    """Field for field Prometheus's, except `kubeconfig_context`, which is ours."""

    role: RoleName
    api_server: str | None = None
    kubeconfig_file: ConfigPath | None = None
    kubeconfig_context: str | None = None
    namespaces: Namespaces = Namespaces()
    selectors: tuple[Selector, ...] = ()
    attach_metadata: AttachMetadata = AttachMetadata()

    @field_validator("role", mode="before")
    @classmethod
    def _is_supported(cls, role: Any) -> Any:
        if role == "ingress":
            raise ValueError(f"the role ingress is not supported yet; use one of {', '.join(_SELECTABLE)}")
        return role

    @field_validator("api_server")
    @classmethod
    def _is_http(cls, url: str | None) -> str | None:
        if url and not re.match(r"https?://[^/]", url):
            raise ValueError(f"{without_passwords(url)!r} is not an http:// or https:// URL")
        return url.rstrip("/") if url else None

    @field_validator("kubeconfig_file", mode="before")
    @classmethod
    def _empty_is_none(cls, file: Any) -> Any:
        return file or None

    @model_validator(mode="after")
    def _one_way_in(self) -> KubernetesSdConfig:
        if self.api_server and self.kubeconfig_file:
            raise ValueError("give api_server or kubeconfig_file, not both")
        if self.kubeconfig_context and not self.kubeconfig_file:
            raise ValueError("kubeconfig_context is one of a kubeconfig_file, which is not given")
        how = "api_server" if self.api_server else "kubeconfig_file" if self.kubeconfig_file else None
        if self.namespaces.own_namespace and how:
            raise ValueError(
                f"namespaces.own_namespace is that of the pod we run in; with {how} there is none"
            )
        given = [name for name, field in HttpConfig.model_fields.items()
                 if getattr(self, name) != field.get_default(call_default_factory=True)]  # fmt: skip
        if given and not self.api_server:
            raise ValueError(f"{', '.join(given)} is for an api_server, which is not given")
        if self.tls_config.min_version or self.tls_config.max_version:
            raise ValueError("TLS versions cannot be chosen for a Kubernetes API server yet")
        return self

    @model_validator(mode="after")
    def _selectors_apply(self) -> KubernetesSdConfig:
        allowed = _SELECTABLE[self.role]
        seen: set[str] = set()
        for selector in self.selectors:
            if selector.role not in allowed:
                raise ValueError(f"the role {self.role} has selectors of {', '.join(allowed)} only")
            if selector.role in seen:
                raise ValueError(f"there are two selectors of {selector.role}")
            seen.add(selector.role)
        return self
