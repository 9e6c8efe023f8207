"""What time costs: bills by stretches of one price, and rows that add up to them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_fleets import NOON_MS, FleetBuilder, PlainPrices, at, no_signals
from trilens.ledger.allocation.allocate import allocate
from trilens.ledger.allocation.amounts import components_of, parts_of, price_of
from trilens.ledger.prices.book import Prices
from trilens.ledger.prices.rates import Rate
from trilens.ledger.span import Part, Span
from trilens.ledger.verify import verify
from trilens.model.imported import ImportedJob
from trilens.model.ledger import HOUR_MS, Basis, Bucket
from trilens.model.price import Match, Price

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trilens.ledger.prices.rates import PriceBook
    from trilens.model.ledger import LedgerHour
    from trilens.model.machine import Machine

MIN = 60_000
WEIGHTS = st.lists(st.integers(0, 1 << 45), max_size=30)


def booked(fleet: FleetBuilder, prices: PriceBook) -> LedgerHour:
    hour = allocate(fleet.facts, no_signals(), [], prices, NOON_MS, at(600))
    assert verify(hour.bills, hour.rows) == []
    return hour


@given(st.integers(-(10**18), 10**18), WEIGHTS)
def test_what_is_divided_is_whole_and_fair(total: int, weights: list[int]) -> None:
    parts = parts_of(total, weights)
    assert sum(parts) == (total if any(weights) else 0)
    whole = sum(weights) or 1
    assert all(
        abs(part - Fraction(total * weight, whole)) < 1 for part, weight in zip(parts, weights, strict=True)
    )


def test_sums_of_weights_that_no_machine_word_holds() -> None:
    assert parts_of(10, [1 << 62, 1 << 62, 1 << 62]) == [3, 3, 4]


@given(st.decimals(0, 10**15, places=12), st.integers(0, HOUR_MS))
def test_a_price_is_exact_to_half_a_quantum(per_hour: Decimal, ms: int) -> None:
    exact = Fraction(per_hour) * ms * 10**9 / HOUR_MS
    assert abs(price_of(per_hour, ms) - exact) <= Fraction(1, 2)


def test_half_a_quantum_goes_to_the_even_one() -> None:
    assert [price_of(Decimal(n) / 10**9, HOUR_MS // 2) for n in (1, 3, 5)] == [0, 2, 2]


@given(
    st.integers(0, 10**15),
    st.dictionaries(st.sampled_from(["gpu", "cpu", "power"]), st.decimals(0, 99, places=9)),
)
def test_components_add_up(quanta: int, per_hour: dict[str, Decimal]) -> None:
    assert sum(components_of(quanta, per_hour).values()) == quanta


def test_a_node_that_is_used_in_part_is_divided_by_gpus() -> None:
    fleet = FleetBuilder().node("node-a", [f"GPU-{i}" for i in range(8)]).pod("train", ["GPU-0", "GPU-1"])
    hour = booked(fleet, PlainPrices(Decimal(3)))
    (bill,) = hour.bills
    assert (bill.quanta, bill.components) == (24_370_000_000, {"cpu": 370_000_000, "gpu": 24_000_000_000})
    assert (bill.currency, bill.price, bill.priced_ms) == ("USD", "gpu-3", HOUR_MS)
    assert sum(row.quanta or 0 for row in hour.rows if row.holder.workload) == bill.quanta // 4


def test_a_price_that_changes_within_the_hour_counts_for_its_own_time() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).pod("train", ["GPU-0"])
    hour = booked(fleet, PlainPrices(Decimal(3), ((at(15), Decimal(7)),)))
    (row,) = hour.rows
    assert row.quanta == hour.bills[0].quanta == (3 * 15 + 7 * 45) * 10**9 // 60 + 370_000_000
    assert hour.bills[0].price == "gpu-3, gpu-7"
    assert [(warned.doubt.code, warned.gpu_ms) for warned in hour.warnings] == [("price-changed", HOUR_MS)]
    assert row.doubts == ("price-changed",)


def test_whoever_held_it_at_the_higher_price_pays_that() -> None:
    fleet = (
        FleetBuilder()
        .node("node-a", ["GPU-0"])
        .pod("early", ["GPU-0"], end=30)
        .pod("late", ["GPU-0"], begin=30)
    )
    rows = booked(fleet, PlainPrices(Decimal(3), ((at(30), Decimal(7)),))).rows
    paid = {row.holder.workload.name: row.quanta for row in rows if row.holder.workload}
    assert paid == {"early": 1_685_000_000, "late": 3_685_000_000}


def test_without_a_price_there_is_no_amount() -> None:
    hour = booked(FleetBuilder().node("node-a", ["GPU-0"]), PlainPrices(None))
    assert [(row.quanta, row.currency) for row in hour.rows] == [(None, "")]
    assert (hour.bills[0].quanta, hour.bills[0].priced_ms, hour.bills[0].currency) == (None, 0, "")
    assert [warned.doubt.code for warned in hour.warnings] == ["no-price"]
    assert hour.rows[0].doubts == ("no-price",)


def test_what_rests_on_an_estimate_says_so() -> None:
    guessed = Price("guessed", Match(), "USD", per_gpu_hour=Decimal(2), is_estimate=True)
    hour = booked(FleetBuilder().node("node-a", ["GPU-0"]), Prices([guessed], "USD"))
    assert [(warned.doubt.code, warned.gpu_ms) for warned in hour.warnings] == [("estimated-price", HOUR_MS)]
    assert hour.rows[0].doubts == ("estimated-price",)


def test_time_with_a_price_and_time_without_one_share_no_row() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"]).pod("train", ["GPU-0"])
    hour = booked(fleet, PlainPrices(Decimal(6), ((at(20), None), (at(40), Decimal(6)))))
    assert sorted((row.gpu_ms, row.quanta is None) for row in hour.rows) == [
        (20 * MIN, True),
        (40 * MIN, False),
    ]
    (bill,) = hour.bills
    assert (bill.quanta, bill.priced_ms) == (None, 40 * MIN)
    assert sum(bill.components.values()) == sum(row.quanta or 0 for row in hour.rows)


class _TwoCurrencies:
    digest = "two"

    def rates(self, machine: Machine, gpus: int, from_ms: int, to_ms: int) -> Sequence[Rate]:
        half = (from_ms + to_ms) // 2
        return [Rate(from_ms, half, Decimal(1), "USD"), Rate(half, to_ms, Decimal(1), "EUR")]


def test_a_second_currency_within_an_hour_is_a_gap_that_is_told() -> None:
    hour = booked(FleetBuilder().node("node-a", ["GPU-0"]), _TwoCurrencies())
    assert sorted((row.gpu_ms, row.currency) for row in hour.rows) == [(30 * MIN, ""), (30 * MIN, "USD")]
    assert "several-currencies" in [warned.doubt.code for warned in hour.warnings]


def test_so_it_is_where_time_was_imported() -> None:
    fleet = FleetBuilder()
    job = ImportedJob("slurm", "old", "17", None, at(0), at(60), Fraction(2), team="vision")
    fleet.facts = replace(fleet.facts, jobs=[job])
    hour = booked(fleet, _TwoCurrencies())
    assert sorted((row.gpu_ms, row.currency, row.quanta) for row in hour.rows if row.quanta is not None) == [
        (60 * MIN, "USD", 10**9)
    ]
    assert sum(row.gpu_ms for row in hour.rows if row.quanta is None) == 60 * MIN
    told = {warned.doubt.code: warned.gpu_ms / MIN for warned in hour.warnings}
    assert told == {"price-changed": 120, "several-currencies": 60}
    assert all("price-changed" in row.doubts for row in hour.rows)


def test_the_purchase_is_what_the_machine_says_before_what_the_price_says() -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0"])
    assert booked(fleet, PlainPrices()).rows[0].purchase == "on-demand"
    machine = replace(fleet.facts.machines[0].machine, purchase="spot")
    fleet.facts = replace(fleet.facts, machines=[fleet.facts.machines[0]._replace(machine=machine)])
    assert booked(fleet, PlainPrices()).rows[0].purchase == "spot"


def test_imported_jobs_are_billed_by_the_gpu() -> None:
    fleet = FleetBuilder()
    job = ImportedJob("slurm", "old", "17", None, at(0), at(30), Fraction(5, 2), team="vision")
    fleet.facts = replace(fleet.facts, jobs=[job])
    hour = booked(fleet, PlainPrices(Decimal(2), ((at(15), Decimal(4)),)))
    assert sum(row.gpu_ms for row in hour.rows) == 75 * MIN
    gpu_price = Fraction(5, 2) * 15 * (2 + 4) / 60 + Fraction(5, 2) * 30 * Fraction("0.37") / 60
    assert hour.bills[0].quanta == gpu_price * 10**9
    assert {row.holder.team for row in hour.rows} == {"vision"}
    assert {(row.basis, row.bucket) for row in hour.rows} == {(Basis.NONE, Bucket.PRODUCTIVE)}


def test_imported_time_without_a_price() -> None:
    fleet = FleetBuilder()
    job = ImportedJob("slurm", "old", "17", None, at(0), at(30), Fraction(2))
    fleet.facts = replace(fleet.facts, jobs=[job])
    hour = booked(fleet, PlainPrices(Decimal(2), ((at(10), None),)))
    assert sorted((row.gpu_ms, row.quanta is None) for row in hour.rows) == [
        (20 * MIN, False),
        (40 * MIN, True),
    ]
    assert hour.bills[0].quanta is None


def test_a_span_that_is_cut_keeps_its_proportions() -> None:
    parts = (Part(Bucket.PRODUCTIVE, "steps", 800), Part(Bucket.DATA_WAIT, "steps", 200))
    span = Span(0, 1_000, parts, Basis.STEPS)
    cut = span.within(100, 201)
    assert (cut.from_ms, cut.to_ms, [part.ms for part in cut.parts]) == (100, 201, [80, 21])
    assert span.within(0, 1_000) is span


def _tampered(hour: LedgerHour, what: str) -> list[str]:
    rows, bills = [*hour.rows], [*hour.bills]
    if what == "row":
        del rows[0]
    elif what == "quantum":
        rows[0] = rows[0]._replace(quanta=(rows[0].quanta or 0) + 1)
    elif what == "moved":
        rows[0], rows[1] = (
            rows[0]._replace(gpu_ms=rows[0].gpu_ms + 1),
            rows[1]._replace(gpu_ms=rows[1].gpu_ms - 1),
        )
    elif what == "negative":
        rows += [rows[0]._replace(gpu_ms=-5, quanta=-5), rows[0]._replace(gpu_ms=5, quanta=5)]
    elif what == "component":
        bills[0] = bills[0]._replace(components={**bills[0].components, "gpu": 1})
    elif what == "unpriced":
        rows[0] = rows[0]._replace(quanta=None, currency="")
    elif what == "throttled":
        rows[0] = rows[0]._replace(throttled_ms=rows[0].gpu_ms + 1)
    elif what == "currency":
        rows[0] = rows[0]._replace(currency="EUR")
    elif what == "bill":
        del bills[0]
    elif what == "twice":
        bills.append(bills[0])
    elif what == "hour":
        bills[0] = bills[0]._replace(there_ms=bills[0].there_ms + HOUR_MS)
    return [one.code for one in verify(bills, rows)]


@pytest.mark.parametrize(
    ("what", "codes"),
    [
        ("nothing", []),
        ("row", ["gpu-time", "quanta"]),
        ("quantum", ["quanta"]),
        ("moved", ["gpu-too-long"]),
        ("negative", ["negative"]),
        ("component", ["components"]),
        ("unpriced", ["quanta", "unpriced"]),
        ("throttled", ["throttled"]),
        ("currency", ["currency"]),
        ("bill", ["no-bill"]),
        ("twice", ["two-bills"]),
        ("hour", ["hour"]),
    ],
)
def test_what_does_not_add_up_is_found(what: str, codes: list[str]) -> None:
    fleet = FleetBuilder().node("node-a", ["GPU-0", "GPU-1"]).pod("train", ["GPU-0"])
    assert _tampered(booked(fleet, PlainPrices()), what) == codes


def test_a_mismatch_says_both_numbers() -> None:
    hour = booked(FleetBuilder().node("node-a", ["GPU-0"]), PlainPrices(Decimal(3)))
    (row,) = hour.rows
    (one,) = verify(hour.bills, [row._replace(quanta=1)])
    assert one.text == "the rows come to 1E-9, the bill to 3.370000000"
