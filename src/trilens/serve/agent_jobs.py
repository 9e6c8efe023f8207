"""The agents that the settings name, as a job to scrape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trilens.collect.config import load_scrape_config
from trilens.model.errors import ConfigError
from trilens.serve.scrape_global import scrape_global

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trilens.collect.config import ScrapeConfig
    from trilens.settings.tree import Settings

JOB: Final = "trilens-agent"


def agent_configs(settings: Settings) -> list[ScrapeConfig]:
    """None or one."""
    section = settings.agents.scrape_config
    if not section:
        return []
    place, defaults = settings.agents_place, scrape_global(settings)
    return [load_scrape_config(section, settings.base_dir, place, JOB, defaults)]


def jobs_of_agents(settings: Settings, others: Iterable[ScrapeConfig]) -> list[ScrapeConfig]:
    jobs = agent_configs(settings)
    if jobs and any(other.job_name == JOB for other in others):
        raise ConfigError(
            f"there is a job {JOB!r} in the scrape configuration, and agents.scrape_config is one too",
            hint="leave that job out: agents are scraped anyway",
        )
    return jobs
