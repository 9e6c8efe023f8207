"""The running system seen from outside: is it ready, what does it hold, how is it doing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from trilens.serve.cluster_health import cluster_health
from trilens.serve.probes import Readiness
from trilens.serve.state_metrics import gauge, scrape_metrics, store_metrics, write_metrics
from trilens.serve.store_size import KeptSize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from prometheus_client import Metric

    from trilens.alert.manager import RuleManager
    from trilens.collect.manager import ScrapeManager
    from trilens.collect.remote_write import RemoteWriteReceiver
    from trilens.serve.agent_intake import AgentIntake
    from trilens.serve.cluster_intake import ClusterIntake
    from trilens.serve.money.ledger_keeper import LedgerKeeper
    from trilens.serve.runner import QueryRunner
    from trilens.serve.upstream import Upstream
    from trilens.store.store import Store


class SystemState:
    """`store`, `scrapes` and `receiver` are None where another server holds the samples, `clusters` where
    none is watched, `agents` where none is asked, `ledger` where none is kept."""

    def __init__(
        self,
        runner: QueryRunner,
        store: Store | None,
        scrapes: ScrapeManager | None,
        receiver: RemoteWriteReceiver | None,
        upstream: Upstream | None,
        clusters: ClusterIntake | None,
        agents: AgentIntake | None,
        ledger: LedgerKeeper | None = None,
        rules: RuleManager | None = None,
        access_troubles: Callable[[], Sequence[str]] = tuple,
        unnamed_proxy: Callable[[], str] = str,
        disbelieved_proxy: Callable[[], str] = str,
        certificate_trouble: Callable[[], str] = str,
    ) -> None:
        self._runner = runner
        self._store = store
        self._scrapes = scrapes
        self._receiver = receiver
        self._upstream = upstream
        self._clusters = clusters
        self._agents = agents
        self._ledger = ledger
        self._rules = rules
        self._access_troubles = access_troubles
        self._unnamed_proxy = unnamed_proxy
        self._disbelieved_proxy = disbelieved_proxy
        self._certificate_trouble = certificate_trouble
        self._size = KeptSize(store.size) if store is not None else None

    async def readiness(self) -> Readiness:
        details: dict[str, object] = {}
        lacks = ""
        if self._store is not None:
            health = self._store.health()
            lacks = "" if health.ready else "store"
            details["store"] = asdict(health)
        if self._upstream is not None:
            trouble = await self._upstream.check()
            lacks = "" if trouble is None else "source"
            why = {"error": trouble.reason, "since": _stamp(trouble.since)} if trouble is not None else {}
            details["source"] = {"url": self._upstream.url, "reachable": trouble is None, **why}
        if self._scrapes is not None:
            details["scrape"] = self._target_counts(self._scrapes)
            if troubles := self._scrapes.discovery_troubles():
                details["discovery"] = troubles
        if self._clusters is not None:  # what is known of workloads may be old; all else works
            states = self._clusters.states()
            synced = {state.cluster: state.synced for state in states}
            details["kubernetes"] = {
                "synced": synced,
                "complaints": self._clusters.complaints(),
                "unusable_monitors": [one._asdict() for one in self._clusters.unusable_monitors()],
                "clusters": {state.cluster: cluster_health(state) for state in states},
                "state_metrics": self._clusters.kube_state.states(),
            }
        if self._agents is not None:
            agents = {"known": len(self._agents.agents()), "complaints": self._agents.complaints()}
            details["agents"] = agents
        if self._ledger is not None:  # what was spent is known late; all else works
            details["ledger"] = {"troubles": list(self._ledger.state.troubles.values())}
        if unread := self._unread_rules():  # all others are evaluated
            details["rules"] = {"unread": unread}
        if troubles := list(self._access_troubles()):  # who came in before still does
            details["access"] = {"troubles": troubles}
        if peer := self._unnamed_proxy():  # all who come through it are one
            details["proxy"] = {"unnamed": peer}
        elif peer := self._disbelieved_proxy():  # nobody comes in through it
            details["proxy"] = {"without_secret": peer}
        if unusable := self._certificate_trouble():  # the old one is shown
            details["certificate"] = {"trouble": unusable}
        return Readiness(not lacks, details, lacks)

    def _unread_rules(self) -> list[str]:
        return [str(trouble) for trouble in self._rules.unread] if self._rules is not None else []

    def metrics(self) -> Iterator[Metric]:
        yield gauge("trilens_queries_running", "Queries that wait or run.", self._runner.running)
        if self._scrapes is not None:
            yield from scrape_metrics(self._scrapes.stats(), self._target_counts(self._scrapes))
        if self._receiver is not None:
            yield from write_metrics(self._receiver.stats)
        if self._store is not None:
            size = self._size.latest() if self._size is not None else None
            yield from store_metrics(self._store.stats(), size, self._store.health())

    def _target_counts(self, scrapes: ScrapeManager) -> dict[str, int]:
        counts = {"up": 0, "down": 0, "unknown": 0}
        for target in scrapes.targets():
            counts[target.health] += 1
        return counts


def _stamp(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
