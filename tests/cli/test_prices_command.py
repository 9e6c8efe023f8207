"""`trilens prices` and /api/prices: the book, the choice and its reasons, a file that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from memory_api import Api, running
from trilens.cli.config_check import check_file
from trilens.cli.main import app
from trilens.ledger.prices.book import price_book
from trilens.model.errors import ConfigError

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "prices.yaml")
JULY_2 = 1_782_950_400_000


@pytest.fixture(scope="module")
def url():
    api = Api(prices=price_book(Path(EXAMPLE)), now_ms=lambda: JULY_2)
    with running(api.build()) as base:
        yield base


def said(*arguments: str):
    return CliRunner().invoke(app, ["prices", *arguments])


def test_a_file_is_checked_without_a_server() -> None:
    whole = said("--check", EXAMPLE)
    assert whole.exit_code == 0
    assert "fine, 6 prices in USD" in whole.output
    lines = [" ".join(line.split()) for line in whole.stdout.splitlines()]
    assert (
        "p5-on-demand-july instance_type p5.48xlarge, region us-east-1, purchase on-demand "
        "51.2 USD a node and hour 2026-07-01T04:00:00Z"
    ) in lines
    assert "partner cluster partner free" in lines
    assert not any("(default)" in line for line in lines)
    assert "list prices that Trilens ships fill the gaps (--json has them)" in whole.stdout
    assert "1 EUR is 1.11 USD from 2026-07-01" in lines


def test_prices_without_a_rate_are_said_before_they_are_a_gap(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("currency: EUR\ndefaults: false\nprices: [{name: a, currency: USD, per_gpu_hour: 2}]\n")
    assert (
        "warning: no-exchange-rate: 1 price is in USD, and a gap until a rate"
        in said("--check", str(file)).output
    )


def test_a_file_that_is_wrong_ends_with_2(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("currency: USD\nprices:\n  - {name: a, per_gpu_hours: 2}\n")
    wrong = said("--check", str(file))
    assert isinstance(wrong.exception, ConfigError)
    assert wrong.exception.exit_code == 2
    assert f"{file}:3:15: unknown setting 'prices[0].per_gpu_hours' (did you mean 'per_gpu_hour'?)" == str(
        wrong.exception
    )


def test_the_file_that_settings_name_is_checked_with_them(tmp_path: Path) -> None:
    (tmp_path / "trilens.yaml").write_text("prices: {file: mine.yaml}\n")
    (tmp_path / "mine.yaml").write_text("currency: USD\nprices: [{name: a, per_gpu_hour: -2}]\n")
    report = check_file(tmp_path / "trilens.yaml")
    assert not report.ok
    assert report.where == f"{tmp_path / 'mine.yaml'}:2:20"


def test_which_price_counts_and_why(url: str) -> None:
    machine = ["--for", "NVIDIA-H100-80GB-HBM3", "--instance-type", "p5.48xlarge", "--gpus", "8"]
    here = said(*machine, "--region", "us-east-1", "--at", "2026-07-02", "--check", EXAMPLE)
    asked = said(*machine, "--region", "us-east-1", "--server", url)
    assert asked.exit_code == 0
    assert asked.output.splitlines() == [
        "p5-on-demand-july: $51.20 an hour for 8 GPUs, on-demand",
        "counts: p5-on-demand-july: instance_type p5.48xlarge, region us-east-1, "
        "purchase on-demand (assumed)",
        "fits too: p5-on-demand: instance_type p5.48xlarge, region us-east-1, purchase on-demand (assumed)",
        "fits too: aws-p5.48xlarge (default): instance_type p5.48xlarge, purchase on-demand (assumed)",
        "fits too: h100 (default): gpu_model H100, purchase on-demand (assumed)",
        "does not fit: h100-contract: provider is not known, and it asks for aws",
        "does not fit: aws-p5.48xlarge-reserved: purchase is not known, and it asks for reserved",
        "does not fit: aws-p5.48xlarge-spot: purchase is not known, and it asks for spot",
        "does not fit: h100-spot: purchase is not known, and it asks for spot",
        "warning: purchase-assumed: p5-on-demand-july: nobody tells how these machines are paid; taken as "
        "on-demand; label the nodes, or name them (node, cluster) in a price",
    ]
    assert here.output == asked.output


def test_parts_of_an_owned_machine(url: str) -> None:
    owned = said("--cluster", "lab", "--node", "dgx-7", "--gpus", "8", "--server", url, "--json")
    choice = json.loads(owned.stdout)
    assert (choice["price"], choice["purchase"], choice["doubts"]) == ("lab-dgx", "owned", [])
    # (310,000 / 4 + 15,000) / 8,760 and (8 x 700 + 2,400) W x 1.3 x 0.14 a kWh
    assert choice["components"] == {"gpu": "10.559360730594", "power": "1.456"}
    assert choice["per_hour"] == "12.015360730594"


def test_a_machine_without_a_price_ends_with_1(url: str) -> None:
    nothing = said("--for", "X900", "--server", url)
    assert nothing.exit_code == 1
    assert nothing.output.splitlines()[0] == "no price"
    assert "warning: no-price: no price fits X900" in nothing.output


def test_the_book_of_a_server(url: str) -> None:
    book = json.loads(said("--server", url, "--json").stdout)
    assert (book["file"], book["currency"], len(book["digest"])) == (EXAMPLE, "USD", 16)
    assert [price["name"] for price in book["prices"]][:2] == ["berlin-l40s", "h100-contract"]
    assert book == json.loads(said("--check", EXAMPLE, "--json").stdout)
    berlin = book["prices"][0]
    assert berlin["match"] == {"gpu_model": ["L40S", "L40"], "cluster": ["berlin"]}
    assert berlin["asks"]["memory_per_gib_hour"] == "0.003"


@pytest.mark.parametrize(
    ("query", "said_so"),
    [("", "Give one or more of gpu_model"), ("purchase=leased", "one of on-demand, spot")],
    ids=["nothing", "purchase"],
)
def test_a_question_that_makes_no_sense(url: str, query: str, said_so: str) -> None:
    answer = httpx.get(f"{url}/api/prices/choice?{query}")
    assert answer.status_code == 400
    assert said_so in answer.json()["error"]


def test_a_purchase_that_there_is_not() -> None:
    wrong = said("--for", "H100", "--purchase", "leased", "--check", EXAMPLE)
    assert "--purchase: 'leased' is not one of on-demand, spot, reserved, owned" in str(wrong.exception)
