"""Agents, asked again and again: their faults are kept, their processes become workloads."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from trilens.collect.agents.roster import AgentRoster
from trilens.collect.current_series import CurrentSeries
from trilens.model.errors import NotFound, ScrapeError, StoreError
from trilens.resolve.local import LocalResolver
from trilens.resolve.present import local_state
from trilens.serve.loop_thread import LoopThread
from trilens.serve.workload_metrics import FAMILIES, as_series, exposed, measured, still_shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from prometheus_client import Metric

    from trilens.collect.agents.roster import Agent
    from trilens.collect.config import ScrapeConfig
    from trilens.model.event import EventRecord
    from trilens.model.gpu import Claim
    from trilens.model.life import MembershipInterval
    from trilens.model.node import Hardware
    from trilens.model.workload import PodKey, WorkloadKey
    from trilens.resolve.phase_metrics import PhaseSample
    from trilens.resolve.present import ClusterState
    from trilens.settings.tree import Settings
    from trilens.store.events import EventRecords
    from trilens.store.gpus import GpuRecords
    from trilens.store.store import Store
    from trilens.store.workloads import WorkloadRecords

log = logging.getLogger(__name__)

_MEASURE_S: Final = 15.0
_DAY_S: Final = 86_400.0
_LEDGERS: Final = 10_000  # of agents that nobody asks any more, and that may come back
_WARNINGS: Final = 3  # agents that do not answer, named with an answer; when a network fails, all of them do


class AgentIntake:
    """A thread with an event loop of its own; everything public may be called from any other."""

    def __init__(
        self,
        settings: Settings,
        configs: Sequence[ScrapeConfig],
        records: WorkloadRecords,
        events: EventRecords,
        gpus: GpuRecords,
        samples: Store | None,
    ) -> None:
        """`samples` is None where another server holds them."""
        self._cluster = settings.agents.cluster
        self._records = records
        self._events = events
        self._gpus = gpus
        self._samples = samples
        self._resolver = LocalResolver(self._cluster, settings.ownership, records)
        interval_s = settings.agents.interval.total_seconds()
        self._rosters = [
            AgentRoster(config, interval_s, self._ask, self._take_events, self._left) for config in configs
        ]
        self._kept: dict[str, int] = {}  # how far the events of each ledger were taken, the latest left last
        self._hardware: dict[str, Hardware] = {}  # by node
        self._told_by: dict[str, str | None] = {}  # whose processes those of a machine are: a ledger
        self._measured: list[PhaseSample] = []
        self._series: CurrentSeries | None = None
        self._changed = asyncio.Event()  # who is in what: the metrics tell it at once
        self._listeners: list[Callable[[EventRecord], None]] = []
        self._thread = LoopThread("trilens-agents", self._follow)

    def start(self) -> None:
        """First takes up what was known when Trilens last ran."""
        kept = self._records.unfinished(self._cluster)
        self._resolver.restore(
            [history.record for history in kept],
            [member for history in kept for member in history.members],
            [phase for history in kept for phase in history.phases],
            self._gpus.unfinished(),
        )
        self._kept = self._events.positions()
        if self._samples is not None:
            for family in FAMILIES:
                self._samples.describe(family.metric, family.kind, family.help, "")
            shown = still_shown(self._samples, self._cluster, _now_ms())
            self._series = CurrentSeries(self._samples, shown)
        self._thread.start()

    def stop(self) -> None:
        self._thread.stop()

    def listen(self, listener: Callable[[EventRecord], None]) -> None:
        """Told of each new event in this intake's thread; it must not wait. Before `start`."""
        self._listeners.append(listener)

    @property
    def cluster(self) -> str:
        """What the workloads of all machines have for a cluster."""
        return self._cluster

    @property
    def names(self) -> tuple[str, ...]:
        """The clusters whose workloads are told of here."""
        return (self._cluster,)

    def agents(self) -> list[Agent]:
        return [agent for roster in self._rosters for agent in roster.agents()]

    def complaints(self) -> list[str]:
        """What is wrong with the asking, a line each."""
        lines = [
            f"nothing new from the agent {agent.name}, what runs there is shown as it was last seen: "
            f"{agent.trouble}"
            for agent in self.agents()
            if agent.trouble is not None
        ]
        lines += [
            f"{agent.missed:,} faults on the machine of the agent {agent.name} are not known here: they were "
            "more than it keeps until it is asked"
            for agent in self.agents()
            if agent.missed and time.time() < agent.missed_at_s + _DAY_S
        ]
        if self._thread.has_failed:
            lines.append("no agent is asked any more; the server's log says why")
        return lines

    def warnings(self) -> list[str]:
        """The same in short, to go with every answer."""
        lines = self.complaints()
        if len(lines) <= _WARNINGS:
            return lines
        return [*lines[:_WARNINGS], f"and {len(lines) - _WARNINGS} more agents; /readyz has them all"]

    def ready_pods(self) -> Mapping[WorkloadKey, frozenset[PodKey]]:
        """The processes that are there, on machines whose agent answers."""
        answering = {agent.node for agent in self.agents() if agent.trouble is None}
        ready: dict[WorkloadKey, set[PodKey]] = {key: set() for key in self._resolver.workloads()}
        for pod, interval in self._resolver.members().items():
            if interval.node in answering:
                ready.setdefault(interval.membership.workload, set()).add(pod)
        return {key: frozenset(pods) for key, pods in ready.items()}

    def claims(self) -> Iterable[Claim]:
        return self._resolver.claims()

    def members(self) -> Mapping[PodKey, MembershipInterval]:
        return self._resolver.members()

    def present(self) -> list[ClusterState]:
        """The workloads of all machines, and their processes."""
        return [local_state(self._cluster, self._resolver)]

    def hardware(self) -> Mapping[str, Hardware]:
        """What each machine that was asked has beside its GPUs."""
        return self._hardware.copy()

    def metrics(self) -> Iterator[Metric]:
        return exposed(self._measured)

    async def output(self, cluster: str, node: str, namespace: str, pod: str) -> list[dict[str, Any]]:
        """The end of what a pod wrote, from the agent of its node, or of all that may be it."""
        agents = [one for one in self.agents() if one.node == node and one.cluster in ("", cluster)]
        if not agents:
            raise NotFound(
                f"no agent is known on the node {node!r}, which has the output of {namespace}/{pod}",
                hint="run trilens agent there, and name it in agents.scrape_config",
            )
        try:
            asked = [self._thread.submit(agent.client.output(namespace, pod)) for agent in agents]
            return await asyncio.gather(*map(asyncio.wrap_future, asked))
        except ScrapeError as e:
            raise ScrapeError(f"the agent of {node} did not tell: {e.message}") from e

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for roster in self._rosters:
                tasks.create_task(roster.run())
            tasks.create_task(self._measure_often())

    async def _ask(self, agent: Agent) -> None:
        await self._take_events(agent)  # first: who is named in one may be gone in the next look
        seen = await agent.client.processes()
        before, agent.node = agent.node, seen.node
        self._hardware[seen.node] = seen.hardware
        if before != seen.node:
            self._forget({before})
        if seen.jobs or self._resolver.has_processes(seen.node):
            self._refuse_twin(agent, seen.node)
            self._told_by[seen.node] = agent.ledger
        if self._resolver.take(seen, _now_ms()):
            self._changed.set()

    def _refuse_twin(self, agent: Agent, node: str) -> None:
        """Two machines of one name would end each other's processes: the one that told first goes on."""
        if self._told_by.get(node, agent.ledger) == agent.ledger:
            return
        twin = next((other for other in self.agents() if _is_twin(other, agent)), None)
        if twin is not None:
            raise ScrapeError(
                f"this machine and that of {twin.name} are both called {node!r}",
                hint="give one of them another name: agent.node_name",
            )

    async def _take_events(self, agent: Agent, wait_s: float = 0.0) -> None:
        """Where there is none, the next that comes within so long: it is told the moment it happens."""
        told = await agent.client.events(agent.position, wait_s)
        agent.waits = told.waits
        if told.ledger != agent.ledger:  # its first answer, or its numbers began anew
            agent.ledger, agent.position = told.ledger, self._kept.get(told.ledger, 0)
            told = await agent.client.events(agent.position)
        if agent.position and told.events and (gap := told.events[0].number - agent.position - 1) > 0:
            agent.has_dropped(gap)
        for event in told.events:
            if event.number <= agent.position:
                continue
            # Nothing is told before it has happened, whatever that machine's clock says.
            t_ms = min(event.t_ms, _now_ms())
            event = replace(event, t_ms=t_ms, cluster=agent.cluster)
            self._events.event(event)
            for listener in self._listeners:
                listener(event)
            if event.job is not None:
                self._resolver.glimpse(event.node, event.job, t_ms)
            agent.position = self._kept[told.ledger] = event.number

    def _left(self, agents: Collection[Agent]) -> None:
        """These are no longer among the targets."""
        self._forget({agent.node for agent in agents})
        for agent in agents:
            if agent.ledger in self._kept:
                self._kept[agent.ledger] = self._kept.pop(agent.ledger)
        asked = {agent.ledger for agent in self.agents()}
        unasked = [ledger for ledger in self._kept if ledger not in asked]
        for ledger in unasked[: max(len(unasked) - _LEDGERS, 0)]:
            del self._kept[ledger]

    def _forget(self, nodes: Collection[str | None]) -> None:
        """What is on machines that nobody asks any more has ended, as far as anybody knows: on these, and
        once every agent has told its node, on those from before a restart that none of them is."""
        asked = {agent.node for agent in self.agents()}
        if all(roster.is_complete for roster in self._rosters):
            nodes = {*self._resolver.nodes, *self._hardware, *self._told_by}
        gone = {node for node in nodes if node is not None and node not in asked}
        for node in gone:
            self._hardware.pop(node, None)
            self._told_by.pop(node, None)
        if gone:
            self._resolver.forget(gone, _now_ms())
            self._changed.set()

    async def _measure_often(self) -> None:
        while True:
            self._measure(_now_ms())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _MEASURE_S)
            self._changed.clear()

    def _measure(self, at_ms: int) -> None:
        try:
            self._measured = measured(self._resolver, at_ms)
            if self._series is not None:
                self._series.write(as_series(self._measured), at_ms)
        except StoreError as e:
            log.warning("workload metrics were not taken", extra={"cluster": self._cluster, "error": str(e)})
        except Exception:  # a defect in measuring must not end the asking
            log.exception("workload metrics failed", extra={"cluster": self._cluster})


def _is_twin(one: Agent, other: Agent) -> bool:
    return one is not other and one.node == other.node and one.ledger != other.ledger


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
