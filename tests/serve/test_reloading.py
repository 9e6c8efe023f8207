"""Settings read again while the server runs: all of a reading is taken over, or nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from trilens.model.errors import ConfigError
from trilens.serve import compose, run
from trilens.serve.reloading import Followers, Reloading
from trilens.serve.storage import open_store
from trilens.settings.load import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.ledger.prices.book import Prices
    from trilens.settings.tree import Settings

NOBODY = Followers(None, None, None)


def settings(folder: Path, text: str) -> Settings:
    file = folder / "trilens.yaml"
    file.write_text(text)
    return load_settings(file, environ={})


async def test_one_reload_after_the_other(tmp_path: Path) -> None:
    read = settings(tmp_path, "")
    begun, go = threading.Event(), threading.Event()
    loads: list[str] = []

    def load() -> Settings:
        loads.append("load")
        begun.set()
        assert go.wait(10)
        return read

    reloading = Reloading(read, load, NOBODY)
    both = [asyncio.create_task(reloading.reload()) for _ in range(2)]
    await asyncio.to_thread(begun.wait, 10)
    await asyncio.to_thread(int)  # what was handed to a thread before has begun by now
    assert loads == ["load"]
    go.set()
    await asyncio.gather(*both)
    assert loads == ["load", "load"]


async def test_a_reload_that_failed_is_remembered_until_one_succeeds(tmp_path: Path) -> None:
    before = settings(tmp_path, "scrape: {global: {scrape_interval: 15s}}")
    wanted = [
        settings(tmp_path, "query: {timeout: 1s}"),
        settings(tmp_path, "rules: {files: [none.yml]}"),
        settings(tmp_path, "scrape: {global: {scrape_interval: 30s}}"),
    ]
    reloading = Reloading(before, lambda: wanted.pop(0), NOBODY)
    with pytest.raises(ConfigError, match=r"query\.timeout: cannot change while the server runs"):
        await reloading.reload()
    await reloading.reload_logged()  # a rule file that is not there
    assert (reloading.in_force.settings, reloading.in_force.is_latest) == (before, False)
    await reloading.reload()
    assert reloading.in_force.settings.scrape.global_config == {"scrape_interval": "30s"}
    assert reloading.in_force.is_latest


async def test_prices_and_budgets_follow_a_reload(tmp_path: Path) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("currency: EUR\n")
    before = settings(tmp_path, "")
    budgets = "budgets: {limits: [{team: vision, amount: 1250.50, currency: EUR}]}"
    wanted = settings(tmp_path, f"prices: {{file: prices.yaml}}\n{budgets}")
    books: list[Prices] = []
    reloading = Reloading(before, lambda: wanted, NOBODY._replace(prices=books.append))
    await reloading.reload()
    assert [book.currency for book in books] == ["EUR"]
    (budget,) = reloading.in_force.settings.budgets.limits
    assert (budget.of, budget.amount) == (("team", "vision"), Decimal("1250.50"))
    prices.write_text("currency: GBP\n")  # the same settings, another file
    await reloading.reload()
    assert [book.currency for book in books] == ["EUR", "GBP"]
    prices.write_text("currency: pound\n")
    with pytest.raises(ConfigError, match=r"prices\.yaml:1:1: currency: 'pound' is not a currency"):
        await reloading.reload()
    assert len(books) == 2


async def test_a_signal_that_comes_while_the_server_starts_is_heeded_once_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = settings(
        tmp_path,
        "server: {listen: '127.0.0.1:0'}\nstorage: {data_dir: data}\n"
        "rules: {builtin: false}\nagents: {this_machine: 'off'}",
    )
    loop, reloaded = asyncio.get_running_loop(), asyncio.Event()

    def load() -> Settings:
        loop.call_soon_threadsafe(reloaded.set)
        return wanted

    def signalled(*arguments: Any) -> compose.System:
        os.kill(os.getpid(), signal.SIGHUP)
        return compose.System(*arguments)

    monkeypatch.setattr(run, "System", signalled)
    before = signal.signal(signal.SIGHUP, lambda *_: None)  # or it would end the tests where it is not heeded
    try:
        serving = asyncio.create_task(run.serve(wanted, load, lambda *_: None))
        async with asyncio.timeout(30):
            await reloaded.wait()
        assert not serving.done()
        os.kill(os.getpid(), signal.SIGTERM)
        await serving
    finally:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGHUP, before)


def test_a_server_that_cannot_be_put_together_leaves_no_store_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ConfigError("no such thing")

    wanted = settings(tmp_path, "storage: {data_dir: data}")
    monkeypatch.setattr(compose, "app_of", refuse)
    with pytest.raises(ConfigError, match="no such thing"):
        compose.System(wanted, None, lambda: wanted)
    open_store(wanted.storage, upkeep=False).close()
