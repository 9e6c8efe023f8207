"""A ClickHouse server that takes connections and says nothing: nobody waits for it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest
from bench.torture.fault_proxy import Fault, FaultProxy, Nonsense

from servers import until
from trilens.model.errors import StoreError
from trilens.store import pulse, server_link
from trilens.store.engine import Engine
from trilens.store.options import StoreOptions
from trilens.store.pulse import Pulse
from trilens.store.store import Store, StoreHealth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "_EVERY_S", 0.05)
    monkeypatch.setattr(pulse, "_AGAIN_S", 0.05)
    monkeypatch.setattr(pulse, "_TIMEOUT_S", 1.5)


@pytest.fixture
def proxy(clickhouse_url: str) -> Iterator[FaultProxy]:
    with FaultProxy(int(clickhouse_url.rpartition(":")[2])) as proxy:
        yield proxy


def test_who_waits_for_a_server_that_falls_silent_is_told_and_it_is_asked_again(proxy: FaultProxy) -> None:
    def ask() -> int:
        found: int = engine.query_arrow("SELECT 1 AS one")["one"][0].as_py()
        return found

    with Engine.open(f"{proxy.url}/silent") as engine:
        assert ask() == 1
        assert engine.silence is None
        proxy.set(Fault.HANG)
        with pytest.raises(StoreError, match=r"/ping did not answer \d+ times"):
            ask()
        assert engine.silence is not None
        with pytest.raises(StoreError, match="did not answer"):
            engine.command("SYSTEM FLUSH LOGS")
        with pytest.raises(StoreError, match="did not answer"):
            engine.insert_arrow("samples", pa.table({"t": [1]}))
        proxy.set(Fault.NONE)
        until(lambda: engine.silence is None, "it is heard again")
        assert ask() == 1


def test_who_answers_200_in_its_place_has_written_and_changed_nothing(proxy: FaultProxy) -> None:
    """A proxy's page to log in at, say: what is acknowledged must be on disk, and what is deleted gone."""
    with Engine.open(f"{proxy.url}/silent") as engine:
        engine.command("CREATE TABLE IF NOT EXISTS written (t UInt8) ENGINE = Memory")
        rows = pa.table({"t": pa.array([1], pa.uint8())})
        engine.insert_arrow("written", rows)
        proxy.set(Fault.GARBAGE)
        for _ in range(2 * len(Nonsense)):  # which take turns
            with pytest.raises(StoreError):
                engine.insert_arrow("written", rows)
            with pytest.raises(StoreError):
                engine.command("TRUNCATE TABLE written")
            with pytest.raises(StoreError):
                engine.query_arrow("SELECT count() AS n FROM written")
        proxy.set(Fault.NONE)
        engine.insert_arrow("written", rows)
        assert engine.query_arrow("SELECT count() AS n FROM written")["n"][0].as_py() == 2


def test_a_server_that_is_silent_from_the_start_is_not_waited_for(proxy: FaultProxy) -> None:
    proxy.set(Fault.HANG)
    with pytest.raises(StoreError, match="did not answer"):
        Engine.open(f"{proxy.url}/silent")


def test_the_store_is_not_ready_and_says_why_though_nobody_writes(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(StoreOptions(data_dir=directory), upkeep=False)
    try:
        assert store.health() == StoreHealth(ready=True, read_only_reason=None, damage=())
        monkeypatch.setattr(Engine, "silence", "it did not answer")
        assert store.health() == StoreHealth(ready=False, read_only_reason="it did not answer", damage=())
    finally:
        store.close()


class Counted(Pulse):
    """Tells after some pings."""

    def __init__(self, url: str) -> None:
        self.pings = 0
        self.some = threading.Event()
        super().__init__(url)

    def _note(self, *, is_heard: bool) -> None:
        super()._note(is_heard=is_heard)
        self.pings += 1
        if self.pings == 4:
            self.some.set()


@pytest.mark.parametrize("fault", [Fault.REFUSE, Fault.GARBAGE])
def test_who_refuses_or_answers_nonsense_is_not_silent(
    proxy: FaultProxy, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks for more hears it at once, and in the words of what went wrong."""
    monkeypatch.setattr(pulse, "_TIMEOUT_S", 60.0)
    proxy.set(fault)
    beats = Counted(proxy.url)
    assert beats.some.wait(60)
    assert beats.silence is None
    beats.stop()


def test_a_statement_may_take_longer_than_a_pulse_and_what_it_raises_is_raised(
    proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "_TIMEOUT_S", 60.0)
    beats = Counted(proxy.url)
    assert beats.unless_silent(lambda: beats.some.wait(60))
    with pytest.raises(ZeroDivisionError):
        beats.unless_silent(lambda: 1 // 0)
    beats.stop()


def test_a_pulse_goes_on_after_what_nobody_foresaw(monkeypatch: pytest.MonkeyPatch) -> None:
    asked_again = threading.Event()
    answers = iter([RuntimeError("nobody foresaw it")])

    def stream(*_: Any) -> Any:
        for foreseen_by_nobody in answers:
            raise foreseen_by_nobody
        asked_again.set()
        raise httpx.ConnectError("refused")

    monkeypatch.setattr(httpx.Client, "stream", stream)
    beating = Pulse("http://127.0.0.1:1")
    assert asked_again.wait(30)
    beating.stop()


def test_the_database_is_made_once(clickhouse_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not by each connection: to make it again is still a change."""
    said: list[str] = []
    connect = server_link.clickhouse_connect.get_client

    def noting(**options: Any) -> Any:
        client = connect(**options)
        command = client.command

        def note(statement: str) -> Any:
            said.append(statement)
            return command(statement)

        client.command = note
        return client

    monkeypatch.setattr(server_link.clickhouse_connect, "get_client", noting)
    with Engine.open(f"{clickhouse_url}/once") as engine:
        assert engine.query_arrow("SELECT currentDatabase() AS name")["name"].to_pylist() == ["once"]
    assert said == ["CREATE DATABASE IF NOT EXISTS `once`"]
