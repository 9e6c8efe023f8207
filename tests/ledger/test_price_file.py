"""Files of prices: what is taken, and how what is wrong is said."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.ledger.prices.file import PriceFile, parse_prices, read_price_file
from trilens.ledger.prices.sections import SECTIONS, keys_of
from trilens.model.errors import ConfigError
from trilens.model.price import ExchangeRate, Match, Owned, Power, Price, Purchase

DOCS = Path(__file__).parents[2] / "docs"


def read(text: str) -> PriceFile:
    return parse_prices(text, Path("prices.yaml"))


def one(entry: str) -> Price:
    (price,) = read(f"currency: USD\nprices:\n  - {entry}\n").prices
    return price


def test_everything_a_file_may_say() -> None:
    file = read("""\
currency: EUR
defaults: false
highest_per_hour: 20000
exchange: [{currency: USD, rate: 0.92, from: 2026-01-01}, {currency: USD, rate: "0.90"}]
prices:
  - name: rented
    match:
      node: gpu-*
      cluster: [a, b]
      instance_type: p5.48xlarge
      gpu_model: H100
      region: us-east-1
      provider: aws
      purchase: spot
    from: 2026-01-31
    until: 2026-02-01T12:00:00+01:00
    currency: USD
    per_node_hour: 98.32
    cpu_per_core_hour: 0.031
    memory_per_gib_hour: '0.0040'
    storage_per_gib_month: 8e-2
    network_per_node_hour: 1
    as_of: 2026-01-15
    told_by: the contract
    source: its second page
    estimate: true
  - name: bought
    owned:
      node_price: 250000
      gpu_price: 1000
      amortised_years: 2.5
      upkeep_per_year: 12000
      power: {gpu_watts: 700, host_watts: 2000, pue: 1.25, per_kwh: 0.2}
  - {name: lent, match: {cluster: c}, free: true}
