"""What others changed is looked at again and again, and each trouble with it told once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trilens.model.errors import StoreError
from trilens.serve.access.access import Lookout
from trilens.serve.runner import QueryRunner
from trilens.serve.state import SystemState
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    import pytest


class Look:
    def __init__(self) -> None:
        self.trouble: str | None = None
        self.count = 0

    def __call__(self) -> None:
        self.count += 1
        if self.trouble is not None:
            raise StoreError(self.trouble)


def test_two_troubles_at_once_are_told_once_each(caplog: pytest.LogCaptureFixture) -> None:
    tokens, leavers = Look(), Look()
    lookout = Lookout([tokens, leavers], lambda: None)
    tokens.trouble, leavers.trouble = "the disk is away", "the table is away"
    for _ in range(3):
        lookout.look()
    assert _told(caplog) == ["the disk is away", "the table is away"]
    assert lookout.troubles == ["the disk is away", "the table is away"]
    tokens.trouble = None
    lookout.look()
    assert lookout.troubles == ["the table is away"]
    tokens.trouble = "the disk is away"
    lookout.look()
    assert _told(caplog)[2:] == ["the disk is away"]


def test_a_defect_in_one_does_not_keep_the_other_from_looking(caplog: pytest.LogCaptureFixture) -> None:
    after = Look()

    def broken() -> None:
        raise KeyError("defect")

    Lookout([broken, after], lambda: None).look()
    assert after.count == 1
    assert "not foreseen" in caplog.text


async def test_readiness_tells_of_it_and_stays_ready() -> None:
    runner = QueryRunner(load_settings(environ={}).query)
    parts = (None, None, None, None, None, None)
    well = await SystemState(runner, *parts).readiness()
    assert (well.ready, dict(well.details)) == (True, {})
    state = SystemState(
        runner, *parts, access_troubles=lambda: ["a mistake"], certificate_trouble=lambda: "no key"
    )
    told = await state.readiness()
    assert told.ready
    assert told.details == {"access": {"troubles": ["a mistake"]}, "certificate": {"trouble": "no key"}}


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [vars(one)["error"] for one in caplog.records if one.levelno == logging.ERROR]
