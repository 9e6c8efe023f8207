"""The vectorised JSON against a plain one that walks every point."""

from __future__ import annotations

import json
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trilens.model.labels import LabelFrame, Symbols
from trilens.model.series import STALE_NAN, SampleBlock
from trilens.serve import encoding
from trilens.serve.encoding import (
    json_matrix,
    json_samples,
    json_vector,
    label_texts,
    number_text,
    number_texts,
    time_text,
)

# How Go's strconv writes them under Prometheus's rule for choosing between 'f' and 'e'.
GO = [
    (0.0, "0"),
    (-0.0, "-0"),
    (1.0, "1"),
    (-3.5, "-3.5"),
    (0.1, "0.1"),
    (1e-6, "0.000001"),
    (1.5e-6, "0.0000015"),
    (9.99e-7, "9.99e-07"),
    (1e-7, "1e-07"),
    (-1e-10, "-1e-10"),
    (1e-300, "1e-300"),
    (5e-324, "5e-324"),
    (1e10, "10000000000"),
    (12345678901.5, "12345678901.5"),
    (1e15, "1000000000000000"),
    (9007199254740993.0, "9007199254740992"),
    (123456789012345678.0, "123456789012345680"),
    (2.0**63, "9223372036854776000"),
    (1e20, "100000000000000000000"),
    (1e21, "1e+21"),
    (1.7976931348623157e308, "1.7976931348623157e+308"),
    (math.inf, "+Inf"),
    (-math.inf, "-Inf"),
]


@pytest.mark.parametrize(("value", "text"), [*GO, (math.nan, "NaN"), (STALE_NAN, "NaN")])
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert number_text(value) == text
    assert number_texts(np.array([value, 0.5])).to_pylist() == [text, "0.5"]
    assert number_texts(np.array([value])).to_pylist() == [text]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0"),
        (1_700_000_000_123, "1700000000.123"),
        (1_700_000_000_000, "1700000000"),
        (10, "0.010"),
        (-500, "-0.500"),
    ],
)
def test_times(ms: int, text: str) -> None:
    assert time_text(ms) == text


anything = st.floats(allow_nan=True, allow_infinity=True)
usual = st.one_of(
    anything, st.integers(-(10**17), 10**17).map(float), st.floats(-1e13, 1e13), st.floats(-1e-4, 1e-4)
)


@given(st.lists(usual, min_size=1, max_size=200))
def test_whole_arrays_and_single_numbers_agree(values: list[float]) -> None:
    assert number_texts(np.array(values)).to_pylist() == [number_text(v) for v in values]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_reads_back_and_uses_exponents_only_at_the_ends(value: float) -> None:
    text = number_text(value)
    assert float(text) == value
    assert ("e" in text) == (value != 0 and not 1e-6 <= abs(value) < 1e21)
    assert Decimal(text) == Decimal(repr(value))  # no more digits than the shortest


label_value = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
label_rows = st.lists(
    st.dictionaries(
        st.sampled_from(["__name__", "gpu", "UUID", "été"]), label_value.filter(bool), max_size=4
    ),
    min_size=0,
    max_size=90,
)


@given(label_rows)
def test_labels(rows: list[dict[str, str]]) -> None:
    frame = LabelFrame.of(Symbols(), rows)
    texts = label_texts(frame)
    assert [json.loads(text) for text in texts] == rows
    assert all(list(json.loads(text)) == sorted(row) for text, row in zip(texts, rows, strict=True))


def reference_matrix(
    rows: list[dict[str, str]], points: list[list[tuple[int, float]]]
) -> list[dict[str, object]]:
    return [
        {"metric": row, "values": [[json.loads(time_text(t)), number_text(v)] for t, v in series]}
        for row, series in zip(rows, points, strict=True)
        if series
    ]


@settings(max_examples=60)
@given(st.data())
def test_matrix_against_the_reference(data: st.DataObject) -> None:
    rows = data.draw(label_rows)
    steps = data.draw(st.integers(1, 7))
    start, step = data.draw(st.integers(0, 2 * 10**12)), data.draw(st.integers(1, 10**6))
    steps_ms = start + step * np.arange(steps)
    values = np.array(
        data.draw(st.lists(usual, min_size=len(rows) * steps, max_size=len(rows) * steps)), dtype=float
    ).reshape(len(rows), steps)
    present = None
    if data.draw(st.booleans()):
        present = np.array(
            data.draw(st.lists(st.booleans(), min_size=values.size, max_size=values.size)), dtype=bool
        ).reshape(values.shape)
    frame = LabelFrame.of(Symbols(), rows)
    shown = np.ones(values.shape, bool) if present is None else present
    points = [
        [(int(steps_ms[k]), float(values[i, k])) for k in range(steps) if shown[i, k]]
        for i in range(len(rows))
    ]
    expected = reference_matrix(rows, points)
    assert json.loads(json_matrix(frame, steps_ms, values, present)) == expected

    t = np.array([t for series in points for t, _ in series], dtype=np.int64)
    v = np.array([v for series in points for _, v in series], dtype=float)
    offsets = np.cumsum([0, *map(len, points)]).astype(np.int64)
    assert json.loads(json_samples(frame, SampleBlock(t, v, offsets))) == expected


@given(label_rows, st.data())
def test_vector_against_the_reference(rows: list[dict[str, str]], data: st.DataObject) -> None:
    values = np.array(data.draw(st.lists(usual, min_size=len(rows), max_size=len(rows))), dtype=float)
    body = json_vector(LabelFrame.of(Symbols(), rows), values, 1_700_000_000_500)
    assert json.loads(body) == [
        {"metric": row, "value": [1_700_000_000.5, number_text(v)]}
        for row, v in zip(rows, values.tolist(), strict=True)
    ]


def test_a_result_larger_than_one_round_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"i": str(i)} for i in range(100)]
    frame = LabelFrame.of(Symbols(), rows)
    values = np.arange(700, dtype=float).reshape(100, 7) / 4
    steps_ms = 1000 * np.arange(7)
    at_once = json_matrix(frame, steps_ms, values)
    block = SampleBlock(np.tile(steps_ms, 100), values.reshape(-1), 7 * np.arange(101))
    assert json_samples(frame, block) == at_once
    monkeypatch.setattr(encoding, "_CHUNK", 16)
    assert json_matrix(frame, steps_ms, values) == at_once
    assert json_samples(frame, block) == at_once
