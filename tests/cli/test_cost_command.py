"""`trilens cost`, `why` and `now` of a night, line by line."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from command_here import trilens_here
from ledger_nights import NIGHT_MS, a_night, holder, hour, row
from memory_api import Api, running
from memory_book import MemoryBook
from trilens.cli.cost_figures import hours_text, share_text
from trilens.cli.cost_text import show_doubts
from trilens.cli.times import read_day_or_moment
from trilens.ledger.prices.book import Prices
from trilens.model.ledger import HOUR_MS, Bucket
from trilens.model.price import ExchangeRate
from trilens.serve.money.cost import CostRules
from trilens.serve.openapi import document
from trilens.settings.budgets import Budget

if TYPE_CHECKING:
    from collections.abc import Iterator

SPAN = ("--from", "2026-11-04T00:00:00Z", "--to", "2026-11-04T06:00:00Z")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    budget = Budget(team="vision", amount="1000", currency="USD")  # type: ignore[arg-type]
    euros = Budget(team="research", amount="1000", currency="EUR")  # type: ignore[arg-type]
    yen = Budget(cluster="east", amount="1000", currency="JPY")  # type: ignore[arg-type]
    rates = Prices([], "USD", [ExchangeRate("EUR", Decimal("1.25"), None)]).exchange_rate
    api = Api(
        book=MemoryBook(*a_night()),
        now_ms=lambda: NIGHT_MS + 6 * HOUR_MS - 1,
        cost_rules=CostRules(budgets=(budget, euros, yen), rates=rates),
    )
    with running(api.build()) as url:
        yield url


def said(server: str, *arguments: str) -> list[str]:
    answer = trilens_here("cost", *arguments, "--server", server)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.splitlines()


def told(server: str, *arguments: str) -> Any:
    return json.loads("\n".join(said(server, *arguments, "--json")))


def test_by_team_and_bucket(server: str) -> None:
    assert said(server, *SPAN) == [
        "cost from 2026-11-04 00:00 to 2026-11-04 06:00 UTC by team and bucket; compared with the 6h before",
        "",
        "team      productive  data_wait  stalled    recompute  serving_busy  unallocated  broken  "
        "total      "
        "change            gpu-hours",
        "vision    $307.20                $1,228.80                                                "
        "$1,536.00  "
        "$0.00 (0 %)       384.0",
        "research  $144.00     $48.00                $32.00                                        "
        "$224.00    "
        "+$32.00 (+17 %)   56.0",
        "(fleet)                                                              $96.00       $96.00  "
        "$192.00    "
        "+$96.00 (+100 %)  48.0",
        "(none)                                                 12.0 h                             "
        "-          "
        "-                 12.0",
        "",
        "total: $1,952.00, +$128.00 (+7 %), 500.0 GPU-hours, goodput 25 %, 3.8 % of useful time throttled",
        "without a price: 12.0 GPU-hours, in no amount above",
    ]


def test_by_one_dimension_with_what_is_new(server: str) -> None:
    lines = said(server, *SPAN, "--by", "workload", "--share-fleet", "by-cost")
    assert "free and broken GPUs shared out by cost" in lines[0]
    assert lines[2:6] == [
        "workload                              cost       change          gpu-hours  unpriced  good"
        "put  throttled",
        "east/ml/PyTorchJob/vision-finetune-1  $1,703.56  +$82.23 (+5 %)  425.9                18 %     0 %",
        "east/ml/PyTorchJob/llm-pretrain       $212.95    +$10.28 (+5 %)  53.2                 68 %     13 %",
        "east/ml/PyTorchJob/ablation           $35.49     new             8.9                  0 %      -",
    ]


def test_without_the_period_before(server: str) -> None:
    lines = said(server, *SPAN, "--by", "team", "--no-compare")
    assert lines[0] == "cost from 2026-11-04 00:00 to 2026-11-04 06:00 UTC by team"
    assert lines[3].split()[:3] == ["vision", "$1,536.00", "384.0"]
    assert lines[-2].startswith("total: $1,952.00, 500.0 GPU-hours")


def test_what_is_gone_is_said(server: str) -> None:
    lines = said(server, "--from", "2026-11-04T03:00:00Z", "--to", "2026-11-04T06:00:00Z", "--by", "workload")
    assert "east/ml/PyTorchJob/ablation           gone     -$32.00 (-100 %)" in lines


def test_days_are_not_compared_with_parts_of_days(server: str) -> None:
    lines = said(server, *SPAN, "--by", "day")
    assert lines[3].split()[:3] == ["2026-11-04", "$1,952.00", "500.0"]
    assert not any(line.startswith("2026-11-03") for line in lines)


def test_doubts_travel_with_the_answer(server: str) -> None:
    answer = trilens_here("cost", *SPAN, "--server", server)
    assert answer.stderr.splitlines() == [
        "warning: no-price: no price for NVIDIA L4 (12.0 GPU-hours in 6 hours)",
        "  do: write one into the price book",
    ]
    early = trilens_here("cost", "--from", "2026-11-03T12:00:00Z", "--server", server)
    assert "note: nothing is booked for 6 of 18 hours: " in early.stderr
    partly = trilens_here("cost", "--from", "2026-11-03T22:00:00Z", "--server", server)
    assert "of the period before, 4 of 8 hours are booked: the change is against these" in partly.stderr


@pytest.mark.parametrize("by", [("team",), ("team", "bucket")])
def test_a_change_against_a_part_of_the_period_before_has_no_percentage(
    server: str, by: tuple[str, ...]
) -> None:
    asked = ("--from", "2026-11-03T22:00:00Z", *(word for one in by for word in ("--by", one)))
    lines = said(server, *asked)
    assert "compared with what is booked of the 8h before" in lines[0]
    vision = next(line for line in lines if line.startswith("vision"))
    assert "+$" in vision
    assert "%)" not in vision
    assert "%)" not in next(line for line in lines if line.startswith("total"))
    found = told(server, *asked)
    assert {one["change_ratio"] for one in (*found["lines"], *found["totals"])} == {None}


def test_nothing_is_new_where_nothing_is_known_of_before(server: str) -> None:
    found = told(server, "--from", "2026-11-03T12:00:00Z", "--by", "team")
    assert (found["compared"], found["hours_before"]["booked"]) == (False, 0)
    assert {(one["change"], one["status"]) for one in (*found["lines"], *found["totals"])} == {(None, None)}
    lines = said(server, "--from", "2026-11-03T12:00:00Z", "--by", "team")
    assert lines[0] == "cost from 2026-11-03 12:00 to 2026-11-04 06:00 UTC by team"


def test_nothing_of_what_is_asked_for_is_not_nothing(server: str) -> None:
    assert said(server, *SPAN, "--where", "team=nobody")[-1] == "nothing of that is booked for these hours"
    early = ("--from", "2026-11-03T00:00:00Z", "--to", "2026-11-03T01:00:00Z")
    assert said(server, *early)[-1] == "nothing is booked for these hours"
    assert said(server, "why", *SPAN, "--team", "nobody")[0].endswith(
        "nothing of that is booked for these hours"
    )


@pytest.mark.parametrize(
    ("gpu_ms", "text"),
    [(0, "0.0"), (1, "<0.01"), (72_000, "0.02"), (3_600_000, "1.0"), (36_000_000_000, "10,000.0")],
)
def test_a_little_time_is_not_none(gpu_ms: int, text: str) -> None:
    assert hours_text(gpu_ms) == text


@pytest.mark.parametrize(
    ("share", "text"), [(None, "-"), (0.0, "0 %"), (0.0001, "<0.1 %"), (0.013, "1.3 %"), (0.126, "13 %")]
)
def test_a_small_share_is_not_none(share: float | None, text: str) -> None:
    assert share_text(share) == text


def test_warnings_of_one_kind_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    hours = {"asked": 1, "booked": 1, "open": 0, "upto_ms": None}
    warnings = [
        {"code": code, "text": text, "remedy": None, "gpu_ms": HOUR_MS, "hours": 1}
        for code, text in (("default-price", "a"), ("share-unknown", "b"), ("default-price", "c"))
    ]
    show_doubts({"hours": hours, "warnings": warnings})
    assert capsys.readouterr().err.splitlines() == [
        "warning: default-price: a (1.0 GPU-hours in 1 hour); 1 more like it, --json has all",
        "warning: share-unknown: b (1.0 GPU-hours in 1 hour)",
    ]


def test_currencies_stand_beside_each_other_and_are_never_added_up() -> None:
    vision, research = holder("a", "vision"), holder("b", "research")
    book = MemoryBook(
        hour(
            NIGHT_MS,
            row(NIGHT_MS, vision, Bucket.PRODUCTIVE, gpus=3),
            row(NIGHT_MS, vision, Bucket.STALLED, currency="EUR"),
            row(NIGHT_MS, research, Bucket.PRODUCTIVE, gpus=2, currency="EUR"),
        )
    )
    with running(Api(book=book, now_ms=lambda: NIGHT_MS + HOUR_MS).build()) as url:
        lines = said(url, *SPAN, "--by", "team")
        found = told(url, *SPAN, "--by", "team")
        across = said(url, *SPAN)
    amounts = {(one["keys"]["team"], one["currency"]): one["now"]["amount"] for one in found["lines"]}
    assert amounts == {("vision", "USD"): "12", ("vision", "EUR"): "4", ("research", "EUR"): "8"}
    assert {one["currency"]: one["now"]["amount"] for one in found["totals"]} == {"USD": "12", "EUR": "12"}
    assert [line.split()[:2] for line in lines if line.startswith(("vision", "research"))] == [
        ["vision", "$12.00"],
        ["research", "€8.00"],
        ["vision", "€4.00"],
    ]
    assert len([line for line in (*lines, *across) if line.startswith("total: ")]) == 4
    assert not any("16.00" in line or "24.00" in line for line in (*lines, *across))


def test_csv_is_for_machines(server: str) -> None:
    lines = [
        *csv.DictReader(io.StringIO("\n".join(said(server, *SPAN, "--by", "bucket", "--format", "csv"))))
    ]
    assert {line["bucket"]: line["amount"] for line in lines} == {
        "stalled": "1228.8",
        "productive": "451.2",
        "broken": "96",
        "unallocated": "96",
        "data_wait": "48",
        "recompute": "32",
        "serving_busy": "",
    }


def test_json_has_exact_money_and_nulls(server: str) -> None:
    found = told(server, *SPAN, "--by", "bucket")
    assert found["schema"] == "trilens.cost/1"
    serving = next(one for one in found["lines"] if one["keys"]["bucket"] == Bucket.SERVING_BUSY)
    assert (serving["now"]["amount"], serving["currency"], serving["change"]) == (None, None, None)
    assert serving["now"]["unpriced_gpu_ms"] == 12 * HOUR_MS
    assert found["totals"][0]["now"]["amount"] == "1952"


def test_only_of_what_is_asked_for(server: str) -> None:
    found = told(server, *SPAN, "--by", "workload", "--where", "team=research", "--where", "bucket=recompute")
    assert [one["keys"]["workload"]["name"] for one in found["lines"]] == ["ablation"]
    nobody = told(server, *SPAN, "--by", "workload", "--where", "team=", "--where", "bucket=serving_busy")
    assert [one["keys"]["workload"]["name"] for one in nobody["lines"]] == ["chat"]


def test_why(server: str) -> None:
    assert said(server, "why", *SPAN, "--limit", "2") == [
        "from 2026-11-04 00:00 to 2026-11-04 06:00 UTC: $1,500.80 of $1,952.00 for nothing (77 %), 375.2 of "
        "500.0 GPU-hours",
        "",
        "vision-finetune-1 (team vision): stalled at step 8,320 since 01:12, 64 GPUs, 4.8 h, $1,229 (63 % of "
        "the bill)",
        "  trilens runs show has the ranks and their stacks; restart from the last checkpoint",
        "",
        "fleet (east): node gpu-07 not ready since 03:00, 8 GPUs, 3.0 h, $96.00 (4.9 % of the bill)",
        "  repair or replace the node",
        "",
        "and 3 smaller causes, 44.0 GPU-hours, $176",
    ]
    causes = told(server, "why", *SPAN, "--team", "vision")["causes"]
    assert [(one["bucket"], one["gpus"], one["step"], one["amount"]) for one in causes] == [
        ("stalled", 64, 8_320, "1228.8")
    ]


def test_now(server: str) -> None:
    lines = said(server, "now")
    assert lines[0] == "burn rate: $336.00 an hour for 86 GPUs (1h until 2026-11-04 06:00 UTC)"
    assert lines[2].split() == ["vision", "stalled", "$256.00", "64.0"]
    assert lines[3].split() == ["(fleet)", "broken", "$32.00", "8.0"]
    assert "this month: $3,776.00 spent, the end unknown: less than a whole day is booked" in lines
    assert [line.split()[0] for line in said(server, "now", "--by", "workload")[2:6]][1] == "(fleet)"
    of_team = told(server, "now", "--team", "research")
    assert {one["keys"]["team"] for one in of_team["month"]["teams"]} == {"research"}
    assert of_team["month"]["totals"][0]["spent"] == of_team["month"]["teams"][0]["spent"]
    assert of_team["budgets"][0]["spent"] == "3072", "a budget is of all that it is of"
    budgets = lines[lines.index("budgets of this month") + 2 :]
    assert budgets[0].split() == [
        *("team", "vision", "$1,000.00", "$3,072.00", "307", "%", "-", "-", "exceeded", "2026-11-03"),
    ]


def test_budgets_in_other_currencies(server: str) -> None:
    lines = said(server, "now")
    told_of = {one["name"]: one for one in told(server, "now")["budgets"]}
    assert told_of["research"]["spent"] == str(Decimal(416) / Decimal("1.25")), "a euro is 1.25 dollars"
    (research,) = [line for line in lines if line.startswith("team research")]
    assert research.split()[2:4] == ["€1,000.00", "€332.80"]
    (east,) = [line for line in lines if line.startswith("cluster east ")]
    assert "unknown: no exchange rate" in east
    assert (told_of["east"]["spent"], told_of["east"]["share"], told_of["east"]["state"]) == (
        None,
        None,
        "unknown",
    )
    assert told_of["east"]["gap"]["code"] == "no-exchange-rate"
    assert "cluster east: 24.0 GPU-hours without a price, not in it" in lines


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--by", "colour"], "no dimension 'colour' (there are team, "),
        (["--by", "team", "--by", "team"], "a dimension is named twice"),
        (["--where", "team"], "'team' is not DIMENSION=VALUE"),
        (["--where", "bucket=lazy"], "no bucket 'lazy' (there are productive, "),
        (["--from", "now", "--to", "-1h"], "it is not before the end"),
        (["--from", "tomorrow"], "2026-01-31T12:00:00Z; today, yesterday and month are their beginnings"),
        (["--format", "csv", "--output", "a.csv"], "--output: only --format focus writes a file"),
        (["--format", "focus", "--output", "a.txt"], "neither .csv nor .parquet"),
        (["--format", "focus", "--by", "team"], "FOCUS has every row of the ledger"),
        (["--per", "step", "--by", "team"], "costs per unit are by run or inference server"),
        (["--per", "step", "--from", "-30d"], "at most 7 days for cost per step"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_bad_questions(server: str, arguments: list[str], error: str) -> None:
    answer = trilens_here("cost", *arguments, "--server", server)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert error in answer.stderr


def test_days_by_their_names() -> None:
    noon = NIGHT_MS / 1000 + 12 * 3600
    assert read_day_or_moment("today", noon) == NIGHT_MS / 1000
    assert read_day_or_moment("yesterday", noon) == NIGHT_MS / 1000 - 86_400
    assert read_day_or_moment("month", noon) == NIGHT_MS / 1000 - 3 * 86_400
    assert read_day_or_moment("-1h", noon) == noon - 3600


def test_the_schema_has_every_field(server: str) -> None:
    types = document()["components"]["schemas"]
    for arguments, kind in ((SPAN, "CostAnswer"), (("why", *SPAN), "WhyAnswer"), (("now",), "NowAnswer")):
        found = told(server, *arguments)
        assert found.keys() - {"schema"} == types[kind]["properties"].keys()
