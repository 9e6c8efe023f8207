"""The ledger as FOCUS 1.2: it passes the standard's rules, adds up to the bill, and invents nothing."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import shutil
import subprocess
from collections import defaultdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from focus_rules import Dataset, Rules
from servers import require_corpus
from trilens.ledger.focus.columns import COLUMNS, Kind
from trilens.ledger.focus.rows import Issuer, focus_batches, unpriced_ms
from trilens.ledger.focus.writing import FocusFormat, focus_pieces, write_focus
from trilens.model.ledger import (
    FLEET,
    HOUR_MS,
    Basis,
    Bucket,
    Holder,
    LedgerHour,
    LedgerRow,
    NodeBill,
    as_amount,
)
from trilens.model.ledger_sums import Window
from trilens.model.run import RunId
from trilens.model.workload import WorkloadKey
from trilens.store.engine import Engine
from trilens.store.ledger import Ledger
from trilens.store.migrations import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCS = Path(__file__).parents[2] / "docs"
FIRST = 1_798_754_400_000  # 2026-12-31T22:00:00Z: the year ends between the second hour and the third
HOURS = [FIRST + at * HOUR_MS for at in range(3)]
CHANGED = HOURS[-1] + 24 * HOUR_MS
WINDOW = Window(HOURS[0], HOURS[-1] + HOUR_MS)
KEY = WorkloadKey("west", 'ml, "vision"', "batch", "Job", "tuning-é", "u1")
TRAINING = Holder(KEY, 0, "ml", RunId("r-1"), "sweep", "vision", "cc-7", "gold")
SUPPORTED = {
    "ACCOUNT_NAMING_SUPPORTED",
    "BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED",
    "MULTIPLE_BILLING_ACCOUNT_TYPES_SUPPORTED",
    "MULTIPLE_PRICING_CATEGORIES_SUPPORTED",
    "MULTIPLE_SUB_ACCOUNT_TYPES_SUPPORTED",
    "NEGOTIATED_PRICING_SUPPORTED",
    "PUBLIC_PRICE_LIST_SUPPORTED",
    "REGION_SUPPORTED",
    "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED",
    "SUB_ACCOUNT_SUPPORTED",
    "TAGGING_SUPPORTED",
    "UNIT_PRICING_SUPPORTED",
    "USAGE_MEASUREMENT_SUPPORTED",
}


def booked(
    hour_ms: int, node: str, purchase: str, price: str, quanta: int, seed: int
) -> tuple[list[LedgerRow], NodeBill]:
    """Two GPUs of a node, cut at random, and the bill divided by the rule of the running sum."""
    draw = random.Random(seed)
    parts: list[tuple[str, Holder, Bucket, str, int]] = []
    for gpu in range(2):
        cuts = sorted(draw.sample(range(1, HOUR_MS), 3))
        lengths = [after - before for before, after in zip([0, *cuts], [*cuts, HOUR_MS], strict=True)]
        whose = ((TRAINING, Bucket.PRODUCTIVE, "steps"), (TRAINING, Bucket.DATA_WAIT, "steps"))
        whose += ((TRAINING, Bucket.STALLED, "no-step"), (FLEET, Bucket.UNALLOCATED, "free"))
        parts += [(f"GPU-{node}-{gpu}", *one, ms) for one, ms in zip(whose, lengths, strict=True)]
    rows, so_far, total = [], 0, 2 * HOUR_MS
    for gpu, holder, bucket, cause, ms in parts:
        mine = quanta * (so_far + ms) // total - quanta * so_far // total
        so_far += ms
        basis = Basis.NODE if holder is FLEET else Basis.STEPS
        rows.append(
            LedgerRow(
                hour_ms, "west", node, gpu, "NVIDIA H100 80GB HBM3", purchase, "eu-1", holder, bucket, cause,
                None, None, basis, ms, 0, mine, "USD", (),
            )
        )  # fmt: skip
    bill = NodeBill(hour_ms, "west", node, HOUR_MS, total, quanta, HOUR_MS, "USD", {"gpu": quanta}, price)
    return rows, bill


def hour(at: int, hour_ms: int) -> LedgerHour:
    """A node each of every way to pay, one of odd price, an import's pool, and one that has no price."""
    rows: list[LedgerRow] = []
    bills: list[NodeBill] = []
    for number, (purchase, quanta) in enumerate(
        (("on-demand", 98_320_000_000), ("spot", 31_234_567_891), ("reserved", 7), ("owned", 0), ("", 12_345))
    ):
        more, bill = booked(
            hour_ms, f"n{number}", purchase, f"p5 {purchase}".strip(), quanta, 10 * at + number
        )
        rows += more
        bills.append(bill)
    pool = rows[0]._replace(
        node="import/old", gpu="", model="", region="", gpu_ms=9_000 * HOUR_MS, quanta=10**13 + 1
    )
    pool = pool._replace(
        holder=Holder(WorkloadKey("west", "old", "", "ImportedJob", "7", "")), basis=Basis.NONE
    )
    rows.append(pool)
    bills.append(bills[0]._replace(node="import/old", gpu_ms=pool.gpu_ms, quanta=pool.quanta, price="old"))
    rows.append(rows[0]._replace(node="n9", quanta=None, currency="", gpu_ms=1_234))
    return LedgerHour(hour_ms, hour_ms + HOUR_MS, tuple(rows), tuple(bills), (), "")


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ledger]:
    with Engine.open(tmp_path_factory.mktemp("ledger") / "data") as engine:
        migrate(engine)
        ledger = Ledger(engine)
        for at, hour_ms in enumerate(HOURS):
            ledger.write(hour(at, hour_ms))
        changed, bill = booked(CHANGED, "n0", "spot", "old, new", 8_000_000_000, 1)
        dearer = changed[0]._replace(quanta=(changed[0].quanta or 0) + 500_000_000)
        bill = bill._replace(quanta=8_500_000_000, components={"gpu": 8_500_000_000})
        ledger.write(LedgerHour(CHANGED, CHANGED + HOUR_MS, (dearer, *changed[1:]), (bill,), (), ""))
        yield ledger


