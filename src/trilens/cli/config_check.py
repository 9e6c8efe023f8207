"""Settings files read as the server would read them, and what there is to say about each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.alert.delivery.plan import plan_of
from trilens.cli.alerting_check import check_alerting
from trilens.cli.cluster_check import check_clusters
from trilens.collect.http_client import HttpClient
from trilens.ledger.prices.book import price_book
from trilens.model.errors import ConfigError
from trilens.serve.rules import rule_groups
from trilens.serve.run import check_certificate
from trilens.serve.scrape_jobs import scrape_configs
from trilens.settings.cure import read_policy
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.collect.config import ScrapeConfig


@dataclass(frozen=True, slots=True)
class FileReport:
    """`where` is the file, line and column that `error` is about."""

    file: str
    ok: bool
    jobs: int = 0
    warnings: tuple[str, ...] = ()
    error: str | None = None
    where: str | None = None


def check_file(file: Path) -> FileReport:
    try:
        settings = load_settings(file, environ={})
        settings.server.required_token()
        settings.agent.required_token()
        check_certificate(settings)
        jobs = scrape_configs(settings)
        for job in jobs:
            HttpClient(job)  # reads its certificates
        rule_groups(settings)
        plan_of(settings)
        price_book(settings.prices.file)
        read_policy(settings.cure)
        cluster_warnings = check_clusters(settings)
    except ConfigError as e:
        message = str(e) if e.where or str(file) in e.message else f"{file}: {e}"
        return FileReport(str(file), ok=False, error=message, where=e.where or str(file))
    warnings = (
        *cluster_warnings,
        *(warning for job in jobs for warning in _warnings(job)),
        *check_alerting(settings.alerting, settings.base_dir),
    )
    if settings.from_empty_file:
        warnings = ("the file is empty: every setting has its default",)
    return FileReport(str(file), ok=True, jobs=len(jobs), warnings=warnings)


def _warnings(job: ScrapeConfig) -> Iterator[str]:
    if not any(section.targets for section in job.static_configs) and not (
        job.file_sd_configs or job.http_sd_configs or job.kubernetes_sd_configs
    ):
        yield f"the job {job.job_name!r} has no targets"
    for section in job.file_sd_configs:
        for pattern in section.files:
            if not any(pattern.parent.glob(pattern.name)):
                yield f"the job {job.job_name!r}: there is no file {pattern} yet"