""")
    rented, bought, lent = file.prices
    assert rented == Price(
        name="rented",
        match=Match(
            node=("gpu-*",),
            cluster=("a", "b"),
            instance_type=("p5.48xlarge",),
            gpu_model=("H100",),
            region=("us-east-1",),
            provider=("aws",),
            purchase=Purchase.SPOT,
        ),
        currency="USD",
        from_ms=1_769_817_600_000,
        until_ms=1_769_943_600_000,
        per_node_hour=Decimal("98.32"),
        cpu_per_core_hour=Decimal("0.031"),
        memory_per_gib_hour=Decimal("0.004"),
        storage_per_gib_month=Decimal("0.08"),
        network_per_node_hour=Decimal(1),
        as_of="2026-01-15",
        told_by="the contract",
        source="its second page",
        is_estimate=True,
    )
    power = Power(Decimal(700), Decimal(2000), Decimal("1.25"), Decimal("0.2"))
    assert bought.owned == Owned(Decimal(250_000), Decimal(1000), Decimal("2.5"), Decimal(12_000), power)
    assert (bought.currency, lent.free) == ("EUR", True)
    assert (file.currency, file.defaults) == ("EUR", False)
    assert file.exchange == (
        ExchangeRate("USD", Decimal("0.92"), 1_767_225_600_000),
        ExchangeRate("USD", Decimal("0.90"), None),
    )


@settings(max_examples=60, deadline=None)
@given(st.decimals("0.000000000001", "9999", places=12), st.sampled_from(["", '"', "'"]))
def test_numbers_are_what_is_written_to_the_last_digit(amount: Decimal, quote: str) -> None:
    assert one(f"{{name: a, per_gpu_hour: {quote}{amount:f}{quote}}}").per_gpu_hour == amount


FREE = "{name: a, match: {node: n}, free: true}"
WRONG = {
    "negative": ("{name: a, per_gpu_hour: -2}", "3:15: prices[0].per_gpu_hour: -2 is negative"),
    "zero": (
        "{name: a, per_gpu_hour: 0.00}",
        "prices[0].per_gpu_hour: 0 is no price: leave it out, or write `free: true`",
    ),
    "absurd": (
        "{name: a, per_gpu_hour: 29500}",
        "prices[0].per_gpu_hour: 29500 is more than anything costs (at most 10000 is taken) (look at",
    ),
    "absurd-node": ("{name: a, per_node_hour: 98320}", "98320 is more than anything costs"),
    "absurd-memory": (
        "{name: a, per_gpu_hour: 2, memory_per_gib_hour: 12}",
        "12 is more than anything costs (at most 10 is taken)",
    ),
    "absurd-power": (
        "{name: a, owned: {power: {gpu_watts: 700, per_kwh: 14}}}",
        "owned.power.per_kwh: 14 is more",
    ),
    "watts": (
        "{name: a, owned: {power: {gpu_watts: 70000, per_kwh: 0.1}}}",
        "gpu_watts: Input should be less than or equal to 10000",
    ),
    "pue": (
        "{name: a, owned: {power: {gpu_watts: 700, pue: 0.9, per_kwh: 0.1}}}",
        "pue: Input should be greater than or equal to 1",
    ),
    "comma": ("{name: a, per_gpu_hour: '1,000'}", "'1,000' is not a number"),
    "sign": ("{name: a, per_gpu_hour: $2}", "'$2' is not a number"),
    "nan": ("{name: a, per_gpu_hour: .nan}", "'.nan' is not a number"),
    "decimals": ("{name: a, per_gpu_hour: 0.1234567890123}", "at most 12 decimals"),
    "unknown-key": (
        "{name: a, per_gpu_our: 2}",
        "3:15: unknown setting 'prices[0].per_gpu_our' (did you mean 'per_gpu_hour'?)",
    ),
    "unknown-match": (
        "{name: a, match: {gpu: H100}, per_gpu_hour: 2}",
        "'prices[0].match.gpu' (did you mean 'gpu_model'?)",
    ),
    "purchase": (
        "{name: a, match: {purchase: leased}, per_gpu_hour: 2}",
        "'on-demand', 'spot', 'reserved' or 'owned'",
    ),
    "currency": ("{name: a, currency: $, per_gpu_hour: 2}", "'$' is not a currency; write its three letters"),
    "day": ("{name: a, from: 2026-02-30, per_gpu_hour: 2}", "prices[0].from: '2026-02-30' is not a date"),
    "word": ("{name: a, from: soon, per_gpu_hour: 2}", "'soon' is not a date; write it like 2026-01-31"),
    "zone": ("{name: a, from: 2026-01-31T12:00:00, per_gpu_hour: 2}", "has no zone; end it with Z"),
    "backward": (
        "{name: a, from: 2026-02-01, until: 2026-01-01, per_gpu_hour: 2}",
        "`until` is not after `from`",
    ),
    "no-price": (
        "{name: a, match: {node: n}}",
        "a price is one of free, per_node_hour, per_gpu_hour, owned; here is none",
    ),
    "two-prices": ("{name: a, per_gpu_hour: 2, per_node_hour: 16}", "here is per_node_hour and per_gpu_hour"),
    "free-and-more": (
        "{name: a, free: true, network_per_node_hour: 1}",
        "what is free has no network_per_node_hour",
    ),
    "owned-nothing": ("{name: a, owned: {}}", "says nothing that costs"),
    "owned-years": ("{name: a, owned: {node_price: 5}}", "`amortised_years` goes with `node_price`"),
    "owned-spot": (
        "{name: a, match: {purchase: spot}, owned: {upkeep_per_year: 5}}",
        "what is owned is not paid as spot",
    ),
    "owned-watts": ("{name: a, owned: {power: {per_kwh: 0.1}}}", "say `gpu_watts`"),
    "no-name": ("{per_gpu_hour: 2}", "prices[0].name: is missing"),
    "empty-pattern": ("{name: a, match: {node: []}, per_gpu_hour: 2}", "to match everything, leave it out"),
    "no-word": ("{name: a, match: {gpu_model: '--'}, per_gpu_hour: 2}", "has no word of a GPU's model"),
    "as-of": ("{name: a, as_of: lately, per_gpu_hour: 2}", "'lately' is not a day"),
    "same-name": (f"{FREE}\n  - {FREE}", "4:6: prices[1].name: the name 'a' is given a second time"),
    "tie": (
        "{name: a, match: {node: gpu-*-b}, per_gpu_hour: 2}\n"
        "  - {name: b, match: {node: gpu-a-*}, per_gpu_hour: 3}",
        "4:5: prices[1]: fits the same machines as 'a' from the same time on: which one counts?",
    ),
    "tie-of-letters": (
        "{name: a, match: {node: 'gpu-?'}, per_gpu_hour: 2}\n"
        "  - {name: b, match: {node: 'g?u-*'}, per_gpu_hour: 3}\n"
        "  - {name: c, match: {node: gp*-1}, per_gpu_hour: 3}",
        "5:5: prices[2]: fits the same machines as 'a'",
    ),
    "tie-of-words": (
        "{name: a, match: {gpu_model: NVIDIA-H100}, per_gpu_hour: 2}\n"
        "  - {name: b, match: {gpu_model: [A100, h100 nvidia]}, per_gpu_hour: 3}",
        "fits the same machines as 'a'",
    ),
    "overlap": (
        "{name: a, until: 2026-03-01, per_gpu_hour: 2}\n  - {name: b, from: 2026-02-01, per_gpu_hour: 3}",
        "4:5: prices[1]: begins before 'a' ends, and fits the same machines",
    ),
}


@pytest.mark.parametrize(("entry", "said"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_said_with_its_place(entry: str, said: str) -> None:
    with pytest.raises(ConfigError) as failed:
        one(entry)
    assert said in str(failed.value)
    assert str(failed.value).startswith("prices.yaml:")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prices: []", "prices.yaml:1:1: currency: is missing"),
        ("currency: USD\nprices: {a: 2}", "prices.yaml:2:1: prices: must be a list"),
        ("currency: usd", "'usd' is not a currency"),
        ("currency: USD\nprice: []", "prices.yaml:2:1: unknown setting 'price' (did you mean 'prices'?)"),
        ("currency: USD\ncurrency: EUR", "the key 'currency' is given a second time"),
        ("currency: USD\nexchange: [{currency: USD, rate: 1}]", "USD is the currency of the file already"),
        (
            "currency: USD\nexchange:\n- {currency: EUR, rate: 1}\n- {currency: EUR, rate: 2}",
            "EUR has two rates that begin at the same time",
        ),
        ("- 1", "must be a group of `name: value`"),
        ("currency: [", "not valid YAML"),
    ],
    ids=[
        "no-currency",
        "no-list",
        "small-letters",
        "unknown",
        "twice",
        "own-rate",
        "two-rates",
        "list",
        "yaml",
    ],
)
def test_a_file_that_is_wrong_as_a_whole(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=r"prices\.yaml") as failed:
        read(text)
    assert said in str(failed.value)


def test_what_looks_alike_and_is_not() -> None:
    file = read("""\
