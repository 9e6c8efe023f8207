"""Numbers and hashes as Prometheus writes them."""

from __future__ import annotations

import math

import pytest

from trilens.promql.format import number, open_metrics_number, positional
from trilens.promql.labelhash import xxh64


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (1e20, "100000000000000000000"),
        (2.0**60, "1152921504606847000"),  # the digits that matter, then zeros
        (1e21, "1e+21"),
        (1.5e-7, "1.5e-07"),
        (0.00012, "0.00012"),
        (0.00001234, "1.234e-05"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "-0"),
        (300.0, "300"),
        (1.5e-7, "0.00000015"),
        (1e21, "1000000000000000000000"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_in_labels_have_no_exponent(value: float, text: str) -> None:
    assert positional(value) == text


def test_open_metrics_numbers_have_a_fraction() -> None:
    assert [open_metrics_number(x) for x in (1.0, 0.5, math.nan)] == ["1.0", "0.5", "NaN"]


@pytest.mark.parametrize(
    ("data", "digest"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_xxh64_of_known_texts(data: bytes, digest: int) -> None:
    assert xxh64(data) == digest
