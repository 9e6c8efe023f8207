"""The rules of FOCUS, as its own validator writes them down, checked against a file.

A rule says what it requires in a small language of functions, or only in words ("Dynamic"). Of the latter,
those that a file can show are checked here by a function of their own.
"""

from __future__ import annotations

import csv
import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_NUMBER = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?")
_UNIT = re.compile(r"[A-Z][A-Za-z]*(-[A-Z][a-z]+)?")
_NATIONAL = re.compile(r"[A-Z]{3}")
_PASCAL = re.compile(r"[A-Z][A-Za-z0-9]*")
_PLACEHOLDERS = {"", "n/a", "not applicable", "none", "null", "unknown"}

Row = dict[str, str | None]


class Dataset:
    """All values as text, None for null, as a CSV has them."""

    def __init__(self, columns: list[str], rows: list[Row], types: dict[str, pa.DataType] | None) -> None:
        self.columns = columns
        self.rows = rows
        self.types = types  # None of a CSV, in which all is text

    @classmethod
    def of_csv(cls, path: Path) -> Dataset:
        """An empty field is null where it is not quoted; the csv module does not tell, our own files do."""
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            rows = [{name: value or None for name, value in row.items()} for row in reader]
            return cls(list(reader.fieldnames or ()), rows, None)

    @classmethod
    def of_parquet(cls, path: Path) -> Dataset:
        table = pq.read_table(path)
        types = {one.name: one.type for one in table.schema}
        rows = [{name: _shown(value) for name, value in row.items()} for row in table.to_pylist()]
        return cls(table.column_names, rows, types)


def _shown(value: Any) -> str | None:
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return None if value is None else str(value)


@dataclass
class Verdict:
    passed: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)  # with what the rule says
    advised: dict[str, str] = field(default_factory=dict)  # SHOULD and RECOMMENDED that do not hold
    skipped: dict[str, str] = field(default_factory=dict)  # with why

    @property
    def reasons(self) -> Counter[str]:
        return Counter(self.skipped.values())


class Rules:
    """`supported` are the criteria of the model that hold for who wrote the file."""

    def __init__(self, path: Path, supported: set[str]) -> None:
        model = json.loads(path.read_text(encoding="utf-8"))
        self.rules: dict[str, Any] = model["ModelRules"]
        self.criteria = set(model["ApplicabilityCriteria"])
        self._supported = supported
        self._needed: dict[str, set[str]] = defaultdict(set)
        self._inherit(next(iter(model["ModelDatasets"]["CostAndUsage"]["ModelRules"])), set())

    def _inherit(self, name: str, above: set[str]) -> None:
        """A rule holds for whom the rules above it hold."""
        rule = self.rules[name]
        mine = above | set(rule["ApplicabilityCriteria"])
        self._needed[name] |= mine
        requirement = rule["ValidationCriteria"]["Requirement"]
        for item in requirement.get("Items", ()):
            if item["CheckFunction"] == "CheckModelRule":
                self._inherit(item["ModelRuleId"], mine)

    def check(self, data: Dataset) -> Verdict:
        verdict = Verdict()
        for name, rule in self.rules.items():
            why = self._left_out(name, rule, data)
            if why is not None:
                verdict.skipped[name] = why
                continue
            says = rule["ValidationCriteria"]["MustSatisfy"]
            if rule["Type"] == "Dynamic":
                holds = _IN_WORDS[name](data)
            else:
                holds = self._holds(rule["ValidationCriteria"], data)
            if holds:
                verdict.passed.append(name)
            elif rule["ValidationCriteria"]["Keyword"] in ("SHOULD", "SHOULD NOT", "RECOMMENDED"):
                verdict.advised[name] = says
            else:
                verdict.failed[name] = says
        return verdict

    def _left_out(self, name: str, rule: dict[str, Any], data: Dataset) -> str | None:
        criteria = rule["ValidationCriteria"]
        if not self._needed[name] <= self._supported:
            return "of providers that have what we do not: " + ", ".join(
                sorted(self._needed[name] - self._supported)
            )
        if rule["Function"] == "Composite":
            return "only names other rules"
        if criteria["Keyword"] == "MAY":
            return "allows, and cannot be broken"
        if rule["EntityType"] == "Column" and rule["Reference"] not in data.columns:
            return "of a column that is optional and not there"
        if rule["Type"] == "Dynamic" and name not in _IN_WORDS:
            return "only in words, of what a file does not show"
        return None

    def _holds(self, criteria: dict[str, Any], data: Dataset) -> bool:
        requirement, condition = criteria["Requirement"], criteria["Condition"]
        whole = _WHOLE.get(requirement["CheckFunction"])
        if whole is not None:
            return whole(requirement, data)
        return all(_of_row(requirement, row) for row in data.rows if not condition or _of_row(condition, row))


