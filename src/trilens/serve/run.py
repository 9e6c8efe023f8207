"""Run the server until it is told to stop, then stop in an order that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import ssl
import sys
from typing import TYPE_CHECKING

import uvicorn
import uvloop

from trilens import __version__
from trilens.model.errors import ConfigError, StoreError
from trilens.serve.access.build import check_access
from trilens.serve.access.callers import Callers
from trilens.serve.c_heap import keep_the_c_heap_small
from trilens.serve.compose import System
from trilens.serve.crashes import end_at_a_crash
from trilens.serve.logs import configure_logs
from trilens.serve.open_files import may_open_many
from trilens.serve.own_health import certificate_ends_s
from trilens.serve.reception import Connections, CountingServer
from trilens.serve.stuck_loop import StuckLoop
from trilens.settings.files import stamp_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from trilens.serve.replicas.replica import Replica
    from trilens.settings.tree import Settings
    from trilens.store.store import Store

log = logging.getLogger(__name__)

_BACKLOG = 1024
_SWITCH_S = 0.001  # Python's default of 5 ms is what a short query would wait for each scrape being parsed
# A large cluster is a million objects, none of them garbage: by Python's defaults, looking them through took
# an eighth of the time until it was settled, in pauses of up to a quarter of a second. The second figure is
# low because who asks waits for it: the young ones of two rounds take milliseconds, of ten up to a tenth of
# a second.
_COLLECTED_AFTER = (20_000, 2, 250)
_KEEP_ALIVE_S = 75  # longer than clients keep an idle connection, or they would meet it just as it closes
_DATE_S = 1.0
_CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"  # of TLS 1.2; those of 1.3 are all good
_CERTIFICATE_S = 5.0  # how often it is looked whether there is another
_STUCK_S = 10  # a loop that has not turned for so long has met a defect


def run_server(
    load: Callable[[], Settings],
    announce: Callable[[str, Settings], None],
    afterwards: Callable[[Store], None] | None = None,
) -> None:
    """`load` reads the settings, now and again at a reload; `announce` is told the URL once it answers.
    `afterwards` is done meanwhile, in a thread: what nobody who opens a first page waits for."""
    keep_the_c_heap_small()
    settings = load()
    configure_logs(settings.server)
    may_open_many(settings.server.max_connections)
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_COLLECTED_AFTER)
    uvloop.run(serve(settings, load, announce, afterwards))


async def serve(
    settings: Settings,
    load: Callable[[], Settings],
    announce: Callable[[str, Settings], None],
    afterwards: Callable[[Store], None] | None = None,
) -> None:
    token = settings.required_token()
    if doubt := settings.server.doubt_about(token):
        log.warning(doubt)
    check_certificate(settings)
    check_access(settings)
    listener = bind(settings)
    loop = asyncio.get_running_loop()
    reload_wanted = asyncio.Event()  # from the start: a SIGHUP that nobody minds ends a process
    loop.add_signal_handler(signal.SIGHUP, reload_wanted.set)
    alone: System | None = None
    system: System | Replica
    try:
        if settings.replicas.lease is None:
            system = alone = await asyncio.to_thread(System, settings, token, load)
        else:
            system = replica = _replica(settings, token, load)
    except BaseException:
        listener.close()
        raise
    end_at_a_crash()
    server = _Server(system, settings)
    if alone is None:
        replica.on_failure = server.stop
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    reloads: asyncio.Task[None] | None = None
    rest: asyncio.Task[None] | None = None
    try:
        await system.start()
        reloads = asyncio.create_task(_reload_when_wanted(server, system.reload, reload_wanted))
        url = url_of(listener, secure=settings.server.tls_cert_file is not None)
        log.info("listening", extra={"url": url, "version": __version__})
        announce(url, settings)
        if afterwards is not None and alone is not None:
            rest = asyncio.create_task(asyncio.to_thread(_try, afterwards, alone.kept))
        await server.serve(sockets=[listener])
    finally:
        listener.close()
        if reloads is not None:
            reloads.cancel()
        await system.stop()
        if rest is not None:
            await rest
        log.info("stopped")


def _try(afterwards: Callable[[Store], None], store: Store) -> None:
    try:
        afterwards(store)
    except StoreError as e:
        log.warning("what was left for later is not done", extra={"error": str(e)})


def _replica(settings: Settings, token: str | None, load: Callable[[], Settings]) -> Replica:
    from trilens.serve.replicas.replica import Replica  # few servers have others beside them

    return Replica(settings, token, load)


async def _reload_when_wanted(
    server: _Server, reload: Callable[[], Awaitable[None]], wanted: asyncio.Event
) -> None:
    while True:
        try:
            await asyncio.wait_for(wanted.wait(), _CERTIFICATE_S)
        except TimeoutError:
            server.follow_certificate()
            continue
        wanted.clear()
        server.use_certificate()
        await reload()


class _Server(CountingServer):
    """uvicorn, with our own way to stop: it would end the process by the signal again after serving."""

    def __init__(self, system: System | Replica, settings: Settings) -> None:
        server = settings.server
        super().__init__(
            uvicorn.Config(
                system.app,
                interface="asgi3",
                proxy_headers=False,  # whom a proxy asks for, access/callers.py knows: not any local peer
                loop="none",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                ssl_certfile=server.tls_cert_file,
                ssl_keyfile=server.tls_key_file,
                ssl_ciphers=_CIPHERS,
                limit_concurrency=server.max_connections
                + 1,  # requests: those of who left run on for a while
                timeout_graceful_shutdown=max(1, round(server.shutdown_grace.total_seconds())),
            ),
            _connections(settings),
        )
        self.config.load()
        if self.config.ssl is not None:
            self.config.ssl.minimum_version = ssl.TLSVersion.TLSv1_2
        self._settings = settings
        self._system = system
        system.metrics.certificate_ends_s = certificate_ends_s(server.tls_cert_file)
        self._certificate_stamp = _certificate_stamp(settings)
        self._stopping = asyncio.Event()

    async def main_loop(self) -> None:
        """uvicorn looks ten times a second whether to stop; this waits, and keeps the date header true."""
        loop = asyncio.get_running_loop()
        with StuckLoop(_STUCK_S) as stuck:
            while not await self.on_tick(0):
                stuck.turned()
                due = loop.time() + _DATE_S
                try:
                    await asyncio.wait_for(self._stopping.wait(), _DATE_S)
                except TimeoutError:
                    self._system.metrics.loop_delays.observe(max(loop.time() - due, 0.0))

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def follow_certificate(self) -> None:
        """Where a new one was put in its place: in a cluster nobody is there to send a signal."""
        if _certificate_stamp(self._settings) != self._certificate_stamp:
            self.use_certificate()

    def use_certificate(self) -> None:
        """As it is on disk now, for connections from now on. One that cannot be used changes nothing."""
        context, server = self.config.ssl, self._settings.server
        if context is None or server.tls_cert_file is None:
            return
        self._certificate_stamp = _certificate_stamp(self._settings)
        try:
            check_certificate(self._settings)
        except ConfigError as e:
            self._system.metrics.certificate_trouble = str(e)
            log.error("the old certificate stays", extra={"error": str(e)})
        else:
            context.load_cert_chain(server.tls_cert_file, server.tls_key_file)
            self._system.metrics.certificate_ends_s = certificate_ends_s(server.tls_cert_file)
            self._system.metrics.certificate_trouble = ""
            log.info("the certificate is read again", extra={"file": str(server.tls_cert_file)})

    def stop(self) -> None:
        self._system.cancel_queries()
        self.force_exit = self.should_exit  # asked twice: do not wait for connections
        self.should_exit = True
        self._stopping.set()


def _connections(settings: Settings) -> Connections:
    server = settings.server
    most = server.max_connections_per_address or max(1, server.max_connections // 2)
    return Connections(server.max_connections, most, Callers(settings.access.proxy).trusts)


def _certificate_stamp(settings: Settings) -> tuple[tuple[int, int, int] | None, ...]:
    """Changes with the certificate, or its key; None where one is not there."""
    found: list[tuple[int, int, int] | None] = []
    for file in (settings.server.tls_cert_file, settings.server.tls_key_file):
        try:
            found.append(stamp_of(file) if file is not None else None)
        except OSError:
            found.append(None)
    return tuple(found)


def check_certificate(settings: Settings) -> None:
    """uvicorn reads it when everything runs already; a wrong one should be told before anything starts."""
    file = settings.server.tls_cert_file
    if file is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(file, settings.server.tls_key_file)
    except (OSError, ssl.SSLError) as e:
        raise ConfigError(f"cannot use the certificate {file}: {e}", hint="see server.tls_cert_file") from e


def bind(settings: Settings) -> socket.socket:
    """Before anything else starts: a taken port should cost no time and touch no data."""
    host, port = settings.server.address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as e:
        reason = (e.strerror or str(e)).partition(" (while")[0]  # Python repeats the address there
        raise ConfigError(
            f"cannot listen on {settings.server.listen}: {reason}",
            hint="choose another with --listen",
        ) from e


def url_of(listener: socket.socket, *, secure: bool = False) -> str:
    host, port = listener.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = socket.gethostname()
    scheme = "https" if secure else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
