"""Work in threads whose answer somebody awaits."""

from __future__ import annotations

import asyncio

import pytest
from starlette.requests import Request

from trilens.serve.runner import QueryRunner
from trilens.settings.query import QuerySettings


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
