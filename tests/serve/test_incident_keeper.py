"""Alerts, findings and events reach incidents, which are kept, told on, priced, and asked for."""

from __future__ import annotations

import json
import threading
from itertools import count
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import httpx
import pytest
from typer.testing import CliRunner

from incident_night import Machines, Night, made_up_prices
from memory_api import Api, running
from scenes import START_MS
from servers import until
from trilens.alert.delivery.held_back import HeldBack, Hold
from trilens.cli.main import app
from trilens.model.errors import QueryTimeout
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.ledger.prices.book import Prices
    from trilens.model.incident import Incident
    from trilens.model.machine import MachineInterval


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Prices:
    return made_up_prices(tmp_path_factory.mktemp("prices"))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(StoreOptions(tmp_path_factory.mktemp("data")), upkeep=False)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def night(store: Store, prices: Prices) -> Night:
    made = Night(store, prices)
    made.keeper.take_up()
    made.pass_by(200, 360)
    made.fire(360)
    made.pass_by(360, 400)
    return made


def test_one_incident_with_the_fault_as_its_root(night: Night) -> None:
    [one] = night.keeper.open()
    assert [symptom.name for symptom in one.symptoms] == ["D009", "xid 79", "D001", "TrainingSlow"]
    assert one.title.startswith("Xid 79 on GPU 2 of node-0")
    assert one.workloads == ("ml/PyTorchJob/train",)
    assert START_MS + 295_000 <= one.onset_ms <= START_MS + 300_000
    assert one.detected_ms <= START_MS + 305_000


def test_money_is_that_of_all_gpus_of_the_job_since_it_stands(night: Night) -> None:
    [one] = night.keeper.open()
    stalled_ms = next(symptom.onset_ms for symptom in one.symptoms if symptom.name == "D001")
    assert one.currency == "EUR"
    lost_ms = (one.lost_quanta or 0) * 3_600_000 // (4 * 9 * 10**9)
    assert abs(lost_ms - (night.now_ms - stalled_ms)) <= 1


def test_who_listens_hears_what_changes_and_again_what_it_could_not_take(
    store: Store, prices: Prices
) -> None:
    night = Night(store, prices)
    night.numbers = count(100)
    failing: list[Sequence[str]] = []

    def take(incidents: Sequence[Incident]) -> None:
        failing.append([one.id for one in incidents])
        if len(failing) == 1:
            raise OSError("disk full")

    night.keeper = night.new_keeper()
    night.keeper.listen(take)
    night.pass_by(295, 330)
    kept = night.heard[-1]
    assert {one.id for one in night.heard} == {"i100"}
    assert failing[:2] == [["i100"], ["i100"]]
    assert len(failing) <= len(kept.timeline) + 2  # not of every look
    night.keeper.acknowledge("i100", "ada")
    night.keeper.notified("i100", "slack", night.now_ms)
    night.keeper.work()
    assert night.heard[-1].acknowledged_by == "ada"


