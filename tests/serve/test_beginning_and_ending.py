"""The order in which the parts of a server begin and end."""

from __future__ import annotations

import asyncio

import pytest

from trilens.serve.life import Life, Step, looped, threaded


class _Part:
    def __init__(self, name: str, told: list[str], *, fails: bool = False) -> None:
        self._name = name
        self._told = told
        self._fails = fails

    def start(self) -> None:
        self._told.append(f"{self._name} begins")

    def stop(self) -> None:
        self._told.append(f"{self._name} ends")
        if self._fails:
            raise RuntimeError(f"{self._name} cannot end")


class _InLoop(_Part):
    async def start(self) -> None:  # type: ignore[override]
        asyncio.get_running_loop()
        super().start()

    async def stop(self) -> None:  # type: ignore[override]
        asyncio.get_running_loop()
        super().stop()


def test_parts_end_in_the_opposite_order() -> None:
    told: list[str] = []

    async def live() -> None:
        life = Life([threaded(_Part("store", told)), looped(_InLoop("push", told)), threaded(None)])
        await life.start()
        await life.stop()

    asyncio.run(live())
    assert told == ["store begins", "push begins", "push ends", "store ends"]


def test_one_that_cannot_end_leaves_none_before_it_open() -> None:
    told: list[str] = []
    life = Life([threaded(_Part("store", told)), threaded(_Part("rules", told, fails=True))])
    with pytest.raises(RuntimeError, match="rules cannot end"):
        asyncio.run(life.stop())
    assert told == ["rules ends", "store ends"]


def test_a_step_may_only_begin_or_only_end() -> None:
    told: list[str] = []

    async def ask() -> None:
        told.append("asked")

    async def live() -> None:
        life = Life([Step(stop=ask), Step(start=ask)])
        await life.start()
        assert told == ["asked"]
        await life.stop()

    asyncio.run(live())
    assert told == ["asked", "asked"]
