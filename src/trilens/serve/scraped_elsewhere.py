"""Which endpoints other jobs scrape already: their pods ask for it, or the settings do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from trilens.collect.target import TargetStatus
    from trilens.serve.scrape_jobs import ScrapeJobs


# Of a job for addresses that programs told: what answers there does not lead anywhere else.
NO_FURTHER: Final = {"follow_redirects": False}


class Scraping(Protocol):
    """Thread-safe."""

    def targets(self) -> list[TargetStatus]: ...


# What is scraped, who is told of more to scrape, and the defaults for it.
ScrapedPrograms: TypeAlias = "tuple[Scraping, ScrapeJobs, dict[str, Any]]"


def scraped_elsewhere(scraping: Scraping, own: str) -> set[str]:
    """host:port of each target, but for those of jobs whose name begins with `own`."""
    return {
        urlsplit(target.scrape_url).netloc for target in scraping.targets() if not target.job.startswith(own)
    }
