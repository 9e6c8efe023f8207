"""A simulated cluster that answers on a port, while its time passes."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from aiohttp import web

from trilens.simulate.cluster import kube_time
from trilens.simulate.over_http.agents import AGENT_TARGETS, Agents
from trilens.simulate.over_http.discovery import definitions
from trilens.simulate.over_http.exporters import DCGM_TARGETS, PROGRAM_TARGETS, Exporters
from trilens.simulate.over_http.faults import Faults
from trilens.simulate.over_http.kube_api import KubeApi
from trilens.simulate.over_http.pace import Pace
from trilens.simulate.over_http.record_sender import RecordSender
from trilens.simulate.over_http.watches import News

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from trilens.simulate.world import World

_T = TypeVar("_T")

_HOST: Final = "127.0.0.1"
_BEAT_S: Final = 0.2  # how often the world moves on; a change is seen at most so much later than it happened
_BACKLOG: Final = 1024
_LEAVE_S: Final = 0.2  # for requests under way when it ends; watches would stay for as long as they may


def bind(port: int = 0) -> socket.socket:
    """Who comes before a cluster answers there waits for it. Raises OSError where the port is taken."""
    return socket.create_server((_HOST, port), backlog=_BACKLOG)


def url_of(listener: socket.socket) -> str:
    return f"http://{_HOST}:{listener.getsockname()[1]}"


def write_kubeconfig(file: Path, url: str) -> None:
    """For kubectl, or anything else that takes one. It is JSON, which is YAML too."""
    name = "simulated"
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


class SimulatedCluster:
    """One thread with an event loop does everything: time passes in between two answers, never during one.

    Use as a context manager. The world must not be touched from elsewhere meanwhile, but through `ask`.
    """

    def __init__(
        self,
        world: World,
        *,
        speed: float = 1.0,
        listener: socket.socket | None = None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        """It answers at `listener`, or at a port of its own. `on_end` is called from its thread when it ends,
        by itself or not."""
        self._world = world
        self._pace = Pace(world.now_ms, speed)
        self._listener = listener or bind()
        self._url = url_of(self._listener)
        self._on_end = on_end
        self._failure: Exception | None = None
        self._sender: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = News()
        self._ready: Future[None] = Future()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="simulated-cluster", daemon=True)
        for definition in definitions(kube_time(world.now_ms)):
            world.objects.put(definition)

    def __enter__(self) -> SimulatedCluster:
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        self._ready.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises what has gone wrong meanwhile."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise RuntimeError("the simulation has failed") from self._failure

    @property
    def url(self) -> str:
        return self._url

    @property
    def dcgm_targets(self) -> str:
        """For `http_sd_configs`."""
        return self.url + DCGM_TARGETS

    @property
    def program_targets(self) -> str:
        """For `http_sd_configs`."""
        return self.url + PROGRAM_TARGETS

    @property
    def agent_targets(self) -> str:
        """For `http_sd_configs`."""
        return self.url + AGENT_TARGETS

    def ask(self, question: Callable[[World], _T]) -> _T:
        """From another thread, of the world between two answers; what it changes is told to who watches."""

        async def answer() -> _T:
            answered = question(self._world)
            self._news.tell()
            return answered

        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result()

    def send_records_to(self, server: str) -> None:
        """From another thread: training ranks tell this server, at a URL, of their steps from now on, and no
        other any more."""

        async def begin() -> None:
            if self._sender is not None:
                self._sender.cancel()
            self._sender = asyncio.create_task(RecordSender(self._world, server).send())

        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(begin(), self._loop).result()

    def write_kubeconfig(self, file: Path) -> None:
        write_kubeconfig(file, self.url)

    def _run(self) -> None:
        loop = self._loop
        assert loop is not None
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._serve())
        except Exception as e:  # noqa: BLE001 - whoever started it is told
            if self._ready.done():
                self._failure = e
            else:
                self._ready.set_exception(e)
        finally:
            self._on_end()

    async def _serve(self) -> None:
        app = web.Application()
        app.add_routes(KubeApi(self._world.objects, self._news).routes())
        app.add_routes(Exporters(self._world).routes())
        app.add_routes(Agents(self._world).routes())
        app.add_routes(Faults(self._world).routes())
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LEAVE_S, handler_cancellation=True)
        await runner.setup()
        try:
            await web.SockSite(runner, self._listener, backlog=_BACKLOG).start()
            self._ready.set_result(None)
            await self._let_time_pass()
        finally:
            if self._sender is not None:
                self._sender.cancel()
                await asyncio.gather(self._sender, return_exceptions=True)
            await runner.cleanup()

    async def _let_time_pass(self) -> None:
        while not self._stop.is_set():
            self._world.advance(self._pace.now_ms())
            self._news.tell()
            if self._sender is not None and self._sender.done():
                self._sender.result()  # raises: it ends by itself only where the server refuses what is sent
            try:
                async with asyncio.timeout(_BEAT_S):
                    await self._stop.wait()
            except TimeoutError:
                pass