def test_what_is_open_is_known_while_the_engine_does_not_say_what_machines_cost(
    store: Store, prices: Prices, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Night(store, prices)
    night.numbers = count(300)
    asked, goes_on = threading.Event(), threading.Event()

    def silent(_machines: Machines) -> Sequence[MachineInterval]:
        asked.set()
        goes_on.wait(60)
        return []

    monkeypatch.setattr(Machines, "unfinished", silent)
    passing = threading.Thread(target=night.pass_by, args=(200, 205))
    passing.start()
    try:
        assert asked.wait(60)
        asking = threading.Thread(target=night.keeper.open)
        asking.start()
        asking.join(10)
        assert not asking.is_alive(), "who asks waits for the engine"
    finally:
        goes_on.set()
        passing.join(60)


def test_an_engine_that_takes_too_long_costs_no_incident_and_no_money(
    store: Store, prices: Prices, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What is told may be told once; what it costs is known when the engine is back."""
    night = Night(store, prices)
    night.numbers = count(400)
    with monkeypatch.context() as slow:
        late = Mock(side_effect=QueryTimeout("the query took longer than 120 s"))
        slow.setattr(Machines, "unfinished", late)
        night.pass_by(200, 300)
        night.fire(300)
        night.pass_by(305, 330)
    [one] = night.keeper.open()
    assert [symptom.name for symptom in one.symptoms] == ["D009", "xid 79", "D001", "TrainingSlow"]
    assert one.lost_quanta is None
    assert late.call_count > 10
    assert len([record for record in caplog.records if "cost" in record.message]) == 1
    night.pass_by(335, 340)
    [one] = night.keeper.open()
    stalled_ms = next(symptom.onset_ms for symptom in one.symptoms if symptom.name == "D001")
    lost_ms = (one.lost_quanta or 0) * 3_600_000 // (4 * 9 * 10**9)
    assert abs(lost_ms - (night.now_ms - stalled_ms)) <= 1


def test_incidents_do_not_wait_for_an_engine_that_says_nothing(
    store: Store, prices: Prices, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Night(store, prices)
    night.numbers = count(500)
    goes_on, asked = threading.Event(), 0
    answered: list[bool] = []
    known = Machines().unfinished()

    def silent(_machines: Machines) -> Sequence[MachineInterval]:
        nonlocal asked
        asked += 1
        goes_on.wait(20)
        answered.append(True)
        return known

    monkeypatch.setattr("trilens.serve.incidents.cost_looks._WAIT_S", 0.05)
    monkeypatch.setattr(Machines, "unfinished", silent)
    try:
        night.pass_by(200, 400)
        assert not answered, "it was waited for"
        assert night.keeper.open()[0].lost_quanta is None
        assert asked == 1, "it is asked again, though it has not answered"
    finally:
        goes_on.set()

    def is_priced() -> bool:
        night.keeper.work()
        return night.keeper.open()[0].lost_quanta is not None

    until(is_priced, "nobody knows what is lost, though the engine has answered")


def test_the_keeper_works_in_its_own_thread(store: Store, prices: Prices) -> None:
    night = Night(store, prices)
    night.numbers = count(200)
    night.now_ms = START_MS + 5_000
    night.keeper.start()
    night.fire(5, "elsewhere")
    night.keeper.stop()
    assert [one.title for one in night.keeper.open() if one.id == "i200"] == ["fewer samples"]
    told = {metric.name: metric for metric in night.keeper.own_metrics()}
    assert sum(sample.value for sample in told["trilens_incidents_open"].samples) >= 1
    assert told["trilens_incidents_opened"].samples[0].value == 1


class Untold:
    """Says what a test lets it say."""

    def __init__(self) -> None:
        self.reasons: dict[str, list[HeldBack]] = {}

    def held_back(self) -> dict[str, list[HeldBack]]:
        return self.reasons


@pytest.fixture(scope="module")
def untold() -> Untold:
    return Untold()


@pytest.fixture(scope="module")
def url(night: Night, store: Store, untold: Untold) -> Iterator[str]:
    made = Api(
        open_incidents=night.keeper,
        incidents=store.incidents,
        untold=untold,
        now_ms=lambda: night.now_ms,
    )
    with running(made.build()) as address:
        yield address


def _asked(url: str, path: str = "", **params: str) -> Any:
    answer = httpx.get(f"{url}/api/incidents{path}", params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_the_api_tells_of_incidents(night: Night, url: str) -> None:
    [one] = _asked(url)
    assert one["symptoms"][0]["subject"]["gpu"] == "GPU-train-2"
    assert one["action"].startswith("Cordon and drain node-0")
    assert one["currency"] == "EUR"
    assert one["id"] in {each["id"] for each in _asked(url, all="true")}
    assert _asked(url, f"/{one['id']}") == one
    for wrong in ({"severity": "info"}, {"workload": "other"}, {"team": "other"}, {"node": "other"}):
        assert _asked(url, **wrong) == []
    right = {"severity": "critical", "workload": "train", "team": "research", "node": "node-0"}
    assert len(_asked(url, **right)) == 1
    assert httpx.get(f"{url}/api/incidents/none").status_code == 404
    refused = httpx.get(f"{url}/api/incidents", params={"from": "2000000000", "to": "1000000000"})
    assert refused.status_code == 400


def test_the_api_says_who_was_told_and_why_others_are_not(night: Night, url: str, untold: Untold) -> None:
    [one] = night.keeper.open()
    assert _asked(url)[0]["told"] == _asked(url)[0]["held_back"] == []
    night.keeper.notified(one.id, "ops", night.now_ms)
    night.keeper.notified(one.id, "mail", night.now_ms)
    night.keeper.notified(one.id, "ops", night.now_ms)
    untold.reasons[one.id] = [HeldBack(Hold.SILENCE, "1a2b", "ada: we know", 7)]
    for told in (_asked(url)[0], _asked(url, f"/{one.id}")):
        assert told["told"] == ["ops", "mail"]
        assert told["held_back"] == [
            {"why": "silence", "name": "1a2b", "text": "ada: we know", "until_ms": 7}
        ]
    untold.reasons.clear()


def test_the_command_shows_and_acknowledges(night: Night, url: str) -> None:
    def shown(*words: str) -> str:
        answer = CliRunner().invoke(app, ["incidents", *words, "--server", url])
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    [one] = json.loads(shown("--json"))
    text = shown()
    assert f"critical  {one['id']}" in text
    assert "hits: ml/PyTorchJob/train" in text
    assert "lost: " in text
    assert json.loads(shown("--severity", "info", "--json")) == []
    assert json.loads(shown("--team", "nobody", "--json")) == []
    whole = shown(one["id"])
    assert "detected" in whole
    assert "ada has it" in shown(one["id"], "--ack", "--by", "ada")
    [again] = json.loads(shown(one["id"], "--json"))
    assert again["acknowledged_by"] == "ada"
    assert httpx.post(f"{url}/api/incidents/none/acknowledge").status_code == 404
