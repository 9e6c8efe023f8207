"""Settings that are read again while the server runs: some follow, the rest needs a restart."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from trilens.alert.delivery.plan import plan_of
from trilens.ledger.prices.book import price_book
from trilens.model.errors import ConfigError, TrilensError
from trilens.serve.cluster_jobs import job_maker
from trilens.serve.rules import rule_groups
from trilens.serve.scrape_global import external_labels
from trilens.serve.scrape_jobs import scrape_configs
from trilens.settings.cure import read_policy
from trilens.settings.differences import differing

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.alert.delivery.plan import Plan
    from trilens.alert.manager import RuleManager
    from trilens.collect.monitors.following import Monitors
    from trilens.ledger.prices.book import Prices
    from trilens.serve.scrape_jobs import ScrapeJobs
    from trilens.settings.access import AccessSettings
    from trilens.settings.cure import CurePolicy
    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

_RELOADABLE: Final = ("scrape", "rules", "alerting", "prices", "budgets", "cure")
_PARTLY: Final = {"access": "grants"}


class InForce(NamedTuple):
    settings: Settings
    since: datetime
    is_latest: bool = True  # the last reload, if there was one, succeeded


class Followers(NamedTuple):
    """Who follows a reload, as far as the server has them."""

    jobs: ScrapeJobs | None
    rules: RuleManager | None
    monitors: Monitors | None
    prices: Callable[[Prices], None] | None = None
    delivery: Callable[[Plan], None] | None = None
    policy: Callable[[CurePolicy | None], None] | None = None
    access: Callable[[AccessSettings], None] | None = None


class Reloading:
    def __init__(self, settings: Settings, load: Callable[[], Settings], followers: Followers) -> None:
        self.in_force = InForce(settings, datetime.now(UTC))
        self._load = load
        self._followers = followers
        self._one_at_a_time = asyncio.Lock()  # or scraping is of one reading, and rules are of another

    async def reload(self) -> None:
        """Raises TrilensError with nothing taken over."""
        async with self._one_at_a_time:
            try:
                settings = await asyncio.to_thread(self._take_over)
            except Exception:
                self.in_force = self.in_force._replace(is_latest=False)
                raise
            self.in_force = InForce(settings, datetime.now(UTC))

    async def reload_logged(self) -> None:
        """For a signal, which has nobody to tell of an error."""
        try:
            await self.reload()
        except TrilensError as e:
            log.error("reload failed, the old settings stay", extra={"error": str(e)})
        except Exception:  # the next signal is heeded all the same
            log.exception("reload failed, which is a defect")

    def _take_over(self) -> Settings:
        """All is read and checked before anything changes."""
        before, wanted = self.in_force.settings, self._load()
        _refuse_other_changes(before, wanted)
        configs, groups, make = scrape_configs(wanted), rule_groups(wanted), job_maker(wanted)
        book = price_book(wanted.prices.file)
        plan = plan_of(wanted, external_labels(wanted))
        policy = read_policy(wanted.cure)
        jobs, rules, monitors, use_prices, deliver, allow, grant = self._followers
        if jobs is not None:
            jobs.configure(configs)
        if monitors is not None:
            monitors.make_with(make)
        if rules is not None:
            rules.reload(groups)
        if use_prices is not None:
            use_prices(book)
        if deliver is not None:
            deliver(plan)
        if allow is not None:
            allow(policy)
        if grant is not None:
            grant(wanted.access)
        log.info("settings reloaded", extra={"jobs": len(configs)})
        taken = (*_RELOADABLE, *_PARTLY)
        return before.model_copy(update={group: getattr(wanted, group) for group in taken})


def _refuse_other_changes(now: Settings, wanted: Settings) -> None:
    """Half of a file in force would be worse than an error: who changed these expects them to count."""
    if paths := differing(now, _without_partly(now, wanted), besides=_RELOADABLE):
        raise ConfigError(
            f"{', '.join(paths)}: cannot change while the server runs; nothing was taken over",
            hint="restart it, or undo these and reload again",
        )


def _without_partly(now: Settings, wanted: Settings) -> Settings:
    """What is wanted, but for the keys that are taken over of groups that otherwise are not."""
    kept = {
        group: getattr(wanted, group).model_copy(update={key: getattr(getattr(now, group), key)})
        for group, key in _PARTLY.items()
    }
    return wanted.model_copy(update=kept)