@pytest.fixture(scope="module")
def files(book: Ledger, tmp_path_factory: pytest.TempPathFactory) -> dict[FocusFormat, Path]:
    folder = tmp_path_factory.mktemp("focus")
    written = {form: folder / f"focus.{form}" for form in FocusFormat}
    for form, path in written.items():
        with path.open("wb") as out:
            write_focus(focus_batches(book, WINDOW, Issuer()), out, form)
    return written


@pytest.fixture(scope="module")
def rows(files: dict[FocusFormat, Path]) -> list[dict[str, str]]:
    with files[FocusFormat.CSV].open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("form", list(FocusFormat))
def test_it_passes_the_rules_of_focus(files: dict[FocusFormat, Path], form: FocusFormat) -> None:
    rules = Rules(require_corpus("focus", "validator-model-1.2.json"), SUPPORTED)
    data = Dataset.of_csv(files[form]) if form is FocusFormat.CSV else Dataset.of_parquet(files[form])
    verdict = rules.check(data)
    assert verdict.failed == {}
    assert set(verdict.advised) == {"CostAndUsage-D-033-O"}  # InvoiceId: Trilens writes no invoices
    others = sum(count for why, count in verdict.reasons.items() if why.startswith("of providers"))
    counted = (
        len(verdict.passed),
        len(verdict.advised),
        others,
        verdict.reasons["only names other rules"],
        verdict.reasons["allows, and cannot be broken"],
        verdict.reasons["of a column that is optional and not there"],
        verdict.reasons["only in words, of what a file does not show"],
    )
    assert sum(counted) == len(rules.rules) == 621
    written = (DOCS / "focus.md").read_text(encoding="utf-8").partition("\n## The rules of FOCUS\n")[2]
    assert tuple(int(count) for count in re.findall(r"^\| (\d+) \|", written, re.MULTILINE)) == counted


