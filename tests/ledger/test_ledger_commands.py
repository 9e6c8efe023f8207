"""A small fleet booked into a real store, and what the commands, the API and the metrics say of it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import httpx
import pytest

from command_here import trilens_here
from ledger_fleets import CLUSTER, NOON_MS, FleetBuilder, PlainPrices, no_signals, signals_of
from memory_api import Api, running
from trilens.ledger.allocation.allocate import allocate
from trilens.model.gpu import GpuKey
from trilens.model.labels import make_labels
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_facts import Facts, RankSteps, RunHistory, StepMinutes
from trilens.model.ledger_sums import Window
from trilens.model.query import QueryGuard
from trilens.model.workload import GpuUuid
from trilens.promql.engine import Engine
from trilens.serve.money.cost import CostRules
from trilens.serve.money.cost_metrics import CostMetrics
from trilens.serve.money.ledger_keeper import LedgerKeeper
from trilens.settings.budgets import Budget
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from command_here import Answer
    from trilens.ledger.source import Signals
    from trilens.model.ledger import LedgerHour, NodeBill
    from trilens.model.run import RunId

GPUS = [f"GPU-{number}" for number in range(4)]
NOW_MS = NOON_MS + 2 * HOUR_MS + HOUR_MS // 2
SPAN = ("--from", str(NOON_MS // 1000), "--to", str(NOW_MS // 1000))


class Known:
    """Node-a has three GPUs, two of them held by a job of team vision; the model of node-b has no price."""

    def __init__(self) -> None:
        built = (
            FleetBuilder(3).node("node-a", GPUS[:3], begin=0).node("node-b", GPUS[3:], begin=0, model="GB300")
        )
        self.known = built.pod("train", GPUS[:2]).owner("train", "vision").facts

    def programs(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        return replace(self.known, from_ms=from_ms, to_ms=to_ms)

    def records(self, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> Facts:
        return self.programs(from_ms, to_ms)

    def rank_steps(self, *_: object, **__: object) -> RankSteps:
        raise AssertionError("an hour is booked by the minute")

    def step_minutes(self, *_: object, **__: object) -> StepMinutes:
        raise AssertionError("an hour is booked with its records")

    def with_steps(
        self, records: Facts, from_ms: int, to_ms: int, *, guard: QueryGuard | None = None
    ) -> Facts:
        return records

    def histories(
        self, runs: Sequence[RunId], *, guard: QueryGuard | None = None
    ) -> Mapping[RunId, RunHistory]:
        return dict.fromkeys(runs, RunHistory((), (), ()))

    def repeating(self, runs: Sequence[RunId], *, guard: QueryGuard | None = None) -> Mapping[RunId, int]:
        return {}

    def first_ms(self, *, guard: QueryGuard | None = None) -> int | None:
        return NOON_MS

    def signals(self, from_ms: int, to_ms: int, *, is_open: bool = False) -> Signals:
        return signals_of([GpuKey(GpuUuid(uuid)) for uuid in GPUS], from_ms, (to_ms - from_ms) // 60_000)


PRICES = PlainPrices(unpriced_models=frozenset({"GB300"}))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(StoreOptions(data_dir=tmp_path_factory.mktemp("ledger") / "data"), upkeep=False)
    yield opened
    opened.close()


def caught_up(store: Store) -> LedgerKeeper:
    """It has booked all that there is to book."""
    known, month = Known(), timedelta(days=30)
    keeper = LedgerKeeper(
        known,
        known,
        store.ledger,
        PRICES,
        kept_for=month,
        booked_for=month,
        late=store.ledger_facts,
        imports=store.imports,
        clock_ms=lambda: NOW_MS,
    )
    while keeper.try_to_work() == 0:
        pass
    assert keeper.state.failures == 0
    return keeper


@pytest.fixture(scope="module")
def keeper(store: Store) -> Iterator[LedgerKeeper]:
    keeper = caught_up(store)
    keeper.start()
    yield keeper
    keeper.stop()


@pytest.fixture(scope="module")
def url(store: Store, keeper: LedgerKeeper) -> Iterator[str]:
    with running(Api(book=store.ledger, keeper=keeper).build()) as address:
        yield address


def asked(url: str, *arguments: str) -> Answer:
    return trilens_here("ledger", *arguments, "--server", url)


def test_all_adds_up_exactly(url: str) -> None:
    said = asked(url, "verify", *SPAN)
    assert (said.returncode, said.stderr) == (0, "")
    # 2.5 hours of 3 GPUs at 2.50 and of a node at 0.37.
    assert said.stdout.splitlines() == [
        "the bills come to USD 19.675000000",
        "the rows add up to USD 19.675000000",
        "3 hours, 6 node-hours, 12 rows, 10.0 GPU-hours: all add up exactly",
    ]
    found = json.loads(asked(url, "verify", *SPAN, "--json").stdout)
    assert found["billed"] == found["booked"] == {"USD": "19.675000000"}
    assert found["mismatches"] == []


def test_time_in_which_nothing_is_booked_is_no_success_story(url: str) -> None:
    said = asked(url, "verify", "--from", "2020-01-01", "--to", "2020-01-03")
    assert (said.returncode, said.stdout) == (0, "")
    assert said.stderr == "nothing is booked in that time\n"


def test_hours_and_what_became_of_them(url: str, keeper: LedgerKeeper) -> None:
    said = asked(url, "hours", *SPAN)
    assert said.returncode == 0, said.stderr
    titles, *hours = said.stdout.splitlines()
    assert titles.split()[:4] == ["hour", "revision", "computed", "why"]
    assert [line.split()[:2] for line in hours] == [
        ["2026-01-14T12:00:00Z", "0"],
        ["2026-01-14T13:00:00Z", "0"],
        ["2026-01-14T14:00:00Z", "open"],
    ]
    assert "$7.87" in hours[0]
    assert "no-price" in hours[0]
    assert asked(url, "hours", *SPAN, "--corrected").stderr == "no hours\n"


def test_an_hour_is_computed_again_when_somebody_asks(url: str, keeper: LedgerKeeper) -> None:
    said = asked(url, "recompute", *SPAN)
    assert (said.returncode, said.stdout) == (0, "2 hours computed, 0 changed\n")
    keeper.use_prices(replace(PRICES, per_gpu=None, digest="none"))
    said = asked(url, "recompute", *SPAN)
    assert (said.returncode, said.stdout) == (0, "2 hours computed, 2 changed\n")
    keeper.use_prices(PRICES)
    assert asked(url, "recompute", *SPAN).returncode == 0
    hours = json.loads(asked(url, "hours", *SPAN, "--corrected", "--json").stdout)
    told = [(one["revision"], one["amount"], one["changed"]) for one in hours if one["hour_ms"] == NOON_MS]
    assert told == [(0, "7.870000000", "0.000000000"), (1, None, None), (2, "7.870000000", "7.870000000")]
    assert {one["reason"] for one in hours if one["revision"]} <= {"asked for", "other prices"}


def computed(hour: int, later: int, prices: PlainPrices = PRICES) -> LedgerHour:
    """An hour of the fleet, so many hours later: where the other tests do not look."""
    at_ms, later_ms = NOON_MS + hour * HOUR_MS, later * HOUR_MS
    one = allocate(Known().known, no_signals(), [], prices, at_ms, NOON_MS + 3 * HOUR_MS)
    return replace(
        one,
        hour_ms=at_ms + later_ms,
        upto_ms=one.upto_ms + later_ms,
        rows=tuple(row._replace(hour_ms=at_ms + later_ms) for row in one.rows),
        bills=tuple(bill._replace(hour_ms=at_ms + later_ms) for bill in one.bills),
    )


def test_several_hours_are_written_at_once_each_as_if_alone(store: Store) -> None:
    hours = [computed(1, later=1_000), computed(2, later=1_000)]
    assert store.ledger.write_all(hours[:1]) == [0]
    assert store.ledger.write_all(hours, reason="import") == [None, 0]
    other = replace(hours[0], rows=hours[0].rows[1:])
    assert store.ledger.write_all([other, hours[1]]) == [1, None]
    span = (hours[0].hour_ms, hours[1].hour_ms + HOUR_MS)
    booked = store.ledger.hours(*span)
    assert [(one.hour_ms, one.revision, one.reason) for one in booked] == [
        (hours[0].hour_ms, 0, ""),
        (hours[0].hour_ms, 1, ""),
        (hours[1].hour_ms, 0, "import"),
    ]
    assert store.ledger.bills(*span) == [*hours[0].bills, *hours[1].bills]
    rows = sum(len(batch) for batch in store.ledger.rows(Window(*span)))
    assert rows == len(other.rows) + len(hours[1].rows)


def test_an_hour_that_is_written_while_it_is_verified_is_read_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = computed(1, later=2_000), computed(1, later=2_000, prices=replace(PRICES, per_gpu=None))
    store.ledger.write(first)
    read_bills = store.ledger.bills

    def bills(from_ms: int, to_ms: int, *, guard: QueryGuard | None = None) -> list[NodeBill]:
        found = read_bills(from_ms, to_ms, guard=guard)
        store.ledger.write(second)
        return found

    monkeypatch.setattr(store.ledger, "bills", bills)
    with running(Api(book=store.ledger).build()) as address:
        span = {"from": first.hour_ms / 1000, "to": first.upto_ms / 1000}
        found = httpx.get(f"{address}/api/ledger/verify", params=span).json()["data"]
    assert (found["hours"], found["rows"], found["mismatches"]) == (1, len(second.rows), [])


@pytest.mark.parametrize(("at_once", "reads"), [(100_000, 1), (1, 3)])
def test_hours_of_few_rows_are_verified_together(
    store: Store, monkeypatch: pytest.MonkeyPatch, at_once: int, reads: int
) -> None:
    hours = [computed(at, later=4_000) for at in range(3)]
    store.ledger.write_all(hours)
    windows: list[Window] = []
    read_rows = store.ledger.rows

    def rows(window: Window, *, guard: QueryGuard | None = None) -> Iterator[pa.RecordBatch]:
        windows.append(window)
        return read_rows(window, guard=guard)

    monkeypatch.setattr(store.ledger, "rows", rows)
    monkeypatch.setattr("trilens.serve.money.ledger._ROWS_AT_ONCE", at_once)
    with running(Api(book=store.ledger).build()) as address:
        span = {"from": hours[0].hour_ms / 1000, "to": hours[-1].upto_ms / 1000}
        found = httpx.get(f"{address}/api/ledger/verify", params=span).json()["data"]
    assert len(windows) == reads
    assert (found["hours"], found["mismatches"]) == (3, [])
    assert found["rows"] == sum(len(hour.rows) for hour in hours)


def test_one_that_is_made_again_within_the_hour_is_one_series(store: Store) -> None:
    hour = computed(1, later=3_000)
    one, *others = [row for row in hour.rows if row.holder.workload is not None]
    again = one.holder._replace(workload=one.holder.workload._replace(uid="another"))
    rows = [one._replace(holder=again), *(row for row in hour.rows if row is not one)]
    store.ledger.write(replace(hour, rows=tuple(rows)))
    told = CostMetrics(store.ledger, CostRules, None)
    told.tell(hour.upto_ms)
    (family,) = [one for one in told.metrics() if one.name == "trilens_workload_cost_rate_per_hour"]
    held = [one, *others]
    assert len(held) == 2
    assert [sample.value for sample in family.samples] == [
        pytest.approx(sum(row.quanta or 0 for row in held) / 1e9)
    ]


def test_what_is_wrong_with_a_question_is_said(url: str) -> None:
    said = asked(url, "recompute", "--from", "now", "--to", "-1h")
    assert said.returncode == 2
    assert "--from: the first hour lies after the end" in said.stderr
    answer = httpx.post(f"{url}/api/ledger/recompute").json()
    assert answer["error"] == "`from` and `to` say which hours to compute again"
    assert httpx.get(f"{url}/api/ledger/hours?from=2&to=1").status_code == 400


def test_how_the_ledger_fares(url: str) -> None:
    state = httpx.get(f"{url}/api/ledger").json()["data"]
    assert (state["upto_ms"], state["failures"], state["troubles"]) == (NOW_MS, 0, [])
    assert state["computed"]["open"] > 0


def test_the_doctor_says_what_keeps_it_behind() -> None:
    readiness = {"store": {}, "ledger": {"troubles": ["the disk is full"]}}
    with running(Api(readiness=readiness).build()) as address:
        said = trilens_here("doctor", "--server", address, "--json")
    assert said.returncode == 1
    assert ("ledger", "the disk is full") in [(one["check"], one["what"]) for one in json.loads(said.stdout)]


def shown(store: Store, query: str) -> dict[tuple[tuple[str, str], ...], float]:
    answer = Engine(store).instant(query, NOW_MS, QueryGuard())
    return {
        make_labels(answer.labels.labels(row)): float(answer.values[row, 0])
        for row in range(len(answer.labels))
    }


def test_money_as_metrics(store: Store, keeper: LedgerKeeper) -> None:
    budget = Budget(team="vision", amount="100", currency="USD")
    yen = Budget(cluster=CLUSTER, amount="100", currency="JPY")
    told = CostMetrics(store.ledger, lambda: CostRules(budgets=[budget, yen]), store)
    told.tell(NOW_MS)
    rates = shown(store, "sum by (team, bucket) (trilens_cost_rate_per_hour)")
    share = (3 * 2.5 + 0.37) / 3
    assert rates == {
        (("bucket", "productive"), ("team", "vision")): pytest.approx(2 * share),
        (("bucket", "unallocated"),): pytest.approx(share),
    }
    assert shown(store, "sum by (bucket) (trilens_cost_gpus)") == {
        (("bucket", "productive"),): 2.0,
        (("bucket", "unallocated"),): 2.0,
    }
    assert shown(store, "sum by (gpu_model) (trilens_cost_unpriced_gpus)") == {(("gpu_model", "GB300"),): 1.0}
    assert shown(store, "sum by (workload) (trilens_workload_cost_rate_per_hour)") == {
        (("workload", "train"),): pytest.approx(2 * share)
    }
    for metric, amount in {
        "trilens_cost_today": 2.5 * 3 * share,
        "trilens_cost_month": 2.5 * 3 * share,
        "trilens_goodput_ratio": 0.5,
        "trilens_team_goodput_ratio": 1.0,
        'trilens_budget_amount{of="team"}': 100.0,
        "trilens_budget_spent": 2.5 * 2 * share,
    }.items():
        assert [*shown(store, f"sum({metric})").values()] == [pytest.approx(amount)], metric
    assert shown(store, "trilens_budget_expected") == {}  # not a whole day is booked
    assert [*shown(store, 'trilens_budget_amount{currency="JPY"}').values()] == [100.0]
    assert shown(store, 'trilens_budget_spent{currency="JPY"}') == {}, "no rate tells what it is in yen"
    names = {family.name for family in told.metrics()}
    assert {"trilens_cost_rate_per_hour", "trilens_budget_spent"} <= names


def test_a_row_that_is_one_quantum_off_is_named(url: str, store: Store) -> None:
    store._engine.command(
        "ALTER TABLE ledger_rows UPDATE quanta = quanta + 1 "
        f"WHERE hour_ms = {NOON_MS} AND gpu = 'GPU-2' SETTINGS mutations_sync = 1"
    )
    said = asked(url, "verify", *SPAN)
    found = json.loads(asked(url, "verify", *SPAN, "--json").stdout)
    assert said.returncode == 1
    first, *_, last = said.stdout.splitlines()
    assert first.startswith(f"2026-01-14T12:00:00Z {CLUSTER}/node-a: the rows come to 7.870000001")
    assert last == "3 hours, 6 node-hours, 12 rows, 10.0 GPU-hours: 1 does not add up"
    assert [(one["node"], one["code"]) for one in found["mismatches"]] == [("node-a", "quanta")]


def test_an_hour_whose_rows_and_bills_are_both_gone_is_told_and_comes_back_by_itself(
    url: str, store: Store
) -> None:
    for table in ("ledger_rows", "ledger_bills"):
        store._engine.command(f"DELETE FROM {table} WHERE hour_ms = {NOON_MS}")
    said = asked(url, "verify", *SPAN)
    assert said.returncode == 1
    gone = "0 rows are there, and 4 were written; computing the hour again mends that"
    assert f"2026-01-14T12:00:00Z: {gone}" in said.stdout.splitlines()
    caught_up(store)  # as after a start
    assert store.ledger.hours(NOON_MS, NOON_MS + HOUR_MS)[-1].reason == "rows were missing"
    assert asked(url, "verify", *SPAN).returncode == 0
