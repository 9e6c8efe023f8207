"""What is asked again and again goes on through whatever happens, and tells once what it cannot."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from trilens.model.errors import SourceError
from trilens.serve.looking_often import LookingOften

if TYPE_CHECKING:
    import pytest


async def test_it_goes_on_and_tells_once_until_there_is_an_answer_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers: list[Exception | None] = [SourceError("away"), SourceError("away"), None, SourceError("away")]
    enough = asyncio.Event()

    async def look() -> None:
        if not answers:
            enough.set()
            return
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    looking = LookingOften(look, 0.0, "nobody answers")
    with caplog.at_level(logging.WARNING):
        await looking.start()
        await asyncio.wait_for(enough.wait(), 10)
        await looking.stop()
    assert [record.getMessage() for record in caplog.records] == ["nobody answers"] * 2


async def test_a_defect_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    seen, enough = [], asyncio.Event()

    async def look() -> None:
        seen.append(1)
        if len(seen) == 1:
            raise KeyError("state")
        enough.set()

    looking = LookingOften(look, 0.0, "nobody answers")
    await looking.start()
    await asyncio.wait_for(enough.wait(), 10)
    await looking.stop()
    assert "KeyError" in caplog.text


async def test_what_was_never_started_can_be_stopped() -> None:
    looked = []

    async def look() -> None:
        looked.append(1)

    await LookingOften(look, 0.0, "").stop()
    assert looked == []
