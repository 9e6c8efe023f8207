"""How large the store is: known at once or not at all, however the engine fares."""

from __future__ import annotations

import threading

from trilens.model.errors import StoreError
from trilens.serve.store_size import KeptSize
from trilens.store.store import StoreSize


class Engine:
    """Answers, is away, or says nothing until it is let go."""

    def __init__(self) -> None:
        self.size = StoreSize(12, 345)
        self.asked = 0
        self.is_away = False
        self.silent: threading.Event | None = None

    def __call__(self) -> StoreSize:
        self.asked += 1
        if self.silent is not None:
            self.silent.wait(60)
        if self.is_away:
            raise StoreError("connection refused")
        return self.size


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_size_is_asked_for_once_in_a_while() -> None:
    engine, clock = Engine(), Clock()
    kept = KeptSize(engine, clock)
    assert kept.latest() == kept.latest() == StoreSize(12, 345)
    assert engine.asked == 1
    engine.size = StoreSize(13, 400)
    clock.now_s += 6
    assert kept.latest() == StoreSize(13, 400)


def test_of_an_engine_that_says_nothing_the_last_size_is_told_and_then_none() -> None:
    engine, clock = Engine(), Clock()
    kept = KeptSize(engine, clock)
    assert kept.latest() == StoreSize(12, 345)
    engine.silent = threading.Event()
    clock.now_s += 60
    assert kept.latest() == StoreSize(12, 345)
    clock.now_s += 61
    assert kept.latest() is None
    assert engine.asked == 2, "who is silent is not asked again meanwhile"
    engine.silent.set()


def test_an_engine_that_is_away_has_no_size() -> None:
    engine = Engine()
    engine.is_away = True
    kept = KeptSize(engine, Clock())
    assert kept.latest() is None
    engine.is_away = False
    assert kept.latest() == StoreSize(12, 345)
