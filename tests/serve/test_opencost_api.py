"""/allocation as OpenCost's readers ask it: windows, sets, properties, what stood idle, and its errors."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from ledger_nights import NIGHT_MS, PRICE, a_night, holder, hour, row
from memory_api import Api, running
from memory_book import MemoryBook
from trilens.ledger.answers.opencost import IdleRule, allocations
from trilens.model.ledger import HOUR_MS, Bucket, LedgerHour, NodeBill
from trilens.model.ledger_sums import Window
from trilens.serve.money.opencost_params import read_properties, read_sets, read_window
from trilens.serve.params import Params
from trilens.store.engine import Engine
from trilens.store.ledger import Ledger
from trilens.store.migrations import migrate

NOW = datetime(2026, 11, 4, 6, 20, tzinfo=UTC)  # a Wednesday
PRICE_F = PRICE / 1e9


def billed(one: LedgerHour) -> LedgerHour:
    """A fifth of what gpu-01 costs is for its CPUs, the power of gpu-02 is told apart."""
    totals: defaultdict[str, int] = defaultdict(int)
    for each in one.rows:
        totals[each.node] += each.quanta or 0
    shares = {"gpu-01": {"gpu": 4, "cpu": 1}, "gpu-02": {"gpu": 3, "power": 1}}
    bills = []
    for node, quanta in sorted(totals.items()):
        share = shares.get(node, {"gpu": 1})
        parts = {part: quanta * weight // sum(share.values()) for part, weight in share.items()}
        bills.append(NodeBill(one.hour_ms, "east", node, HOUR_MS, 0, quanta, HOUR_MS, "USD", parts, "p"))
    return replace(one, bills=tuple(bills))


@pytest.fixture(scope="module")
def url():
    api = Api(book=MemoryBook(*map(billed, a_night())), now_ms=lambda: round(NOW.timestamp() * 1000))
    with running(api.build()) as base:
        yield base


def asked(url: str, path: str = "/allocation/compute", **params: str) -> list[dict[str, Any]]:
    answer = httpx.get(url + path, params=params)
    assert answer.status_code == 200, answer.text
    assert answer.json()["code"] == 200
    return answer.json()["data"]


def test_allocations_by_namespace_and_controller(url: str) -> None:
    window = "2026-11-03T18:00:00Z,2026-11-04T06:00:00Z"
    (found,) = asked(url, window=window, aggregate="namespace,controller")
    assert list(found) == [
        "ml/pytorchjob:ablation",
        "ml/pytorchjob:chat",
        "ml/pytorchjob:llm-pretrain",
        "ml/pytorchjob:vision-finetune-1",
    ]
    vision = found["ml/pytorchjob:vision-finetune-1"]
    assert vision["name"] == "ml/pytorchjob:vision-finetune-1"
    assert vision["properties"] == {
        "namespace": "ml",
        "controllerKind": "pytorchjob",
        "controller": "vision-finetune-1",
    }
    assert vision["window"] == {"start": "2026-11-03T18:00:00Z", "end": "2026-11-04T06:00:00Z"}
    assert (vision["start"], vision["end"], vision["minutes"]) == (
        "2026-11-03T18:00:00Z",
        "2026-11-04T06:00:00Z",
        720,
    )
    assert (vision["gpuHours"], vision["gpuCount"]) == (768, 64)
    assert vision["totalCost"] == 768 * PRICE_F
    assert (vision["gpuCost"], vision["cpuCost"]) == (768 * PRICE_F * 4 / 5, 768 * PRICE_F / 5)
    assert (vision["ramCost"], vision["pvCost"], vision["networkCost"], vision["sharedCost"]) == (0, 0, 0, 0)
    assert vision["gpuEfficiency"] == vision["totalEfficiency"] == pytest.approx(7.2 / 12)
    assert vision["cpuCoreHours"] is None, "nobody measured it"


def test_a_day_that_is_not_over_counts_until_now(url: str) -> None:
    (found,) = asked(url, window="today", aggregate="team")
    vision = found["vision"]
    assert (vision["window"]["end"], vision["end"], vision["minutes"]) == (
        "2026-11-05T00:00:00Z",
        "2026-11-04T06:20:00Z",
        380,
    )
    assert vision["gpuCount"] == pytest.approx(64 * 6 / (380 / 60))


def test_time_without_a_price_has_no_cost_and_is_told(url: str) -> None:
    answer = httpx.get(f"{url}/allocation", params={"window": "1d", "aggregate": "controller"}).json()
    chat = answer["data"][0]["pytorchjob:chat"]
    assert (chat["gpuHours"], chat["gpuCost"], chat["totalCost"]) == (12, None, None)
    assert answer["warning"] == "12.00 GPU-hours have no price and are in no cost"


def test_what_stood_idle_is_left_out_shown_or_shared(url: str) -> None:
    window = {"window": "2026-11-04T03:00:00Z,2026-11-04T06:00:00Z", "aggregate": "team"}
    (without,) = asked(url, **window)
    (shown,) = asked(url, **window, includeIdle="true")
    (by_node,) = asked(url, **window, includeIdle="true", idleByNode="true")
    (shared,) = asked(url, **window, shareIdle="true")
    assert list(without) == ["__unallocated__", "research", "vision"]
    assert list(shown) == ["__idle__", *without]
    idle = shown["__idle__"]
    assert (idle["gpuHours"], idle["totalCost"]) == (36, 36 * PRICE_F)
    assert idle["gpuCost"] == idle["totalCost"], "power has no name of its own there"
    assert idle["properties"] == {"cluster": "east"}
    assert {name: one["gpuHours"] for name, one in by_node.items() if "idle" in name} == {
        "gpu-02/__idle__": 12,
        "gpu-07/__idle__": 24,
    }
    assert list(shared) == list(without)
    assert sum(one["totalCost"] or 0 for one in shared.values()) == pytest.approx(
        sum(one["totalCost"] or 0 for one in shown.values())
    )
    assert shared["vision"]["gpuCostIdle"] == pytest.approx(36 * PRICE_F * 64 / 72)
    assert shared["vision"]["gpuHours"] == without["vision"]["gpuHours"]


def test_one_set_for_each_step_and_none_of_them_twice(url: str) -> None:
    params = {"window": "2026-11-03T17:30:00Z,2026-11-04T06:10:00Z", "aggregate": "cluster"}
    (whole,) = asked(url, **params)
    steps = asked(url, **params, step="5h")
    assert [one["east"]["window"]["start"] for one in steps if one] == [
        "2026-11-03T17:00:00Z",
        "2026-11-03T22:00:00Z",
        "2026-11-04T03:00:00Z",
    ]
    assert sum(one["east"]["totalCost"] for one in steps) == pytest.approx(whole["east"]["totalCost"])
    days = asked(url, **params, accumulate="day")
    assert [one["east"]["gpuHours"] for one in days] == [6 * 74, 6 * 74 + 8]
    assert asked(url, **params, step="1h", accumulate="true") == [whole]


@pytest.mark.parametrize(
    ("aggregate", "names"),
    [
        ("", {"east/gpu-01/ml/pytorchjob:chat", "east/gpu-01/ml/pytorchjob:llm-pretrain"}),
        ("all", {""}),
        ("node", {"gpu-01"}),
        ("controllerKind", {"pytorchjob"}),
        ("deployment", {"__unallocated__"}),
        ("label:experiment", {"finetune", "pretrain", "__unallocated__"}),
        ("label:gpu-model", {"NVIDIA H100 80GB HBM3"}),
        ("department", {"__unallocated__"}),
    ],
    ids=["none", "all", "node", "kind", "deployment", "experiment", "model", "department"],
)
def test_properties_that_allocations_are_added_up_by(url: str, aggregate: str, names: set[str]) -> None:
    (found,) = asked(url, "/model/allocation/compute", window="1d", aggregate=aggregate)
    assert names <= set(found)


def test_filters(url: str) -> None:
    window = {"window": "1d", "aggregate": "controller"}
    (found,) = asked(url, "/model/allocation", **window, filter='team:"vision","research"+namespace:"ml"')
    assert set(found) == {"pytorchjob:ablation", "pytorchjob:llm-pretrain", "pytorchjob:vision-finetune-1"}
    (found,) = asked(url, **window, filter='label[experiment]:"pretrain"', includeIdle="true")
    assert list(found) == ["pytorchjob:llm-pretrain"]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({}, "Invalid 'window' parameter: it is missing"),
        ({"window": "soon"}, "illegal window: soon"),
        ({"window": "2026-13-01T00:00:00Z,2026-01-01T00:00:00Z"}, "illegal window"),
        ({"window": "2026-01-02T00:00:00Z,2026-01-01T00:00:00Z"}, "does not begin before it ends"),
        ({"window": "999999w"}, "illegal window"),
        ({"window": "1d", "aggregate": "pod"}, "the ledger books workloads, not pods"),
        ({"window": "1d", "step": "10m"}, "the ledger has whole hours"),
        ({"window": "1d", "step": "often"}, "invalid step 'often'"),
        ({"window": "52w", "step": "1h"}, "more than 750 sets"),
        ({"window": "1d", "accumulate": "decade"}, "Invalid 'accumulate' parameter: decade"),
        ({"window": "1d", "includeIdle": "maybe"}, "Invalid 'includeIdle' parameter: maybe"),
        ({"window": "1d", "shareIdle": "even"}, "Invalid 'shareIdle' parameter: even"),
        ({"window": "1d", "filter": "pod:x"}, "Invalid filter: pod:x"),
        ({"window": "1d", "filter": '"'}, 'Invalid filter: "'),
        ({"window": "1d", "filter": 'namespace:"a"+'}, 'Invalid filter: namespace:"a"+'),
    ],
    ids=lambda one: "-".join(one.values()) if isinstance(one, dict) else "",
)
def test_errors_have_its_shape(url: str, params: dict[str, str], said: str) -> None:
    answer = httpx.get(f"{url}/allocation/compute", params=params)
    body = answer.json()
    assert (answer.status_code, body["code"], body["data"]) == (400, 400, None)
    assert said in body["message"]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("today", "2026-11-04T00", "2026-11-05T00"),
        ("yesterday", "2026-11-03T00", "2026-11-04T00"),
        ("week", "2026-11-01T00", "2026-11-04T07"),
        ("lastweek", "2026-10-25T00", "2026-11-01T00"),
        ("month", "2026-11-01T00", "2026-11-04T07"),
        ("lastmonth", "2026-10-01T00", "2026-11-01T00"),
        ("30m", "2026-11-04T05", "2026-11-04T07"),
        ("24h", "2026-11-03T07", "2026-11-04T07"),
        ("1d", "2026-11-04T00", "2026-11-05T00"),
        ("7d", "2026-10-29T00", "2026-11-05T00"),
        ("1w", "2026-10-29T00", "2026-11-05T00"),
        ("2h offset 1d", "2026-11-03T04", "2026-11-03T07"),
        ("1793750400,1793754000", "2026-11-04T00", "2026-11-04T01"),
        ("1793750400-1793754000", "2026-11-04T00", "2026-11-04T01"),
        ("2026-11-03T10:30:00Z,2026-11-03T11:30:00Z", "2026-11-03T10", "2026-11-03T12"),
    ],
)
def test_windows_are_those_of_opencost_in_whole_hours(text: str, start: str, end: str) -> None:
    span = read_window(Params([("window", text)]), NOW)
    assert [one.strftime("%Y-%m-%dT%H") for one in span] == [start, end]
    assert span.ms[0] % HOUR_MS == span.ms[1] % HOUR_MS == 0


@pytest.mark.parametrize(
    ("unit", "starts"),
    [
        ("week", ["2025-12-30", "2026-01-04", "2026-01-11"]),
        ("month", ["2025-12-30", "2026-01-01"]),
        ("quarter", ["2025-12-30", "2026-01-01"]),
    ],
)
def test_sets_of_the_calendar(unit: str, starts: list[str]) -> None:
    params = Params([("window", "2025-12-30T00:00:00Z,2026-01-12T00:00:00Z"), ("accumulate", unit)])
    sets = read_sets(params, read_window(params, NOW))
    assert [f"{one.start:%Y-%m-%d}" for one in sets] == starts
    assert [one.end for one in sets[:-1]] == [one.start for one in sets[1:]]


def test_amounts_of_two_currencies_are_not_added_up() -> None:
    dollars = row(NIGHT_MS, holder("a", "x"), Bucket.PRODUCTIVE)
    euros = row(NIGHT_MS, holder("b", "x"), Bucket.PRODUCTIVE, currency="EUR")
    api = Api(book=MemoryBook(hour(NIGHT_MS, dollars, euros)), now_ms=lambda: NIGHT_MS + HOUR_MS)
    with running(api.build()) as base:
        answer = httpx.get(f"{base}/allocation", params={"window": "1d"}).json()
    assert answer["code"] == 400
    assert "EUR and USD cannot be added up" in answer["message"]


def test_the_store_tells_the_same(tmp_path: Any) -> None:
    night = [*map(billed, a_night()[8:10])]
    window = Window(NIGHT_MS - 6 * HOUR_MS, NIGHT_MS + 6 * HOUR_MS)
    by = read_properties(Params([("aggregate", "team,node")]))
    with Engine.open(tmp_path / "data") as engine:
        migrate(engine)
        kept = Ledger(engine)
        for one in night:
            kept.write(one)
        stored = allocations(kept, window, by, IdleRule(include=True))
        parts = kept.bill_parts(window.from_ms, window.to_ms)
    book = MemoryBook(*night)
    assert parts == book.bill_parts(window.from_ms, window.to_ms)
    assert stored == allocations(book, window, by, IdleRule(include=True))
    assert sum(one.total for one in stored) == sum(row.quanta or 0 for one in night for row in one.rows)
