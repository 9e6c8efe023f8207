"""Where targets come from. Each kind satisfies `Discovery`; `discoveries_of` lists those of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.discovery.base import Discovery, Publish, TargetLabels
from trilens.collect.discovery.file import FileDiscovery
from trilens.collect.discovery.http import HttpDiscovery
from trilens.collect.discovery.shared import SharedDiscoveries
from trilens.collect.discovery.static import StaticDiscovery

if TYPE_CHECKING:
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.discovery.kubernetes.section import KubernetesSdConfig

__all__ = ["Discovery", "Publish", "SharedDiscoveries", "TargetLabels", "discoveries_of"]


def discoveries_of(config: ScrapeConfig, shared: SharedDiscoveries | None = None) -> list[Discovery]:
    """`shared` is what other jobs of the same event loop look for."""
    shared = SharedDiscoveries() if shared is None else shared
    found: list[Discovery] = []
    if config.static_configs:
        found.append(StaticDiscovery(config.static_configs))
    found += [FileDiscovery(section) for section in config.file_sd_configs]
    found += [HttpDiscovery(section) for section in config.http_sd_configs]
    found += [_kubernetes(section, config.job_name, shared) for section in config.kubernetes_sd_configs]
    return found


def _kubernetes(section: KubernetesSdConfig, job: str, shared: SharedDiscoveries) -> Discovery:
    from trilens.collect.discovery.kubernetes.discovery import KubernetesDiscovery

    # What goes wrong is logged with the name of the job that was first.
    return shared.join(section, lambda: KubernetesDiscovery(section, job=job))
