"""What is scraped in the watched clusters without a scrape configuration that says so."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from trilens.collect.cluster_scope import scope_of
from trilens.collect.config import load_scrape_configs
from trilens.collect.http_client import HttpClient
from trilens.collect.known_jobs import annotation_jobs, exporter_jobs
from trilens.collect.reach import EVERYWHERE, LOOPBACK, Reach
from trilens.model.access import is_loopback
from trilens.model.errors import ConfigError
from trilens.serve.scrape_global import scrape_global

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from trilens.collect.cluster_scope import ClusterScope
    from trilens.collect.config import ScrapeConfig
    from trilens.collect.monitors.following import Monitors
    from trilens.serve.scrape_jobs import ScrapeJobs
    from trilens.settings.kubernetes import ClusterSettings
    from trilens.settings.tree import Settings


def jobs_of_clusters(settings: Settings, configured: list[ScrapeConfig]) -> list[ScrapeConfig]:
    """Annotated pods and services, and well-known exporters, where they are asked for.

    Exporters are also where nothing else is: so two lines of settings show something.
    """
    if settings.source.url is not None:
        return []
    anything = bool(configured) or any(c.scrapes for c in settings.kubernetes.clusters.values())
    documents: list[dict[str, Any]] = []
    for scope, cluster in _scopes(settings):
        if cluster.exporters or (cluster.exporters is None and not anything):
            documents += exporter_jobs(
                scope._replace(namespaces=cluster.exporter_namespaces or scope.namespaces)
            )
        if cluster.annotations:
            documents += annotation_jobs(scope)
    if not documents:
        return []
    taken = {job.job_name for job in configured}
    for document in documents:
        if document["job_name"] in taken:
            raise ConfigError(
                f"there is a job {document['job_name']!r}, as exporters or annotations of a cluster make one",
                hint="rename it, or leave these out",
            )
    jobs = load_scrape_configs(
        {"global": scrape_global(settings), "scrape_configs": documents}, settings.base_dir
    )
    reach = _reach(settings)
    return [job.within(reach) for job in jobs]


def monitors_of(settings: Settings, jobs: ScrapeJobs) -> Monitors | None:
    """None where no cluster's are wanted. Raises ConfigError for a kubeconfig that cannot be used."""
    wanted = [(scope, cluster) for scope, cluster in _scopes(settings) if cluster.monitors != "off"]
    if not wanted:
        return None
    from trilens.collect.kubernetes.intake import access_to
    from trilens.collect.monitors.following import Choice, ClusterMonitors, Monitors

    make = job_maker(settings)
    return Monitors(
        ClusterMonitors(
            scope,
            Choice(cluster.monitors == "selected", cluster.monitor_labels),
            access_to(cluster, settings.base_dir),
            make,
            partial(jobs.found, scope.cluster),
        )
        for scope, cluster in wanted
    )


def job_maker(settings: Settings) -> Callable[[dict[str, Any]], ScrapeConfig]:
    """Makes jobs of the documents that monitors give, and raises ConfigError for those that make no sense."""
    return partial(_checked_job, scrape_global(settings), settings.base_dir, _reach(settings))


def _reach(settings: Settings) -> Reach:
    """Who writes annotations and monitors writes no settings. Where nobody else can reach this server, its
    cluster is on this machine, too."""
    near = LOOPBACK if is_loopback(settings.server.address[0]) else ()
    return Reach((*EVERYWHERE, *settings.access.told_networks, *near))


def _scopes(settings: Settings) -> Iterator[tuple[ClusterScope, ClusterSettings]]:
    clusters = settings.kubernetes.clusters
    for name, cluster in clusters.items():
        yield scope_of(name, cluster, settings.base_dir, alone=len(clusters) == 1), cluster


def _checked_job(
    defaults: Mapping[str, Any], base_dir: Path, reach: Reach, document: dict[str, Any]
) -> ScrapeConfig:
    (job,) = load_scrape_configs({"global": defaults, "scrape_configs": [document]}, base_dir)
    HttpClient(job)  # reads its certificates
    return job.within(reach)