def test_a_rule_that_does_not_hold_is_found(files: dict[FocusFormat, Path]) -> None:
    """The checker itself can fail: each of these breaks rules that the export keeps."""
    rules = Rules(require_corpus("focus", "validator-model-1.2.json"), SUPPORTED)
    for column, value, broken in (
        ("BilledCost", None, {"BilledCost-C-003-M"}),
        ("ListUnitPrice", "1", {"ListUnitPrice-C-010-C", "ListCost-C-009-C"}),
        ("ChargePeriodStart", "2026-12-31 22:00:00", {"ChargePeriodStart-C-002-M", "DateTimeFormat-A-004-M"}),
        ("ServiceCategory", "GPUs", {"ServiceCategory-C-003-M", "ServiceSubcategory-C-004-M"}),
        ("SkuId", "another", {"SkuPriceId-C-008-M"}),
        ("Tags", '{"trilens/team": {}}', {"Tags-C-001-M"}),
        ("BillingCurrency", "dollars", {"BillingCurrency-C-003-M"}),
        ("InvoiceIssuerName", "someone", {"BilledCost-C-005-C"}),
    ):
        data = Dataset.of_csv(files[FocusFormat.CSV])
        data.rows[0][column] = value
        assert broken <= set(rules.check(data).failed), column