def _of_row(check: dict[str, Any], row: Row) -> bool:
    name = check["CheckFunction"]
    if name == "AND":
        return all(_of_row(item, row) for item in check["Items"])
    if name == "OR":
        return any(_of_row(item, row) for item in check["Items"])
    return _OF_ROW[name](check, row)


def _is(check: dict[str, Any], row: Row) -> bool:
    # One rule of the model calls its column by another name.
    value, wanted = row.get(check.get("ColumnName") or check["CheckCondition"]), check["Value"]
    if isinstance(wanted, int | float) and value is not None:
        return Decimal(value) == Decimal(str(wanted))
    return value == wanted


def _at_least(check: dict[str, Any], row: Row) -> bool:
    value = row[check["ColumnName"]]
    return value is None or Decimal(value) >= Decimal(str(check["Value"]))


def _product(check: dict[str, Any], row: Row) -> bool:
    """To a billionth, as the validator has it."""
    one, other, result = (row[check[of]] for of in ("ColumnAName", "ColumnBName", "ResultColumnName"))
    if one is None or other is None or result is None:
        return True
    off = abs(Decimal(one) * Decimal(other) - Decimal(result))
    return off <= Decimal("1e-9") * max(abs(Decimal(result)), Decimal(1))


def _looks(check: Callable[[str], bool]) -> Callable[[dict[str, Any], Row], bool]:
    """Of a value; null is for other rules."""

    def looks(rule: dict[str, Any], row: Row) -> bool:
        value = row[rule["ColumnName"]]
        return value is None or check(value)

    return looks


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except InvalidOperation:
        return False


def _is_flat_object(text: str) -> bool:
    seen: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        seen.extend(key for key, _ in items)
        return dict(items)

    try:
        found = json.loads(text, object_pairs_hook=pairs)
    except ValueError:
        return False
    flat = isinstance(found, dict) and not any(isinstance(value, dict | list) for value in found.values())
    return flat and len(seen) == len(set(seen))


def _is_time(text: str) -> bool:
    return _ISO.fullmatch(text) is not None and datetime.fromisoformat(text) is not None


_OF_ROW: dict[str, Callable[[dict[str, Any], Row], bool]] = {
    "CheckValue": _is,
    "CheckNotValue": lambda check, row: not _is(check, row),
    "CheckSameValue": lambda check, row: row[check["ColumnAName"]] == row[check["ColumnBName"]],
    "CheckNotSameValue": lambda check, row: row[check["ColumnAName"]] != row[check["ColumnBName"]],
    "CheckGreaterOrEqualThanValue": _at_least,
    "CheckDecimalValue": _looks(_is_decimal),
    "CheckNationalCurrency": _looks(lambda text: _NATIONAL.fullmatch(text) is not None),
    "ColumnByColumnEqualsColumnValue": _product,
    "FormatNumeric": _looks(lambda text: _NUMBER.fullmatch(text) is not None),
    "FormatString": _looks(lambda text: text.isprintable()),
    "FormatDateTime": _looks(_is_time),
    "FormatCurrency": _looks(lambda text: _NATIONAL.fullmatch(text) is not None),
    "FormatUnit": _looks(lambda text: _UNIT.fullmatch(text) is not None),
    "FormatKeyValue": _looks(_is_flat_object),
}