currency: USD
prices:
  - {name: open, per_gpu_hour: 2}
  - {name: later, from: 2026-02-01, per_gpu_hour: 3}
  - {name: first, match: {node: a-*}, until: 2026-02-01, per_gpu_hour: 2}
  - {name: second, match: {node: a-*}, from: 2026-02-01, per_gpu_hour: 3}
  - {name: small, match: {gpu_model: A100 40GB}, per_gpu_hour: 2}
  - {name: large, match: {gpu_model: A100 80GB}, per_gpu_hour: 3}
  - {name: b, match: {node: b-*}, per_gpu_hour: 2}
  - {name: one, match: {node: a-*, region: east}, per_gpu_hour: 2}
  - {name: two, match: {node: a-*, purchase: spot}, per_gpu_hour: 2}
""")
    assert len(file.prices) == 9


def test_a_currency_of_small_units_says_so() -> None:
    text = "currency: IDR\n{}prices: [{{name: a, per_gpu_hour: 65000}}]"
    with pytest.raises(ConfigError, match="highest_per_hour"):
        read(text.format(""))
    assert read(text.format("highest_per_hour: 1000000\n")).prices[0].per_gpu_hour == 65_000


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read the price file .*: No such file"):
        read_price_file(tmp_path / "none.yaml")


def test_every_key_is_documented() -> None:
    written = (DOCS / "prices.md").read_text(encoding="utf-8")
    assert [key for section in SECTIONS for key in keys_of(section) if f"`{key}`" not in written] == []
