"""Work in a thread with a loop of its own: started, asked, stopped, and failed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from trilens.serve.loop_thread import LoopThread


async def forever() -> None:
    await asyncio.Event().wait()


def test_it_is_asked_in_its_own_thread_while_it_runs() -> None:
    thread = LoopThread("worker", forever)
    assert thread.between_steps(lambda: threading.current_thread().name, 1) != "worker"
    thread.start()
    assert thread.between_steps(lambda: threading.current_thread().name, 10) == "worker"
    thread.stop()
    assert thread.between_steps(lambda: threading.current_thread().name, 1) != "worker"
    assert not thread.has_failed


def test_stopping_waits_for_what_the_work_does_last() -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            await forever()
        finally:
            told.append("written out")

    thread = LoopThread("worker", work)
    thread.start()
    thread.stop()
    assert told == ["written out"]
    thread.stop()  # once more does no harm


def test_work_that_is_busy_is_not_waited_for_without_end() -> None:
    busy, released = threading.Event(), threading.Event()

    async def work() -> None:
        busy.set()
        released.wait(30)
        await forever()

    thread = LoopThread("worker", work)
    thread.start()
    assert busy.wait(10)
    with pytest.raises(TimeoutError):
        thread.between_steps(lambda: None, 0.01)
    released.set()
    thread.stop()


def test_work_that_ends_by_a_defect_is_said_to_have(caplog: pytest.LogCaptureFixture) -> None:
    ended = threading.Event()

    async def work() -> None:
        try:
            raise ZeroDivisionError
        finally:
            ended.set()

    thread = LoopThread("worker", work)
    thread.start()
    assert ended.wait(10)
    thread.stop()
    assert thread.has_failed
    assert "a defect" in caplog.text
    with pytest.raises(RuntimeError, match="worker does not run"):
        thread.submit(forever())