def _has_type(is_type: Callable[[pa.DataType], bool], looks: Callable[[str], bool]) -> Any:
    def check(rule: dict[str, Any], data: Dataset) -> bool:
        name = rule["ColumnName"]
        if data.types is not None and not is_type(data.types[name]):
            return False
        return all(looks(value) for row in data.rows if (value := row[name]) is not None)

    return check


def _one_of_each(rule: dict[str, Any], data: Dataset) -> bool:
    found = defaultdict(set)
    for row in data.rows:
        found[row[rule["ColumnAName"]]].add(row[rule["ColumnBName"]])
    return all(len(others) == rule["ExpectedCount"] for others in found.values())


_WHOLE: dict[str, Callable[[dict[str, Any], Dataset], bool]] = {
    "ColumnPresent": lambda rule, data: rule["ColumnName"] in data.columns,
    "CheckDistinctCount": _one_of_each,
    "TypeString": _has_type(pa.types.is_string, lambda text: True),
    "TypeDecimal": _has_type(pa.types.is_decimal, _is_decimal),
    "TypeDateTime": _has_type(pa.types.is_timestamp, _is_time),
}


# What is said only in words.


def _values(data: Dataset, check: Callable[[str, str], bool], *columns: str) -> bool:
    return all(
        check(name, value)
        for row in data.rows
        for name, value in row.items()
        if value is not None and (not columns or name in columns)
    )


def _times(data: Dataset) -> Iterator[str]:
    for row in data.rows:
        yield from (
            value for name, value in row.items() if name.endswith(("PeriodStart", "PeriodEnd")) and value
        )


_NUMBERS = ("BilledCost", "ListCost", "ContractedCost", "EffectiveCost", "ListUnitPrice", "PricingQuantity")
_NUMBERS += ("ConsumedQuantity", "ContractedUnitPrice")
_OBJECTS = ("Tags", "SkuPriceDetails")


def _all_times(data: Dataset) -> bool:
    return all(_is_time(text) for text in _times(data))


def _all_numbers(data: Dataset) -> bool:
    return _values(data, lambda _, value: _NUMBER.fullmatch(value) is not None, *_NUMBERS)


def _own_follow(data: Dataset) -> bool:
    own = [name.startswith("x_") for name in data.columns]
    return own == sorted(own)


def _names(data: Dataset) -> list[str]:
    return [name.removeprefix("x_") for name in data.columns]


def _keys(data: Dataset, column: str) -> set[str]:
    return {key for row in data.rows for key in json.loads(row[column] or "{}")}


def _month_holds(data: Dataset) -> bool:
    """Whole months, that the charge lies in; and periods of some length."""
    return all(
        row["BillingPeriodStart"]
        <= row["ChargePeriodStart"]
        < row["ChargePeriodEnd"]
        <= row["BillingPeriodEnd"]  # type: ignore[operator]
        and str(row["BillingPeriodStart"]).endswith("-01T00:00:00Z")
        and str(row["BillingPeriodEnd"]).endswith("-01T00:00:00Z")
        for row in data.rows
    )


def _no_placeholder(data: Dataset) -> bool:
    return _values(data, lambda name, value: name.startswith("x_") or value.lower() not in _PLACEHOLDERS)


def _price_is_one(data: Dataset) -> bool:
    """A SKU's meter and a price's details are the same wherever they stand."""
    return all(
        len(found) == 1
        for of, what in (("SkuId", "SkuMeter"), ("SkuPriceId", "SkuPriceDetails"))
        for found in _grouped(data, of, what).values()
    )


def _grouped(data: Dataset, of: str, what: str) -> dict[str | None, set[str | None]]:
    found = defaultdict(set)
    for row in data.rows:
        found[row[of]].add(row[what])
    return found


def _same_cost(data: Dataset) -> bool:
    return all(
        row["BilledCost"] == row["ContractedCost"] == row["ListCost"] == row["EffectiveCost"]
        for row in data.rows
    )


