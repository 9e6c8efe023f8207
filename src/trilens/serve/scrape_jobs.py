"""All that is scraped: the jobs of the configuration, and those that clusters ask for while it runs."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from trilens.collect.config import load_scrape_configs, read_scrape_configs
from trilens.serve.agent_jobs import jobs_of_agents
from trilens.serve.cluster_jobs import jobs_of_clusters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.collect.config import ScrapeConfig
    from trilens.collect.manager import ScrapeManager
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)


def scrape_configs(settings: Settings) -> list[ScrapeConfig]:
    """The jobs of the configuration, from trilens.yaml itself or from the prometheus.yml it names, and what
    the settings of clusters and agents ask for."""
    scrape = settings.scrape
    if scrape.config_file is not None:
        written = read_scrape_configs(scrape.config_file, "scrape.config_file")
    else:
        written = load_scrape_configs(scrape.inline_document(), settings.base_dir, settings.scrape_place)
    found = [*written, *jobs_of_clusters(settings, written)]
    return [*found, *jobs_of_agents(settings, found)]


class ScrapeJobs:
    """Thread-safe. A job that stays as it was goes on undisturbed, whoever else's change."""

    def __init__(self, manager: ScrapeManager, configured: Iterable[ScrapeConfig]) -> None:
        """`configured` are those that the manager was made with."""
        self._manager = manager
        self._configured = list(configured)
        self._found: dict[str, Sequence[ScrapeConfig]] = {}
        self._lock = threading.Lock()
        self._stopped = False

    def start(self) -> None:
        self._manager.start()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            self._manager.stop()

    def configure(self, jobs: Iterable[ScrapeConfig]) -> None:
        """Raises ConfigError, and nothing has changed, when a job's files cannot be read."""
        with self._lock:
            before, self._configured = self._configured, list(jobs)
            try:
                self._apply()
            except BaseException:
                self._configured = before
                raise

    def found(self, source: str, jobs: Sequence[ScrapeConfig]) -> None:
        """What a source asks for now, instead of what it asked for before."""
        with self._lock:
            before, self._found = self._found, {**self._found, source: jobs}
            try:
                self._apply()
            except BaseException:
                self._found = before
                raise

    def _apply(self) -> None:
        if self._stopped:
            return
        jobs = {job.job_name: job for job in self._configured}
        for source, found in self._found.items():
            for job in found:
                if jobs.setdefault(job.job_name, job) is not job:
                    about = {"job": job.job_name, "source": source}
                    log.warning("a job is left out, for there is another of its name", extra=about)
        self._manager.reload(jobs.values())
