"""Where targets come from. Each kind satisfies `Discovery`; `discoveries_of` lists those of a job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trilens.collect.discovery.base import Discovery, Publish, TargetLabels
from trilens.collect.discovery.file import FileDiscovery
from trilens.collect.discovery.http import HttpDiscovery
from trilens.collect.discovery.static import StaticDiscovery

if TYPE_CHECKING:
    from trilens.collect.config import ScrapeConfig

__all__ = ["Discovery", "Publish", "TargetLabels", "discoveries_of"]


def discoveries_of(config: ScrapeConfig) -> list[Discovery]:
    found: list[Discovery] = []
    if config.static_configs:
        found.append(StaticDiscovery(config.static_configs))
    found += [FileDiscovery(section) for section in config.file_sd_configs]
    found += [HttpDiscovery(section) for section in config.http_sd_configs]
    if config.kubernetes_sd_configs:
        from trilens.collect.discovery.kubernetes.discovery import KubernetesDiscovery

        found += [
            KubernetesDiscovery(section, job=config.job_name) for section in config.kubernetes_sd_configs
        ]
    return found
