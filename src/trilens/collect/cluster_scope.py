"""What all jobs that are made for a watched cluster have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trilens.settings.kubernetes import ClusterSettings


class ClusterScope(NamedTuple):
    cluster: str
    sd: Mapping[str, Any]  # the way to its API server, as kubernetes_sd_configs has it
    namespaces: Sequence[str] = ()  # the only ones to look at; all when there are none
    prefix: str = ""  # of job names, where several clusters have jobs of the same name
    files: bool = False  # whether a monitor may name files of this machine

    def section(self, role: str, namespaces: Sequence[str] = (), **more: Any) -> dict[str, Any]:
        """An entry of kubernetes_sd_configs; of the cluster's own namespaces unless others are named."""
        named = list(namespaces or self.namespaces)
        limited = {"namespaces": {"names": named}} if named else {}
        return {"role": role, **self.sd, **limited, **more}

    def label(self) -> dict[str, Any]:
        """A relabelling step: workloads are joined on the cluster's name too."""
        return {"target_label": "cluster", "replacement": self.cluster.replace("$", "$$")}


def scope_of(cluster: str, settings: ClusterSettings, folder: Path, *, alone: bool) -> ClusterScope:
    """`folder` is where the settings lie; `alone` when it is the only cluster."""
    sd: dict[str, Any] = {}
    file = settings.kubeconfig_beside(folder)
    if file is not None:
        sd["kubeconfig_file"] = str(file.absolute())
    if settings.context is not None:
        sd["kubeconfig_context"] = settings.context
    prefix = "" if alone else f"{cluster}/"
    return ClusterScope(cluster, sd, settings.namespaces, prefix, settings.monitor_files)
