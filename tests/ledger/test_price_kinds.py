"""A book that was asked about other machines before says of a machine what a new one says."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from trilens.ledger.prices.book import Prices
from trilens.model.ledger import HOUR_MS
from trilens.model.machine import Machine
from trilens.model.price import Match, Price

NODE = Machine("prod", "gpu-1", "p5", "us", "us-a", "spot", "aws", "H100", 8, 96.0, 1 << 40, 1 << 41)
PRICES = [
    Price(
        "parts",
        Match(instance_type=("p5",)),
        "USD",
        per_gpu_hour=Decimal(2),
        cpu_per_core_hour=Decimal("0.01"),
        memory_per_gib_hour=Decimal("0.001"),
        storage_per_gib_month=Decimal("0.1"),
    ),
    Price("elsewhere", Match(instance_type=("p5",), region=("eu",)), "USD", per_gpu_hour=Decimal(3)),
]
NAMED = Price("named", Match(node=("gpu-2",)), "USD", per_gpu_hour=Decimal(4))


@pytest.mark.parametrize("prices", [PRICES, [*PRICES, NAMED]], ids=["kinds", "names"])
@pytest.mark.parametrize(
    "other",
    [
        {"node": "gpu-2"},
        {"instance_type": "p4"},
        {"instance_type": "", "gpu_model": ""},
        {"instance_type": "", "gpu_model": "", "node": "gpu-3"},
        {"region": "eu"},
        {"purchase": "reserved"},
        {"cpus": 97.0},
        {"memory_bytes": None},
        {"storage_bytes": 1 << 42},
    ],
    ids=str,
)
def test_machines_share_a_price_only_where_it_is_the_same(
    prices: list[Price], other: dict[str, object]
) -> None:
    asked = Prices(prices, "USD")
    unknown = replace(NODE, instance_type="", gpu_model="")
    for machine in (NODE, unknown):
        asked.rates(machine, 8, 0, HOUR_MS)
    machine = replace(NODE, **other)  # type: ignore[arg-type]
    assert asked.rates(machine, 8, 0, HOUR_MS) == Prices(prices, "USD").rates(machine, 8, 0, HOUR_MS)


def test_another_time_and_another_number_of_gpus_are_other_rates() -> None:
    book = Prices(PRICES, "USD")
    (hour,), (half,), (fewer,) = (
        book.rates(NODE, gpus, 0, ms) for gpus, ms in ((8, HOUR_MS), (8, HOUR_MS // 2), (4, HOUR_MS))
    )
    assert (hour.to_ms, half.to_ms) == (HOUR_MS, HOUR_MS // 2)
    assert hour.per_hour is not None
    assert hour.per_hour == half.per_hour != fewer.per_hour
