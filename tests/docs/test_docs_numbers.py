"""docs/numbers.md has every number of the API, and names what computes it."""

from __future__ import annotations

import importlib
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tools.docs.metric_page import described
from tools.docs.rule_pages import shipped

from trilens.alert.slo import rules as slo_rules
from trilens.model.ledger import Bucket
from trilens.serve.openapi import document

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PAGE = (Path(__file__).parents[2] / "docs" / "numbers.md").read_text("utf-8")
NAMED = re.compile(r"`([^`]+)`")
# Money is exact as a decimal text: no type says that it is a number.
MONEY = (
    *("amount", "billed", "booked", "changed", "spent", "for_nothing", "lost", "rest", "buckets", "change"),
    *("per_hour", "before_per_hour", "expected", "low", "high", "per_day", "per_unit", "incidents_lost"),
)
AMOUNTS = ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "null"}]})


def columns(title: str) -> Iterator[tuple[list[str], list[str]]]:
    """The head and the cells of each row of the tables that have a column of this title."""
    for table in re.findall(r"(?:^\|.*\|\n)+", PAGE, re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line[1:-1].split(" | ")] for line in table.splitlines()]
        if title in head:
            for row in rows:
                yield head, row


def cells(title: str) -> list[str]:
    return [row[head.index(title)] for head, row in columns(title)]


def numbers() -> Iterator[tuple[str, str]]:
    """Type and field of each number that an answer can hold."""
    for name, schema in document()["components"]["schemas"].items():
        for field, one in schema.get("properties", {}).items():
            if is_number(one) or (field in MONEY and is_amount(one)):
                yield name.rpartition(".")[2], field


def is_number(schema: Mapping[str, Any]) -> bool:
    inner = [*schema.get("anyOf", ())]
    inner += [one for key in ("items", "additionalProperties") if isinstance(one := schema.get(key), dict)]
    return schema.get("type") in ("number", "integer") or any(map(is_number, inner))


def is_amount(schema: Mapping[str, Any]) -> bool:
    """Also several: by bucket, by currency."""
    return schema in AMOUNTS or schema.get("additionalProperties") in AMOUNTS


def test_every_number_of_an_answer_is_on_the_page() -> None:
    told = {name for cell in cells("in answers") for name in NAMED.findall(cell)}
    of_types = defaultdict(set)
    for name in told:
        kind, _, field = name.rpartition(".")
        of_types[field].add(kind)
    # What is told of one type alone stands for no other that has a field of that name.
    missing = [f"{kind}.{field}" for kind, field in numbers() if not of_types[field] & {kind, ""}]
    assert missing == [], "add it to docs/numbers.md: how it is computed, and by what"


def test_the_page_has_no_field_that_no_answer_has() -> None:
    known = {one for kind, field in numbers() for one in (field, f"{kind}.{field}")}
    told = {name for cell in cells("in answers") for name in NAMED.findall(cell)}
    assert told - known == set()


def test_a_field_is_told_of_in_one_way() -> None:
    """Bare, or with each of its types: a bare name beside others would hide a new meaning."""
    told = {name for cell in cells("in answers") for name in NAMED.findall(cell)}
    assert [name for name in told if "." in name and name.rpartition(".")[2] in told] == []


def test_every_bucket_is_on_the_page() -> None:
    assert [NAMED.findall(cell) for cell in cells("bucket")] == [[bucket.value] for bucket in Bucket]


@pytest.mark.parametrize(
    "name", sorted({name for cell in cells("computed by") for name in NAMED.findall(cell)})
)
def test_what_computes_it_exists(name: str) -> None:
    if ":" in name:
        recorded = {one.name for one in shipped()}
        assert name in recorded or name in Path(str(slo_rules.__file__)).read_text("utf-8")
    elif "." in name:
        module, _, part = name.rpartition(".")
        assert hasattr(importlib.import_module(f"trilens.{module}"), part)
    else:
        assert name in {one.metric for one in described()}


def test_every_figure_has_what_computes_it() -> None:
    assert [row for head, row in columns("computed by") if len(row) != len(head)] == []
    assert [row[0] for head, row in columns("computed by") if not NAMED.search(row[2])] == []
