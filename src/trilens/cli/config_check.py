"""Settings files read as the server would read them, and what there is to say about each."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trilens.alert.delivery.plan import plan_of
from trilens.cli.absent_files import AbsentFiles
from trilens.cli.alerting_check import check_alerting
from trilens.cli.cluster_check import check_clusters
from trilens.collect.http_client import HttpClient
from trilens.ledger.prices.book import price_book
from trilens.model.errors import ConfigError
from trilens.serve.access.build import check_access
from trilens.serve.questions import clock_ms
from trilens.serve.rules import readable_rules
from trilens.serve.run import check_certificate
from trilens.serve.scrape_jobs import scrape_configs
from trilens.settings.cure import read_policy
from trilens.settings.load import load_settings
from trilens.settings.receivers import absent_variables
from trilens.settings.token_file import read_token_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.collect.config import ScrapeConfig
    from trilens.settings.tree import Settings


@dataclass(frozen=True, slots=True)
class FileReport:
    """`where` is the file, line and column that `error` is about."""

    file: str
    ok: bool
    jobs: int = 0
    warnings: tuple[str, ...] = ()
    error: str | None = None
    where: str | None = None


def check_file(file: Path, *, is_elsewhere: bool = False) -> FileReport:
    """With the environment, as a server has it; `is_elsewhere` is for a file of another machine, of which
    neither the environment nor the files that it names are here."""
    absent = AbsentFiles(is_elsewhere=is_elsewhere)
    looking = absent.looking
    token: str | None = None
    doubts: list[str | None] = []
    jobs: list[ScrapeConfig] = []
    try:
        unset: AbstractContextManager[list[str]] = absent_variables() if is_elsewhere else nullcontext([])
        with unset as variables:
            settings = load_settings(file, environ={} if is_elsewhere else None)
        absent.told |= {f"not looked at: the variable {name} is not set": None for name in variables}
        with looking():
            token = settings.required_token()
            doubts.append(settings.server.doubt_about(token))
        with looking():
            settings.storage.read_password()
        check_access(settings, looking)
        with looking():
            doubts.append(_nobody_comes_in(settings, token))
        with looking():
            doubts.append(settings.agent.doubt_about(settings.agent.required_token()))
        with looking():
            check_certificate(settings)
        with looking():
            jobs = scrape_configs(settings)
        for job in jobs:
            with looking():
                HttpClient(job)  # reads its certificates
        for trouble in readable_rules(settings).troubles:
            with looking():
                raise trouble
        with looking():
            plan_of(settings)
        with looking():
            price_book(settings.prices.file)
        with looking():
            read_policy(settings.cure)
        cluster_warnings = check_clusters(settings, looking)
    except ConfigError as e:
        message = str(e) if e.where or str(file) in e.message else f"{file}: {e}"
        return FileReport(str(file), ok=False, error=message, where=e.where or str(file))
    warnings = (
        *absent.told,
        *filter(None, doubts),
        *cluster_warnings,
        *(warning for job in jobs for warning in _warnings(job)),
        *check_alerting(settings.alerting, settings.base_dir),
    )
    if settings.from_empty_file:
        warnings = ("the file is empty: every setting has its default",)
    return FileReport(str(file), ok=True, jobs=len(jobs), warnings=warnings)


def _nobody_comes_in(settings: Settings, token: str | None) -> str | None:
    access = settings.access
    by_name = access.oidc is not None or access.has_proxy_door
    if access.tokens_file is None or token is not None or by_name:
        return None
    if any(one.is_valid(clock_ms()) for one in read_token_file(access.tokens_file)):
        return None
    return (
        f"nobody can come in yet: {access.tokens_file} has no token that is valid, and there is no other "
        "way in; trilens token create --offline makes one"
    )


def _warnings(job: ScrapeConfig) -> Iterator[str]:
    if not any(section.targets for section in job.static_configs) and not (
        job.file_sd_configs or job.http_sd_configs or job.kubernetes_sd_configs
    ):
        yield f"the job {job.job_name!r} has no targets"
    for section in job.file_sd_configs:
        for pattern in section.files:
            if not any(pattern.parent.glob(pattern.name)):
                yield f"the job {job.job_name!r}: there is no file {pattern} yet"