_IN_WORDS: dict[str, Callable[[Dataset], bool]] = {
    **{f"DateTimeFormat-A-00{at}-M": _all_times for at in (1, 2, 4, 5, 6)},
    "CurrencyFormat-A-001-C": lambda data: _values(
        data, lambda _, value: _NATIONAL.fullmatch(value) is not None, "BillingCurrency"
    ),
    **{f"NumericFormat-A-0{at:02}-M": _all_numbers for at in range(2, 12)},
    "StringHandling-A-001-M": lambda data: _values(data, lambda _, value: value.encode().decode() == value),
    "StringHandling-A-007-M": lambda data: _values(data, lambda _, value: value.strip() != ""),
    "ColumnHandling-A-001-M": lambda data: all(_PASCAL.fullmatch(name) for name in _names(data)),
    "ColumnHandling-A-003-M": lambda data: all(name.isalnum() for name in _names(data)),
    "ColumnHandling-A-005-O": lambda data: all(len(name) <= 50 for name in data.columns),
    "ColumnHandling-A-011-O": lambda data: all(_PASCAL.fullmatch(name) for name in _names(data)),
    "ColumnHandling-A-012-O": _own_follow,
    "ColumnHandling-A-013-O": _own_follow,
    **{
        f"KeyValueFormat-A-00{at}-M": lambda data: _values(
            data, lambda _, value: _is_flat_object(value), *_OBJECTS
        )
        for at in (1, 2, 3, 4)
    },
    "NullHandling-A-002-M": _no_placeholder,
    "UnitFormat-A-001-M": lambda data: _values(
        data, lambda _, value: _UNIT.fullmatch(value) is not None, "PricingUnit", "ConsumedUnit"
    ),
    "BillingPeriodStart-C-004-M": _month_holds,
    "BillingPeriodEnd-C-004-M": _month_holds,
    "ChargePeriodStart-C-004-M": _month_holds,
    "ChargePeriodEnd-C-004-M": _month_holds,
    "SkuMeter-C-006-O": _price_is_one,
    "SkuPriceDetails-C-007-M": _price_is_one,
    "SkuPriceDetails-C-002-O": lambda data: all(
        _PASCAL.fullmatch(key.removeprefix("x_")) for key in _keys(data, "SkuPriceDetails")
    ),
    "SkuPriceDetails-C-017-C": lambda data: all(
        key.startswith("x_") or key == "GpuCount" for key in _keys(data, "SkuPriceDetails")
    ),
    "Tags-C-006-M": lambda data: _values(
        data, lambda _, value: None not in json.loads(value).values(), "Tags"
    ),
    "Tags-C-012-M": lambda data: all(key.startswith("trilens/") for key in _keys(data, "Tags")),
    "ConsumedQuantity-C-008-C": _all_numbers,
    "PricingQuantity-C-009-C": lambda data: all(_product(_PRODUCT, row) for row in data.rows),
    "ContractedCost-C-009-C": lambda data: all(_product(_PRODUCT, row) for row in data.rows),
    "ContractedCost-C-008-C": _same_cost,
    "ListCost-C-008-C": _same_cost,
    "EffectiveCost-C-010-C": _same_cost,
    "ResourceName-C-004-C": lambda data: all(
        row["ResourceId"] or not row["ResourceName"] for row in data.rows
    ),
    "ResourceName-C-006-C": lambda data: all(
        row["ResourceName"] is None or row["ResourceName"] != row["ResourceId"] for row in data.rows
    ),
    "ChargeClass-C-003-C": lambda data: all(row["ChargeClass"] is None for row in data.rows),
    "PricingCategory-C-010-C": lambda data: all(
        row["PricingCategory"] == "Dynamic" for row in data.rows if row["x_Purchase"] == "spot"
    ),
}
_PRODUCT = {
    "ColumnAName": "ContractedUnitPrice",
    "ColumnBName": "PricingQuantity",
    "ResultColumnName": "ContractedCost",
}
