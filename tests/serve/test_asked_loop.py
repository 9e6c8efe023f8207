"""What threads ask of a loop ends before it does, and who asked is told."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from trilens.model.errors import QueryCancelled, ServerSilent, SourceError
from trilens.promql.memory import MemorySource
from trilens.serve import compose
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.compose import System
from trilens.serve.own_queries import EmbeddedQueries, Times
from trilens.serve.pages.doctor_inside import InsideServer
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from starlette.types import Receive, Scope, Send

    from trilens.model.query import QueryGuard
    from trilens.model.series import Selected, SelectRequest

PATIENCE_S = 60.0


class Question:
    """Nobody answers it."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.ended = threading.Event()

    async def asked(self) -> None:
        try:
            self.begun.set()
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_an_answer_and_an_error_go_to_the_thread_that_asked() -> None:
    loop = AskedLoop(asyncio.get_running_loop())

    async def answered() -> int:
        return 7

    async def failed() -> int:
        raise SourceError("it is away")

    assert await asyncio.to_thread(loop.answer, answered(), PATIENCE_S) == 7
    with pytest.raises(SourceError, match="it is away"):
        await asyncio.to_thread(loop.answer, failed(), PATIENCE_S)
    await loop.close()


async def test_a_close_ends_what_is_asked_and_tells_who_asked() -> None:
    loop, question, later = AskedLoop(asyncio.get_running_loop()), Question(), Question()
    asking = asyncio.create_task(asyncio.to_thread(loop.answer, question.asked(), PATIENCE_S))
    await asyncio.to_thread(question.begun.wait, PATIENCE_S)
    just_asked = loop.ask(Question().asked())
    await loop.close()
    assert question.ended.is_set()
    assert just_asked.cancelled(), "also what had not begun"
    with pytest.raises(QueryCancelled, match="the server stops"):
        await asking
    with pytest.raises(QueryCancelled, match="the server stops"):
        await asyncio.to_thread(loop.answer, later.asked(), PATIENCE_S)
    assert not later.begun.is_set()


class Endless(MemorySource):
    """Samples that are read until nobody wants them any more."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.reading = 0

    def select(self, request: SelectRequest, guard: QueryGuard) -> Selected:
        self.reading += 1
        self.begun.set()
        try:
            while True:
                self.check(guard)
        finally:
            self.reading -= 1

    def check(self, guard: QueryGuard) -> None:
        guard.check()


@pytest.mark.parametrize("what", ["vector", "matrix", "series"])
async def test_what_is_computed_here_has_left_off_when_the_close_returns(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    loop, samples = AskedLoop(asyncio.get_running_loop()), Endless()
    queries, times = EmbeddedQueries(samples), Times(0, 1000, 10)
    asked: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "vector": lambda: queries.vector("up"),
        "matrix": lambda: queries.matrix("up", times, ("job",)),
        "series": lambda: queries.series("up", times),
    }
    asking = asyncio.create_task(asyncio.to_thread(loop.answer, asked[what](), PATIENCE_S))
    await asyncio.to_thread(samples.begun.wait, PATIENCE_S)
    await asyncio.wait_for(loop.close(), PATIENCE_S)
    assert samples.reading == 0
    with pytest.raises(QueryCancelled, match="the server stops"):
        await asking
    gc.collect()
    assert [one.getMessage() for one in caplog.records if one.name == "asyncio"] == []


async def test_the_close_waits_for_what_nobody_wants_any_more() -> None:
    """Given up before by who asked it, and read all the same: what it reads is closed next."""
    loop, samples = AskedLoop(asyncio.get_running_loop()), Endless()
    leave_off = threading.Event()
    check = samples.check
    samples.check = lambda guard: check(guard) if leave_off.is_set() else None  # type: ignore[method-assign]
    asked = loop.ask(EmbeddedQueries(samples).vector("up"))
    await asyncio.to_thread(samples.begun.wait, PATIENCE_S)
    asked.cancel()
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.05, leave_off.set)
    await asyncio.wait_for(loop.close(), PATIENCE_S)
    assert samples.reading == 0


async def test_what_is_not_answered_in_time_is_not_asked_any_more() -> None:
    loop, question = AskedLoop(asyncio.get_running_loop()), Question()
    with pytest.raises(SourceError, match=r"no answer within 0\.01 s"):
        await asyncio.to_thread(loop.answer, question.asked(), 0.01)
    await asyncio.to_thread(question.ended.wait, PATIENCE_S)
    assert question.ended.is_set() or not question.begun.is_set()


def test_a_loop_that_has_ended_is_not_asked() -> None:
    found: list[AskedLoop] = []

    async def begin() -> None:
        found.append(AskedLoop(asyncio.get_running_loop()))

    asyncio.run(begin())
    with pytest.raises(QueryCancelled, match="the server stops"):
        found[0].answer(Question().asked(), PATIENCE_S)


async def test_the_doctor_s_questions_end_too() -> None:
    begun = threading.Event()

    async def silent(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    loop = AskedLoop(asyncio.get_running_loop())
    server = InsideServer([], loop)
    server._router = silent  # type: ignore[assignment]
    asking = asyncio.create_task(asyncio.to_thread(server.get, "/api/now"))
    await asyncio.to_thread(begun.wait, PATIENCE_S)
    await loop.close()
    with pytest.raises(ServerSilent, match="the server stops"):
        await asking
    with pytest.raises(ServerSilent, match="not asked any more"):
        await asyncio.to_thread(server.get, "/api/now")


async def test_a_server_that_stops_ends_its_own_queries(tmp_path: Path) -> None:
    settings = load_settings(overrides={"storage.data_dir": str(tmp_path / "data")}, environ={})
    system = System(settings, None, lambda: settings)
    loops: list[AskedLoop] = []
    system.when_begun.append(loops.append)
    await system.start()
    question = Question()
    asked = loops[0].ask(question.asked())
    await system.stop()
    assert asked.cancelled()
    assert question.ended.is_set()


async def test_a_source_that_does_not_answer_holds_up_no_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compose, "_ANSWERED_S", 0.05)
    with ExitStack() as connections, socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE_S)

        def asked_about_gpus() -> None:
            """In a thread, which awaits the answer for half a minute."""
            while True:
                connection = connections.enter_context(silent.accept()[0])
                if b"DCGM" in connection.recv(65536):
                    return

        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        overrides = {"storage.data_dir": str(tmp_path / "data"), "source.url": url}
        settings = load_settings(overrides=overrides, environ={})
        system = System(settings, None, lambda: settings)
        await system.start()
        await asyncio.to_thread(asked_about_gpus)
        await asyncio.wait_for(system.stop(), 20)
