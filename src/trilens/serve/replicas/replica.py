"""One of several servers of one Trilens: a whole system while it leads, else one that passes requests on."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from typing import TYPE_CHECKING, Final

from trilens.collect.kubernetes.access import InClusterAccess
from trilens.collect.kubernetes.api import KubeApi
from trilens.collect.kubernetes.kubeconfig import KubeconfigAccess
from trilens.serve.compose import System
from trilens.serve.replicas.election import Election, Timing
from trilens.serve.replicas.elector import Elector, clock_s
from trilens.serve.replicas.lease import KubernetesLease
from trilens.serve.replicas.pass_on import LEADS_HELP, PassOn
from trilens.serve.self_metrics import SelfMetrics
from trilens.serve.state_metrics import gauge

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from trilens.settings.tree import Settings

log = logging.getLogger(__name__)

LEASE_LOST_EXIT: Final = 3


class Replica:
    """As a System is for a server that is alone. Made, then `start`, then `stop`, in one event loop."""

    def __init__(self, settings: Settings, token: str | None, load: Callable[[], Settings]) -> None:
        self._settings, self._token, self._load = settings, token, load
        me = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._election = Election(
            me, _address(settings), Timing(settings.replicas.lease_duration.total_seconds())
        )
        server = settings.server
        proxy = settings.access.proxy
        secret = proxy.read_secret(settings.base_dir) if proxy is not None else None
        self._pass_on = PassOn(me, self._leader, server.max_body, server.tls_cert_file, proxy, secret)
        self._elector: Elector | None = None
        self._system: System | None = None  # once it answers
        self._taking_over: asyncio.Task[None] | None = None
        self._metrics = SelfMetrics()
        self.failure: BaseException | None = None  # why it could not take over
        self.on_failure: Callable[[], None] = lambda: None

    @property
    def metrics(self) -> SelfMetrics:
        return self._system.metrics if self._system is not None else self._metrics

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (self._system.app if self._system is not None else self._pass_on)(scope, receive, send)

    async def start(self) -> None:
        settings = self._settings
        file = settings.replicas.kubeconfig
        access = (
            InClusterAccess()
            if file is None
            else KubeconfigAccess(settings.base_dir / file.expanduser(), settings.replicas.context)
        )
        lease = KubernetesLease(KubeApi(access), *settings.replicas.namespace_and_name)
        self._elector = Elector(self._election, lease, _stop_at_once)
        self._elector.start()
        self._taking_over = asyncio.create_task(self._take_over(self._elector))

    async def stop(self) -> None:
        """The lease goes last: until then all is written that was taken."""
        if self._taking_over is not None and self._elector is not None:
            if not self._elector.won.is_set():  # a store that is being opened must be closed again
                self._taking_over.cancel()
            await asyncio.wait([self._taking_over])
        if self._system is not None:
            await self._system.stop()
        if self._elector is not None:
            await self._elector.stop()
        await self._pass_on.close()
        if self.failure is not None:
            raise self.failure

    async def reload(self) -> None:
        """One that waits reads its settings when its turn comes."""
        if self._system is not None:
            await self._system.reload()

    def cancel_queries(self) -> None:
        if self._system is not None:
            self._system.cancel_queries()

    async def _take_over(self, elector: Elector) -> None:
        await elector.won.wait()
        try:
            settings = await asyncio.to_thread(self._load)
            system = await asyncio.to_thread(System, settings, self._token, self._load, self._leads)
            try:
                await system.start()
            except BaseException:
                await system.stop()
                raise
        except Exception as e:  # noqa: BLE001 - raised again by `stop`, as a server that is alone does
            self.failure = e
            self.on_failure()
            return
        system.metrics.watch(lambda: [gauge("trilens_replica_leads", LEADS_HELP, 1)])
        # Told since the start, and in one step with the next line: it may be renewed at any moment.
        system.metrics.certificate_ends_s = self._metrics.certificate_ends_s
        system.metrics.certificate_trouble = self._metrics.certificate_trouble
        self._system = system

    def _leads(self) -> bool:
        """In any thread."""
        return self._election.leads(clock_s())

    def _leader(self) -> str | None:
        found = self._election.leader(clock_s())
        return found.address if found is not None and found.holder != self._election.me else None


def _address(settings: Settings) -> str:
    if settings.replicas.address is not None:
        return settings.replicas.address
    scheme = "https" if settings.server.tls_cert_file is not None else "http"
    return f"{scheme}://{socket.gethostname()}:{settings.server.address[1]}"


def _stop_at_once() -> None:
    """Another one may work now: nothing here may go on, and nothing that waits may be written."""
    log.error("the lease is lost, another server works from now on: this one ends")
    logging.shutdown()
    os._exit(LEASE_LOST_EXIT)
