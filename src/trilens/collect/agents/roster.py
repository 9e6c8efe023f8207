"""Which agents there are, by the discovery of a scrape job, and how each does."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from trilens.collect.agents.client import AgentClient
from trilens.collect.discovery import discoveries_of
from trilens.collect.http_client import HttpClient
from trilens.collect.target import Target, build_target
from trilens.model.errors import ScrapeError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Sequence

    from trilens.collect.config import ScrapeConfig
    from trilens.collect.discovery import TargetLabels

log = logging.getLogger(__name__)

_PAUSE_S: Final = 0.2  # a storm of faults is told in a few answers, not in one each


class Agent:
    """One agent, and what is known of its answers."""

    def __init__(self, name: str, client: AgentClient, cluster: str = "") -> None:
        self.name = name  # its instance
        self.cluster = cluster  # as the label of its target says; "" where there is none
        self.client = client
        self.node: str | None = None  # as it calls itself
        self.ledger: str | None = None
        self.position = 0  # the number of the last event that was taken, in that ledger
        self.waits = False  # whether it answers a question for the next event when there is one
        self.missed = 0  # faults that it had dropped before they were asked for
        self.missed_at_s = 0.0  # since the epoch
        self.trouble: str | None = None
        self.silent_since_s: float | None = None  # since the epoch

    def answered(self) -> None:
        if self.trouble is not None:
            log.info("an agent answers again", extra={"agent": self.name})
        self.trouble, self.silent_since_s = None, None

    def has_dropped(self, faults: int) -> None:
        log.warning("an agent dropped faults before it was asked", extra={"agent": self.name, "n": faults})
        self.missed, self.missed_at_s = self.missed + faults, time.time()

    def failed(self, reason: str) -> None:
        if self.trouble is None:
            log.warning("an agent does not answer", extra={"agent": self.name, "error": reason})
            self.silent_since_s = time.time()
        self.trouble = reason


class AgentRoster:
    """Asks each agent of one job again and again. Lives on one event loop."""

    def __init__(
        self,
        config: ScrapeConfig,
        interval_s: float,
        ask: Callable[[Agent], Awaitable[None]],
        listen: Callable[[Agent, float], Awaitable[None]],
        left: Callable[[Collection[Agent]], None],
    ) -> None:
        """`ask` is done once an interval, `listen` for the seconds until the next time, with agents that know
        how; both may raise ScrapeError. `left` is told of agents that are no longer among the targets."""
        self._config = config
        self._interval_s = interval_s
        self._ask = ask
        self._listen = listen
        self._left = left
        self._found: dict[tuple[int, str], Sequence[TargetLabels]] = {}
        self._agents: dict[str, Agent] = {}  # by the URL it is scraped at
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._told: set[int] = set()  # the discoveries that have said something
        self._discoveries = discoveries_of(config)
        self._http: HttpClient | None = None

    def agents(self) -> list[Agent]:
        """May be called from any thread."""
        return list(self._agents.values())

    @property
    def is_complete(self) -> bool:
        """Every way of finding agents has found what there is, and each agent has answered once."""
        told = len(self._told) == len(self._discoveries)
        return told and all(agent.node is not None for agent in self._agents.values())

    async def run(self) -> None:
        self._http = HttpClient(self._config)
        try:
            async with asyncio.TaskGroup() as tasks:
                for number, discovery in enumerate(self._discoveries):
                    tasks.create_task(discovery.run(self._publisher(number)))
                await asyncio.Event().wait()
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await self._http.close()

    def _publisher(self, number: int) -> Callable[[str, Sequence[TargetLabels]], None]:
        def publish(source: str, targets: Sequence[TargetLabels]) -> None:
            self._found[number, source] = targets
            self._told.add(number)
            self._sync()

        return publish

    def _sync(self) -> None:
        built = (build_target(labels, self._config) for found in self._found.values() for labels in found)
        wanted = {target.url: target for target in built if isinstance(target, Target)}
        gone = [self._agents.pop(url) for url in self._agents.keys() - wanted.keys()]
        for url in self._tasks.keys() - wanted.keys():
            self._tasks.pop(url).cancel()
        for url in wanted.keys() - self._agents.keys():
            self._agents[url] = agent = self._make(wanted[url])
            self._tasks[url] = asyncio.create_task(self._follow(agent))
        if gone:
            self._left(gone)

    def _make(self, target: Target) -> Agent:
        assert self._http is not None
        labels = dict(target.labels)
        client = AgentClient(self._http, target.url, target.timeout_s)
        return Agent(labels.get("instance", target.shown_url), client, labels.get("cluster", ""))

    async def _follow(self, agent: Agent) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._answered(agent, self._ask(agent))
            due = loop.time() + self._interval_s
            while (left_s := due - loop.time()) > 0:
                if agent.trouble is not None or not agent.waits:
                    await asyncio.sleep(left_s)
                else:
                    await self._answered(agent, self._listen(agent, left_s))
                    await asyncio.sleep(min(_PAUSE_S, max(due - loop.time(), 0)))

    async def _answered(self, agent: Agent, question: Awaitable[None]) -> None:
        try:
            await question
            agent.answered()
        except ScrapeError as e:
            agent.failed(str(e))
        except Exception as e:  # a defect with one agent must not end the asking
            log.exception("an agent's answer was not taken", extra={"agent": agent.name})
            agent.failed(repr(e))
