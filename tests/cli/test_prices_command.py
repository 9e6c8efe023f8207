"""`trilens prices` and /api/prices: the book, the choice and its reasons, a file that is wrong."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from memory_api import Api, MemoryMachines, running
from trilens.cli.config_check import check_file
from trilens.cli.main import app
from trilens.ledger.prices.book import price_book
from trilens.model.errors import ConfigError
from trilens.model.machine import Machine, MachineInterval

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "prices.yaml")
JULY_2 = 1_782_950_400_000


RENTED = Machine(
    "east", "gpu-07", "p5.48xlarge", "us-east-1", provider="aws", gpu_model="NVIDIA-H100-80GB-HBM3", gpus=8
)


@pytest.fixture(scope="module")
def url():
    machines = MemoryMachines(
        [
            MachineInterval(RENTED, 0, JULY_2 - 3_600_000),
            MachineInterval(replace(RENTED, purchase="reserved"), JULY_2 - 3_600_000, None),
            MachineInterval(Machine("lab", "twin"), 0, None),
            MachineInterval(Machine("east", "twin"), 0, None),
        ]
    )
    api = Api(prices=price_book(Path(EXAMPLE)), now_ms=lambda: JULY_2, machines=machines)
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
        "fits too: p5-on-demand: instance_type p5.48xlarge, region us-east-1, purchase on-demand (assumed); "
        "p5-on-demand-july began later",
        "fits too: aws-p5.48xlarge (default): instance_type p5.48xlarge, purchase on-demand (assumed); "
        "yours come first",
        "fits too: h100 (default, estimate): gpu_model H100, purchase on-demand (assumed); yours come first",
        "does not fit: aws-p5.48xlarge-before-june-2025: held until 2025-06-01",
        "does not fit: h100-contract: provider is not known, and it asks for aws",
        "does not fit: aws-p5.48xlarge-reserved: purchase is not known, and it asks for reserved",
        "does not fit: aws-p5.48xlarge-spot: purchase is not known, and it asks for spot",
        "does not fit: h100-spot: purchase is not known, and it asks for spot",
        "warning: purchase-assumed: p5-on-demand-july: nobody tells how these machines are paid; taken as "
        "on-demand; label the nodes, or name them (node, cluster) in a price",
    ]
    assert here.output == asked.output


def test_the_price_of_a_node_by_what_is_known_of_it(url: str) -> None:
    at = ["--at", "2026-07-02", "--server", url]
    now = said("--node", "gpu-07", *at)
    assert now.output.splitlines()[:3] == [
        "gpu-07 of cluster east: 8 NVIDIA-H100-80GB-HBM3, instance_type p5.48xlarge, region us-east-1, "
        "provider aws, purchase reserved",
        "h100-contract: $16.80 an hour for 8 GPUs, reserved",
        "counts: h100-contract: gpu_model H100, provider aws, purchase reserved",
    ]
    assert (
        "does not fit: p5-on-demand-july: purchase is reserved, and it asks for on-demand"
        in now.output.splitlines()
    )
    before = said("--node", "gpu-07", "--at", "2026-07-01T20:00:00Z", "--server", url)
    assert "purchase not known" in before.output.splitlines()[0]
    assert before.output.splitlines()[1] == "p5-on-demand-july: $51.20 an hour for 8 GPUs, on-demand"


def test_what_is_said_comes_before_what_is_known_of_a_node(url: str) -> None:
    asked = said("--node", "gpu-07", "--purchase", "spot", "--gpus", "2", "--server", url, "--json")
    choice = json.loads(asked.stdout)
    assert (choice["price"], choice["gpus"]) == ("aws-p5.48xlarge-spot", 2)
    assert choice["machine"]["known"]
    assert choice["fits"][0]["estimate"]


def test_a_node_that_nobody_knows_and_one_that_is_there_twice(url: str) -> None:
    nobody = said("--node", "gpu-99", "--server", url)
    assert nobody.exit_code == 1
    assert "warning: machine-unknown: no machine with GPUs named gpu-99 is known" in nobody.output
    twice = said("--node", "twin", "--server", url)
    assert "there is a node 'twin' in several clusters: east, lab" in str(twice.exception)
    one = json.loads(said("--node", "twin", "--cluster", "lab", "--server", url, "--json").stdout)
    assert (one["machine"]["known"], one["machine"]["cluster"]) == (True, "lab")


def test_estimates_are_marked_in_the_book(url: str) -> None:
    shown = said("--server", url).stdout
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert any(line.startswith("h100-spot ") and " ~1.25 USD a GPU and hour" in line for line in lines)
    assert any(
        line.startswith("aws-g5.xlarge ") and " 1.006 USD" in line and "vantage" in line for line in lines
    )
    assert "~ an estimate: what it costs, or since when, is a guess" in lines
    told = {one["name"]: one for one in json.loads(said("--server", url, "--json").stdout)["prices"]}
    assert (told["h100-spot"]["estimate"], told["aws-g5.xlarge"]["estimate"]) == (True, False)
    assert told["aws-g5.xlarge"]["source"] == "instances.vantage.sh"


def test_parts_of_an_owned_machine(url: str) -> None:
    owned = said("--cluster", "lab", "--node", "dgx-7", "--gpus", "8", "--check", EXAMPLE, "--json")
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
