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

from trilens.model.errors import NotFound
from trilens.serve.runner import QueryRunner
from trilens.settings.query import QuerySettings

if TYPE_CHECKING:
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