def test_the_costs_of_a_node_and_hour_add_up_to_its_bill(book: Ledger, rows: list[dict[str, str]]) -> None:
    told: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows:
        costs = {row[name] for name in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")}
        assert len(costs) == 1
        told[row["ChargePeriodStart"], row["x_Node"]] += Decimal(costs.pop())
    wanted = {bill.node: as_amount(bill.quanta or 0) for bill in book.bills(*HOURS[:2])}
    assert {node: told["2026-12-31T22:00:00Z", node] for node in wanted} == wanted


def test_time_without_a_price_is_not_in_it_and_is_told(book: Ledger, rows: list[dict[str, str]]) -> None:
    assert "n9" not in {row["x_Node"] for row in rows}
    assert unpriced_ms(book, WINDOW) == 3 * 1_234


def test_a_row_in_full(rows: list[dict[str, str]]) -> None:
    row = next(row for row in rows if row["ResourceId"] == "GPU-n0-1" and row["x_Bucket"] == "stalled")
    price = Decimal(row["ListUnitPrice"])
    assert price == Decimal("49.16")  # half of the node's 98.32 an hour, whatever the row's rounding
    assert json.loads(row["Tags"]) == {
        "trilens/team": "vision",
        "trilens/cost_centre": "cc-7",
        "trilens/namespace": "ml",
        "trilens/queue": "gold",
        "trilens/experiment": "sweep",
        "trilens/run": "r-1",
        "trilens/workload": "tuning-é",
    }
    shown = (
        "BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd", "ChargeDescription",
        "PricingCategory", "PricingUnit", "SkuId", "SkuPriceId", "SubAccountId", "RegionId", "x_Cause",
    )  # fmt: skip
    assert [row[name] for name in shown] == [
        "2026-12-01T00:00:00Z",
        "2027-01-01T00:00:00Z",
        "2026-12-31T22:00:00Z",
        "2026-12-31T23:00:00Z",
        "GPU time of Job tuning-é: stalled (no-step)",
        "Standard",
        "GPU-Hours",
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H100 80GB HBM3:p5 on-demand",
        "west",
        "eu-1",
        "no-step",
    ]
    assert Decimal(row["ConsumedQuantity"]) * HOUR_MS == pytest.approx(Decimal(row["x_GpuMilliseconds"]))
    after = next(row for row in rows if row["ChargePeriodStart"] == "2027-01-01T00:00:00Z")
    assert (after["BillingPeriodStart"], after["BillingPeriodEnd"]) == (
        "2027-01-01T00:00:00Z",
        "2027-02-01T00:00:00Z",
    )


def test_how_it_was_bought_tells_the_pricing_category(rows: list[dict[str, str]]) -> None:
    assert {(row["x_Purchase"], row["PricingCategory"]) for row in rows} == {
        ("on-demand", "Standard"),
        ("spot", "Dynamic"),
        ("reserved", "Standard"),
        ("owned", "Other"),
        ("", "Other"),
    }


def test_a_price_that_changed_inside_of_the_hour_is_the_rows_own(book: Ledger) -> None:
    found = next(focus_batches(book, Window(CHANGED, CHANGED + HOUR_MS), Issuer())).to_pylist()
    row = max(found, key=lambda row: row["ListUnitPrice"])
    assert abs(row["ListUnitPrice"] * row["PricingQuantity"] - row["ListCost"]) < Decimal("1e-9")
    assert row["ListUnitPrice"] > Decimal("4.25")  # which is what the node cost in the mean


def test_goodput_is_a_ratio_of_two_columns(rows: list[dict[str, str]]) -> None:
    first = [row for row in rows if row["x_Node"] == "n0"]
    useful = sum(int(row["x_UsefulGpuMilliseconds"]) for row in first)
    assert useful == sum(int(row["x_GpuMilliseconds"]) for row in first if row["x_Bucket"] == "productive")
    assert sum(int(row["x_SignalGpuMilliseconds"]) for row in first) == 3 * 2 * HOUR_MS
    assert {row["x_SignalGpuMilliseconds"] for row in rows if row["x_Node"] == "import/old"} == {"0"}


def test_no_rows_are_a_file_with_columns_alone() -> None:
    csv_text = b"".join(focus_pieces([], FocusFormat.CSV)).decode()
    assert next(csv.reader(io.StringIO(csv_text))) == [column.name for column in COLUMNS]
    parquet = pq.read_table(io.BytesIO(b"".join(focus_pieces([], FocusFormat.PARQUET))))
    assert parquet.num_rows == 0
    assert parquet.column_names == [column.name for column in COLUMNS]


def test_parquet_comes_in_pieces(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trilens.ledger.focus.writing._GROUP_ROWS", 30)
    pieces = list(focus_pieces(focus_batches(book, WINDOW, Issuer()), FocusFormat.PARQUET))
    assert len(pieces) > 3
    table = pq.read_table(io.BytesIO(b"".join(pieces)))
    assert table.num_rows == 3 * 41
    assert table.schema.field("BilledCost").type == pa.decimal128(38, 9)
    assert table.schema.field("ChargePeriodStart").type == pa.timestamp("ms", "UTC")


def test_columns_have_only_the_values_that_they_say(rows: list[dict[str, str]]) -> None:
    for column in COLUMNS:
        values = {row[column.name] for row in rows}
        if column.allowed:
            assert values <= {*column.allowed, *([""] if column.nullable else [])}, column
        if not column.nullable and column.kind is not Kind.INTEGER:
            assert "" not in values, column


def test_the_sample_of_focus_has_no_column_that_ours_lacks_without_reason() -> None:
    """The sample is of FOCUS 1.0, of four clouds that sell commitments; its `Id` is of the sample itself."""
    with require_corpus("focus", "focus_sample_1.0.csv").open(encoding="utf-8", newline="") as file:
        sample = csv.DictReader(file)
        theirs = set(sample.fieldnames or ())
        row = next(sample)
    ours = {column.name for column in COLUMNS}
    commitments = {name for name in theirs if name.startswith("CommitmentDiscount")}
    assert theirs - ours == commitments | {"AvailabilityZone", "Id"}
    assert Decimal(row["PricingQuantity"]) * Decimal(row["ListUnitPrice"]) == Decimal(row["ListCost"])


def test_the_validator_of_focus_takes_it(files: dict[FocusFormat, Path]) -> None:
    validator = shutil.which("focus-validator")
    if validator is None or "1.2" not in _said_by(validator, "--supported-versions"):
        pytest.skip("no focus-validator is installed that knows FOCUS 1.2")
    said = _said_by(validator, "--data-file", str(files[FocusFormat.CSV]), "--validate-version", "1.2")
    assert "failed" not in said


def _said_by(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
