"""Work in threads whose answer somebody awaits."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request

from trilens.model.errors import NotFound, TooManyRequests
from trilens.model.identity import Grant, Identity, Right
from trilens.serve.envelope import failure
from trilens.serve.routes import IDENTITY
from trilens.serve.runner import QueryRunner
from trilens.settings.query import QuerySettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from trilens.model.query import QueryGuard

PATIENCE_S = 60.0


def test_work_that_ends_by_stop_iteration_fails_and_does_not_hang() -> None:
    async def never() -> dict[str, str]:
        await asyncio.Event().wait()
        return {}

    async def asked() -> None:
        runner = QueryRunner(QuerySettings())
        request = Request({"type": "http", "headers": []}, never)
        try:
            await asyncio.wait_for(runner.run(request, runner.guard(), lambda: next(iter(()))), 60)
        finally:
            runner.close()

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(asked())


def test_work_stops_when_who_awaits_it_gives_up() -> None:
    """As the doctor does, of a question that takes too long."""
    stopped = threading.Event()

    async def never() -> dict[str, str]:
        await asyncio.Event().wait()
        return {}

    async def asked() -> bool:
        runner = QueryRunner(QuerySettings())
        guard, begun = runner.guard(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def work() -> bool:
            with guard.stopping(stopped.set):
                loop.call_soon_threadsafe(begun.set)
                return stopped.wait(PATIENCE_S)

        running = asyncio.ensure_future(
            runner.run(Request({"type": "http", "headers": []}, never), guard, work)
        )
        await begun.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        found = stopped.is_set()
        stopped.set()
        runner.close()
        return found

    assert asyncio.run(asked())


def test_one_who_asks_for_much_leaves_threads_to_others() -> None:
    may_go, much = threading.Event(), []

    async def never() -> dict[str, str]:
        await asyncio.Event().wait()
        return {}

    async def asked() -> None:
        runner = QueryRunner(QuerySettings(concurrency=4, per_identity=10))
        everywhere = Grant(frozenset({Right.READ}))

        def ask(name: str, work: Callable[[], object]) -> asyncio.Future[object]:
            scope = {"type": "http", "headers": [], IDENTITY: Identity(name, "token", everywhere)}
            return asyncio.ensure_future(runner.run(Request(scope, never), runner.guard(), work))

        try:
            much.extend(ask("eve", lambda: may_go.wait(10 * PATIENCE_S)) for _ in range(10))
            assert await asyncio.wait_for(ask("ada", lambda: "here"), PATIENCE_S) == "here"
            with pytest.raises(TooManyRequests, match="eve has 10 queries") as refused:
                await ask("eve", lambda: "one more")
            assert failure(refused.value).headers["Retry-After"] == "5"
            assert str(refused.value).endswith("(try again in 5 s)")
            for one in much:  # their threads are busy still, and count
                one.cancel()
            await asyncio.wait(much)
            much.extend(ask("eve", lambda: may_go.wait(10 * PATIENCE_S)) for _ in range(10))
            assert await asyncio.wait_for(ask("ada", lambda: "still here"), PATIENCE_S) == "still here"
            may_go.set()
            assert await asyncio.gather(*much[10:]) == [True] * 10
            assert await ask("eve", lambda: "later") == "later"
        finally:
            may_go.set()
            runner.close()

    asyncio.run(asked())


def test_what_nobody_waits_for_has_its_time_from_when_it_begins() -> None:
    runner = QueryRunner(QuerySettings(concurrency=1, timeout=timedelta(milliseconds=1)))
    may_go, began = threading.Event(), threading.Event()

    def keep_busy(_guard: QueryGuard) -> None:
        assert may_go.wait(PATIENCE_S)

    try:
        runner.later(keep_busy)
        runner.later(lambda _guard: began.set())
        assert runner.running == 2
        time.sleep(0.01)  # all threads are busy for longer than a query may take
        may_go.set()
        assert began.wait(PATIENCE_S)
    finally:
        runner.close()
    assert runner.running == 0


def test_what_nobody_waits_for_ends_with_the_server() -> None:
    runner = QueryRunner(QuerySettings(concurrency=1))
    running, stopped, begun = threading.Event(), threading.Event(), []

    def work(guard: QueryGuard) -> None:
        with guard.stopping(stopped.set):
            running.set()
            assert stopped.wait(PATIENCE_S)

    runner.later(work)
    runner.later(lambda _guard: begun.append(1))
    assert running.wait(PATIENCE_S)
    runner.cancel_all()
    deadline = time.monotonic() + PATIENCE_S
    while runner.running:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    runner.close()
    assert stopped.is_set()
    assert begun == []


def test_reads_side_by_side_end_with_who_began_them() -> None:
    runner = QueryRunner(QuerySettings())
    guard, stopped = runner.guard(), threading.Event()
    all_run = threading.Barrier(7)  # as many as there are threads, and this one

    def read() -> str:
        with guard.stopping(stopped.set):
            all_run.wait(PATIENCE_S)
            assert stopped.wait(PATIENCE_S)
            return "late"

    with pytest.raises(NotFound), runner.side_by_side.reading(guard) as reads:
        begun = [reads.begin(read) for _ in range(7)]
        all_run.wait(PATIENCE_S)
        raise NotFound("no such rank")
    assert {one() for one in begun[:6]} == {"late"}
    with pytest.raises(CancelledError):  # which had no thread yet
        begun[6]()
    with runner.side_by_side.reading(runner.guard()) as reads:
        both = reads.begin(lambda: 1), reads.begin(lambda: 2)
        assert [one() for one in both] == [1, 2]
    runner.close()
    with pytest.raises(RuntimeError), runner.side_by_side.reading(runner.guard()) as reads:
        reads.begin(lambda: 1)
