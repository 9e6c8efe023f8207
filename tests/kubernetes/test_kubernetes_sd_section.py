"""A `kubernetes_sd_configs` section: what is refused, and how the API server is reached."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from trilens.collect.config import load_scrape_configs
from trilens.collect.discovery.kubernetes.access import access_of, namespaces_of
from trilens.collect.discovery.kubernetes.section import KubernetesSdConfig
from trilens.model.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "role"),
        ({"role": "ingress"}, "the role ingress is not supported yet; use one of node, pod, service"),
        ({"role": "gateway"}, "role"),
        ({"role": "pod", "api_server": "https://a", "kubeconfig_file": "b"}, "not both"),
        ({"role": "pod", "api_server": "kubernetes"}, "'kubernetes' is not an http:// or https:// URL"),
        ({"role": "pod", "bearer_token": "x"}, "bearer_token is for an api_server, which is not given"),
        (
            {"role": "pod", "kubeconfig_file": "k", "namespaces": {"own_namespace": True}},
            "with kubeconfig_file there is none",
        ),
        ({"role": "pod", "selectors": [{"role": "node"}]}, "the role pod has selectors of pod only"),
        ({"role": "pod", "selectors": [{"role": "pod"}] * 2}, "two selectors of pod"),
        (
            {"role": "pod", "api_server": "https://a", "tls_config": {"min_version": "TLS13"}},
            "TLS versions cannot be chosen",
        ),
        ({"role": "pod", "attach_metadata": {"namespace": True}}, "attach_metadata.namespace"),
    ],
)
def test_a_section_that_cannot_be_followed_is_refused(
    tmp_path: Path, section: dict[str, Any], message: str
) -> None:
    document = {"scrape_configs": [{"job_name": "a", "kubernetes_sd_configs": [section]}]}
    with pytest.raises(ConfigError, match=re.escape(message)) as refused:
        load_scrape_configs(document, tmp_path)
    assert "kubernetes_sd_configs[0]" in str(refused.value)


async def test_inside_a_cluster(tmp_path: Path) -> None:
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    (tmp_path / "token").write_text("t0k3n")
    (tmp_path / "namespace").write_text("monitoring")
    section = KubernetesSdConfig.model_validate(
        {"role": "pod", "namespaces": {"own_namespace": True, "names": ["train"]}}
    )
    entry = await access_of(section, tmp_path, environ).entry()
    assert (entry.server, entry.headers) == ("https://10.0.0.1:443", (("Authorization", "Bearer t0k3n"),))
    assert namespaces_of(section, tmp_path) == ("train", "monitoring")
    (tmp_path / "namespace").write_text("")
    with pytest.raises(ConfigError, match="our own namespace is not known"):
        namespaces_of(section, tmp_path)
    assert namespaces_of(KubernetesSdConfig(role="pod")) == ("",)


def test_a_certificate_that_cannot_be_read_is_said_before_anything_starts(tmp_path: Path) -> None:
    section = KubernetesSdConfig.model_validate(
        {"role": "pod", "api_server": "https://a", "tls_config": {"ca_file": str(tmp_path / "none.pem")}}
    )
    with pytest.raises(ConfigError, match="tls_config"):
        access_of(section)


async def test_the_http_settings_go_with_every_request(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    section = KubernetesSdConfig.model_validate(
        {
            "role": "pod",
            "api_server": "https://api.example/k8s/",
            "authorization": {"credentials_file": str(token)},
            "tls_config": {"server_name": "kubernetes", "insecure_skip_verify": True},
            "proxy_url": "http://proxy:3128",
        }
    )
    access = access_of(section)
    entry = await access.entry()
    assert (entry.server, entry.server_name, entry.proxy, entry.tls.verify) == (
        "https://api.example/k8s", "kubernetes", "http://proxy:3128", False,
    )  # fmt: skip
    assert entry.headers == (("Authorization", "Bearer one"),)
    token.write_text("two")
    assert (await access.entry()).headers == (("Authorization", "Bearer two"),)
