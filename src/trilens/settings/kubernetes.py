"""Which Kubernetes clusters are watched, as whom, and how much of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator

from trilens.model.errors import ConfigError
from trilens.settings.group import AsWord, Group, Texts

if TYPE_CHECKING:
    from collections.abc import Mapping

_HOST: Final = "KUBERNETES_SERVICE_HOST"
_PORT: Final = "KUBERNETES_SERVICE_PORT"


class ClusterSettings(Group):
    """One cluster: the one that Trilens runs in, or one that a kubeconfig names."""

    in_cluster: bool = Field(default=False, description="Use the service account of the pod Trilens runs in.")
    kubeconfig: Path | None = Field(default=None, description="A file as kubectl has it.")
    context: str | None = Field(default=None, description="Of that file; its current one unless given.")
    namespaces: Texts = Field(default=(), description="Watch only these; all unless given.")
    leave_out: Texts = Field(default=(), description="Kinds not to watch: `Event`, `Job.batch.volcano.sh`.")
    add: Texts = Field(default=(), description="Kinds that are watched only on request, such as `Service`.")
    exporters: bool | None = Field(
        default=None,
        description="Scrape the exporters that GPU clusters have; unless given, if nothing else is scraped.",
    )
    exporter_namespaces: Texts = Field(
        default=(), description="Look for exporters in these; in `namespaces` unless given."
    )
    annotations: bool = Field(
        default=False, description="Scrape pods and services annotated with `prometheus.io/scrape`."
    )
    monitors: Annotated[Literal["off", "all", "selected"], AsWord] = Field(
        default="off",
        description="Scrape what ServiceMonitors and PodMonitors ask for: `all`, or those that a Prometheus "
        "object `selected`.",
    )
    monitor_labels: dict[str, str] = Field(
        default_factory=dict, description="Of these, only those that carry these labels."
    )
    monitor_files: bool = Field(
        default=False, description="Let monitors name files of this machine: tokens and certificates."
    )

    @model_validator(mode="after")
    def _one_way_in(self) -> ClusterSettings:
        if self.in_cluster == (self.kubeconfig is not None):
            raise ValueError("give in_cluster: true, or a kubeconfig, and not both")
        if self.context is not None and self.kubeconfig is None:
            raise ValueError("a context is one of a kubeconfig; in_cluster has none")
        return self

    @property
    def scrapes(self) -> bool:
        """Whether something in it is to be scraped, by the word of these settings."""
        return bool(self.exporters) or self.annotations or self.monitors != "off"

    def kubeconfig_beside(self, folder: Path) -> Path | None:
        """`folder` is where the settings file lies."""
        return None if self.kubeconfig is None else folder / self.kubeconfig.expanduser()


class KubernetesSettings(Group):
    clusters: dict[str, ClusterSettings] = Field(
        default_factory=dict,
        description="Clusters to watch, by the name they have in Trilens: [kubernetes.md](kubernetes.md).",
    )

    state_metrics: Annotated[Literal["auto", "on", "off"], AsWord] = Field(
        default="auto",
        description="Export the series of kube-state-metrics: `on`, `off`, or `auto`, where none is scraped. "
        "See [platform-metrics.md](platform-metrics.md).",
    )

    state_metrics_stored: Literal["used", "all"] = Field(
        default="used",
        description="Which of them go into the store: `all`, or not those that nothing of Trilens reads; "
        "`/metrics/kubernetes` has all.",
    )

    @field_validator("clusters")
    @classmethod
    def _are_named(cls, clusters: dict[str, ClusterSettings]) -> dict[str, ClusterSettings]:
        if "" in clusters:
            raise ValueError("a cluster needs a name")
        return clusters


def in_cluster_server(environ: Mapping[str, str] | None = None) -> str:
    """The API server's URL, as Kubernetes tells it to every pod."""
    environ = os.environ if environ is None else environ
    host, port = environ.get(_HOST), environ.get(_PORT)
    if not host or not port:
        raise ConfigError(
            f"in_cluster is set, but this is no pod of a cluster: {_HOST} is not set",
            hint="outside of a cluster, give a kubeconfig",
        )
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


def plugin_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """What a kubeconfig's credential plugin runs with: all that we have, and what it is told besides."""
    return {**os.environ, **extra}
