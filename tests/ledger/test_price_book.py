"""Which price counts for a machine, from when to when, and what an hour of it costs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.ledger.prices.book import Prices, default_book, price_book
from trilens.ledger.prices.file import default_prices, read_price_file
from trilens.ledger.prices.match import Fit, fit
from trilens.model.ledger import HOUR_MS
from trilens.model.machine import Machine
from trilens.model.price import ExchangeRate, Match, Owned, Power, Price, Purchase

EXAMPLES = Path(__file__).parents[2] / "examples"
H100 = "NVIDIA H100 80GB HBM3"
NODE = Machine(
    "prod", "gpu-1", "p5.48xlarge", "us-east-1", purchase="on-demand", provider="aws", gpu_model=H100
)


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def price(name: str, per_gpu: str = "2", *, since: int | None = None, until: int | None = None, **of: object):
    kinds = {kind: (value,) if isinstance(value, str) else value for kind, value in of.items()}
    if "purchase" in of:
        kinds["purchase"] = Purchase(str(of["purchase"]))
    return Price(name, Match(**kinds), "USD", from_ms=since, until_ms=until, per_gpu_hour=Decimal(per_gpu))  # type: ignore[arg-type]


def chosen(prices: list[Price], machine: Machine = NODE) -> str:
    (rate,) = Prices(prices, "USD").rates(machine, 8, 0, HOUR_MS)
    return rate.price


def codes(rate) -> list[str]:
    return [doubt.code for doubt in rate.doubts]


@pytest.mark.parametrize(
    "ladder",
    [
        [{}, {"provider": "aws"}, {"region": "us-east-1"}, {"cluster": "prod"}, {"gpu_model": "H100"}],
        [{"gpu_model": "H100"}, {"gpu_model": "H100 80GB"}, {"gpu_model": "NVIDIA H100 80GB HBM3"}],
        [{"gpu_model": H100}, {"instance_type": "p5.*"}, {"instance_type": "p5.48xlarge"}],
        [{"instance_type": "p5.48xlarge"}, {"node": "*"}, {"node": "gpu-*"}, {"node": "gpu-1"}],
        [{}, {"purchase": "on-demand"}, {"region": "us-*"}, {"region": "us-east-1"}],
    ],
    ids=["kinds", "words", "types", "nodes", "purchase"],
)
def test_the_most_specific_price_counts_in_any_order(ladder: list[dict[str, str]]) -> None:
    names = [f"step {len(ladder) - i}" for i in range(len(ladder))]
    for named in (names, names[::-1]):
        prices = [price(name, **of) for name, of in zip(named, ladder, strict=True)]
        for top in range(1, len(prices) + 1):
            assert chosen(prices[:top]) == named[top - 1]
            assert chosen(prices[:top][::-1]) == named[top - 1]


def test_your_own_price_comes_before_every_default(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(
        "currency: USD\nprices:\n  - {name: mine, match: {gpu_model: H100}, per_gpu_hour: 2.10}\n"
    )
    (rate,) = price_book(file).rates(NODE, 8, at("2026-01-01"), at("2026-01-02"))
    assert (rate.price, rate.per_hour, codes(rate)) == ("mine", Decimal("16.80"), [])
    file.write_text("currency: USD\nprices: [{name: h100, match: {node: other}, per_gpu_hour: 1}]\n")
    named = [one.name for one in price_book(file).prices]
    assert named.count("h100") == 1, "a price of the same name takes the default's place"
    file.write_text("currency: USD\ndefaults: false\n")
    (rate,) = price_book(file).rates(NODE, 8, 0, HOUR_MS)
    assert (rate.per_hour, codes(rate)) == (None, ["no-price"])


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("nvidia-h100-mega-80gb", "h100"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "a100-80gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla-V100-SXM2-16GB", "v100"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("AMD Instinct MI300X OAM", "mi300x"),
    ],
    ids=lambda text: text.replace(" ", "-"),
)
def test_defaults_know_the_names_of_drivers_and_labels(model: str, name: str) -> None:
    (rate,) = default_book().rates(Machine("c", "n", gpu_model=model), 1, 0, HOUR_MS)
    assert rate.price == name
    assert codes(rate) == ["default-price", "estimated-price", "purchase-assumed"]
    entry = next(one for one in default_prices() if one.name == name)
    assert f"as of {entry.as_of}" in rate.doubts[0].text
    assert entry.source in rate.doubts[1].text


def test_every_default_has_its_day_and_its_source() -> None:
    assert len(default_prices()) > 90
    for one in default_prices():
        assert one.as_of
        assert one.told_by
        assert one.source
        # No table tells what a spot machine costs in a minute, which contract a reserved one has, or what a
        # GPU costs on a machine of which nothing else is known; and of some figures only the year is known.
        guessed = one.match.purchase in (Purchase.SPOT, Purchase.RESERVED) or not one.match.instance_type
        assert one.is_estimate or not (guessed or len(one.as_of) == 4), one.name


def test_what_a_public_table_tells_is_no_estimate_and_a_reserved_machine_has_a_price() -> None:
    told = default_book().rates(Machine("c", "n", "g5.xlarge", purchase="on-demand"), 1, 0, HOUR_MS)
    assert [(rate.per_hour, codes(rate)) for rate in told] == [(Decimal("1.006"), ["default-price"])]
    kept = default_book().rates(Machine("c", "n", "g5.xlarge", purchase="reserved"), 1, 0, HOUR_MS)
    assert [(rate.per_hour, codes(rate)) for rate in kept] == [
        (Decimal("0.63378"), ["default-price", "estimated-price"])
    ]
    (gap,) = default_book().rates(Machine("c", "n", "p6-b200.48xlarge", purchase="reserved"), 8, 0, HOUR_MS)
    assert (gap.per_hour, codes(gap)) == (None, ["no-price"])


def test_your_own_estimate_is_told_as_one() -> None:
    book = Prices([replace(price("mine"), is_estimate=True, source="a quote")], "USD")
    (rate,) = book.rates(NODE, 8, 0, HOUR_MS)
    assert [(one.code, one.text) for one in rate.doubts] == [
        ("estimated-price", "mine: an estimate, by a quote")
    ]


def test_every_default_says_how_it_is_paid_and_for_what() -> None:
    for one in default_prices():
        assert one.match.purchase is not None
        assert one.match.instance_type or one.match.gpu_model


def test_a_price_that_changes_inside_an_hour_makes_two_rates() -> None:
    change = at("2026-03-01T00:20:00")
    book = Prices([price("old", "4"), price("new", "3", since=change)], "USD")
    rates = book.rates(NODE, 8, at("2026-03-01"), at("2026-03-01T01:00:00"))
    assert [(rate.price, rate.to_ms - rate.from_ms, rate.per_hour) for rate in rates] == [
        ("old", 20 * 60_000, Decimal(32)),
        ("new", 40 * 60_000, Decimal(24)),
    ]
    (rate,) = default_book().rates(NODE, 8, at("2025-05-01"), at("2025-05-31"))
    assert rate.per_hour == Decimal("98.32")
    (rate,) = default_book().rates(NODE, 8, at("2025-07-01"), at("2025-07-31"))
    assert rate.per_hour == Decimal("55.04")


def test_a_price_for_a_while_gives_way_again() -> None:
    book = Prices([price("list"), price("offer", "1", since=1000, until=3000)], "USD")
    assert [(r.price, r.from_ms, r.to_ms) for r in book.rates(NODE, 1, 0, 5000)] == [
        ("list", 0, 1000),
        ("offer", 1000, 3000),
        ("list", 3000, 5000),
    ]


def test_time_without_a_price_is_a_gap_that_says_what_to_write() -> None:
    machine = Machine("c", "n", "trn9.8xlarge", "eu-west-1", purchase="spot", gpu_model="NVIDIA X900")
    (rate,) = default_book().rates(machine, 4, 0, HOUR_MS)
    assert (rate.per_hour, rate.currency, rate.price, rate.purchase) == (None, "", "", "spot")
    (doubt,) = rate.doubts
    assert doubt.text == "no price fits NVIDIA X900 in trn9.8xlarge in eu-west-1 paid as spot"
    assert doubt.remedy == (
        "write one into prices.file: {name: NAME, match: {gpu_model: NVIDIA X900}, per_gpu_hour: AMOUNT}"
    )
    before, after = Prices([price("late", since=1000)], "USD").rates(NODE, 1, 0, 2000)
    assert (before.per_hour, after.per_hour) == (None, Decimal(2))
    assert "at this time" in before.doubts[0].text


def test_how_a_machine_is_paid_is_assumed_only_where_nobody_tells() -> None:
    silent = Machine("c", "n", gpu_model=H100)
    each = [price(word, purchase=word) for word in ("spot", "reserved", "owned", "on-demand")]
    assert chosen(each, silent) == "on-demand"
    assert chosen(each[:3], silent) == "owned", "no cloud is known to have it"
    (rate,) = Prices(each[:3], "USD").rates(Machine("c", "n", provider="aws"), 1, 0, HOUR_MS)
    assert codes(rate) == ["no-price"], "a cloud's machine is nobody's own, and spot is no guess"
    (rate,) = Prices([price("racks", node="n", purchase="spot")], "USD").rates(silent, 1, 0, HOUR_MS)
    assert (rate.price, rate.purchase, codes(rate)) == ("racks", "spot", []), (
        "the price tells it of its nodes"
    )
    told = Machine("c", "n", purchase="spot")
    assert chosen(each, told) == "spot"
    assert chosen([price("any"), each[3]], told) == "any"


def test_parts_add_up_to_the_hour() -> None:
    machine = Machine("c", "n", cpus=192.0, memory_bytes=2 << 40, storage_bytes=730 << 30)
    whole = Price(
        "whole",
        Match(),
        "USD",
        per_node_hour=Decimal("55.04"),
        cpu_per_core_hour=Decimal("0.03"),
        memory_per_gib_hour=Decimal("0.004"),
        storage_per_gib_month=Decimal("0.08"),
        network_per_node_hour=Decimal("1.5"),
    )
    (rate,) = Prices([whole], "USD").rates(machine, 8, 0, HOUR_MS)
    assert rate.components == {
        "gpu": Decimal("55.04"),
        "cpu": Decimal("5.76"),
        "memory": Decimal("8.192"),
        "storage": Decimal("0.08"),
        "network": Decimal("1.5"),
    }
    assert rate.per_hour == sum(rate.components.values())
    (rate,) = Prices([whole], "USD").rates(Machine("c", "n"), 8, 0, HOUR_MS)
    assert rate.components == {"gpu": Decimal("55.04"), "network": Decimal("1.5")}
    assert codes(rate) == ["price-incomplete"]
    assert "cpu and memory and storage" in rate.doubts[0].text


def test_what_was_bought_costs_its_amortisation_and_its_power() -> None:
    power = Power(Decimal(700), Decimal(2000), Decimal("1.3"), Decimal("0.12"))
    owned = Owned(Decimal(280_320), None, Decimal(4), Decimal(8_760), power)
    (rate,) = Prices([Price("dgx", Match(), "USD", owned=owned)], "USD").rates(
        Machine("c", "n"), 8, 0, HOUR_MS
    )
    # 280,320 over 4 years of 8,760 hours is 8 an hour, upkeep is 1; 7.6 kW x 1.3 x 0.12 is 1.1856.
    assert rate.components == {"gpu": Decimal(9), "power": Decimal("1.1856")}
    assert rate.purchase == "owned"
    by_gpu = Owned(None, Decimal(35_040), Decimal(4), None, None)
    (rate,) = Prices([Price("gpu", Match(), "USD", owned=by_gpu)], "USD").rates(NODE, 2, 0, HOUR_MS)
    assert rate.per_hour == Decimal(2)


def test_free_is_a_price() -> None:
    free = Price("gift", Match(), "USD", free=True)
    (rate,) = Prices([free], "USD").rates(NODE, 8, 0, HOUR_MS)
    assert (rate.per_hour, rate.currency, rate.doubts) == (Decimal(0), "USD", ())


def test_other_currencies_are_exchanged_at_the_rate_of_the_time() -> None:
    euros = Price("eu", Match(), "EUR", per_gpu_hour=Decimal(2))
    exchange = [ExchangeRate("EUR", Decimal("1.10"), 2000), ExchangeRate("EUR", Decimal("1.05"), 1000)]
    rates = Prices([euros], "USD", exchange).rates(NODE, 1, 0, 3000)
    assert [(r.from_ms, r.per_hour, r.currency) for r in rates] == [
        (0, None, ""),
        (1000, Decimal("2.10"), "USD"),
        (2000, Decimal("2.20"), "USD"),
    ]
    assert codes(rates[0]) == ["no-exchange-rate"]
    assert rates[0].price == "eu"


def test_two_descriptions_of_one_gpu_are_told() -> None:
    prices = [price("by size", "2", gpu_model="H100 80GB"), price("by memory", "3", gpu_model="H100 HBM3")]
    (rate,) = Prices(prices, "USD").rates(NODE, 1, 0, HOUR_MS)
    assert codes(rate) == ["price-ambiguous"]
    assert (rate.price, rate.doubts[0].text) == (
        "by memory",
        "by memory: by size fits these machines just as well",
    )


def test_the_choice_is_explained() -> None:
    prices = [
        price("east", region="us-east-1", gpu_model="H100"),
        price("west", region="us-west-2", gpu_model="H100"),
    ]
    choice = Prices(prices, "USD").choice(NODE, 0)
    assert [one.price.name for one in choice.fits] == ["east"]
    (miss,) = choice.misses
    assert (miss.price.name, miss.kind, miss.wanted, miss.has) == ("west", "region", "us-west-2", "us-east-1")


def test_another_book_has_another_digest() -> None:
    first, second = price("a", "1"), price("b", "2", node="x")
    book = Prices([first, second], "USD")
    assert book.digest == Prices([second, first], "USD").digest
    assert book.digest != Prices([first], "USD").digest
    assert book.digest != Prices([first, second], "EUR").digest
    assert book.digest != Prices([first, price("b", "2.01", node="x")], "USD").digest


def test_the_example_is_read() -> None:
    file = read_price_file(EXAMPLES / "prices.yaml")
    assert len(file.prices) >= 5
    book = price_book(EXAMPLES / "prices.yaml")
    owned = Machine("lab", "dgx-03", gpu_model=H100)
    (rate,) = book.rates(owned, 8, at("2026-07-01"), at("2026-07-02"))
    assert (rate.purchase, rate.currency) == ("owned", "USD")
    assert set(rate.components) == {"gpu", "power"}


_KIND_VALUES = {
    "node": ["gpu-1", "gpu-*", "*-1", "cpu-9"],
    "cluster": ["prod", "p*"],
    "instance_type": ["p5.48xlarge", "p5.*", "p4d.24xlarge"],
    "gpu_model": ["H100", "H100 80GB", "A100"],
    "region": ["us-east-1", "eu-*"],
    "provider": ["aws", "gcp"],
}
_TIMES = st.none() | st.integers(-5, 25)


@st.composite
def books(draw: st.DrawFn) -> list[Price]:
    prices = []
    for i in range(draw(st.integers(0, 8))):
        of: dict[str, object] = {
            kind: draw(st.sampled_from(values))
            for kind, values in _KIND_VALUES.items()
            if draw(st.integers(0, 2)) == 0
        }
        if draw(st.booleans()):
            of["purchase"] = draw(st.sampled_from(list(Purchase)))
        since, until = draw(_TIMES), draw(_TIMES)
        if since is not None and until is not None and since >= until:
            until = None
        prices.append(price(f"p{i}", str(i + 1), since=since, until=until, **of))
    return prices


_MACHINES = st.builds(
    Machine,
    st.just("prod"),
    st.sampled_from(["gpu-1", "x"]),
    st.sampled_from(["p5.48xlarge", ""]),
    st.sampled_from(["us-east-1", ""]),
    purchase=st.sampled_from(["", "on-demand", "spot"]),
    provider=st.sampled_from(["aws", ""]),
    gpu_model=st.sampled_from([H100, ""]),
)


@settings(max_examples=100, deadline=None)
@given(books(), _MACHINES, st.integers(0, 20), st.integers(0, 20), st.randoms(use_true_random=False))
def test_rates_leave_no_hole_and_follow_no_order(prices, machine, start, length, random) -> None:
    rates = Prices(prices, "USD").rates(machine, 4, start, start + length)
    assert sum(rate.to_ms - rate.from_ms for rate in rates) == length
    assert [rate.from_ms for rate in rates[1:]] == [rate.to_ms for rate in rates[:-1]]
    if rates:
        assert (rates[0].from_ms, rates[-1].to_ms) == (start, start + length)
    shuffled = random.sample(prices, len(prices))
    assert Prices(shuffled, "USD").rates(machine, 4, start, start + length) == rates
    for rate in rates:
        for moment in range(rate.from_ms, rate.to_ms):
            held = [
                found
                for one in prices
                if (one.from_ms is None or one.from_ms <= moment)
                and (one.until_ms is None or moment < one.until_ms)
                and isinstance(found := fit(one, machine), Fit)
            ]
            best = max((one.rank for one in held), default=None)
            assert (best is None) == (rate.per_hour is None)
            if best is not None:
                assert rate.price in [one.price.name for one in held if one.rank == best]
                assert rate.per_hour == sum(rate.components.values())
