"""Batches of records are read field by field, and what is wrong is named."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from trilens.collect.runs.wire import read_lines, unpacked
from trilens.model.errors import RunRecordsError, RunRecordsTooLarge

HEADER: dict[str, Any] = {"v": 1, "run": "a", "rank": 0, "writer": "0" * 32, "seq": 3, "t_ms": 5}
STEPS: dict[str, Any] = {"n": [0], "step": [1], "start_us": [1], "us": [3]}


def line(**fields: Any) -> bytes:
    return json.dumps({**HEADER, **fields}).encode() + b"\n"


def nested(depth: int) -> dict[str, Any]:
    """Every other one a list."""
    found: Any = 0
    for at in range(depth - 1):
        found = {"a": found} if at % 2 else [found]
    return {"a": found}


def refusal(body: bytes) -> str:
    reading = read_lines(body)
    assert reading.lines == []
    return str(reading.refusal)


def test_what_programs_tell_may_be_nested() -> None:
    (read,) = read_lines(line(facts={"created_ms": 1, "config": nested(99)})).lines
    assert read.facts is not None
    assert read.facts.config == nested(99)


def test_fields_that_nobody_knows_are_passed_over() -> None:
    (read,) = read_lines(line(tomorrow={"x": 1}, state={"mood": "good"})).lines
    assert (read.run, read.seq, read.steps) == ("a", 3, None)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"rank": -1}, "$.rank"),
        ({"rank": 1 << 31}, "$.rank"),
        ({"t_ms": 10**30}, "$.t_ms"),
        ({"seq": "7"}, "$.seq"),
        ({"v": 2}, "$.v"),
        ({"run": "a\n"}, "$.run"),
        ({"run": "a" * 65}, "$.run"),
        ({"run": "ü"}, "$.run"),
        ({"writer": "0" * 31}, "$.writer"),
        ({"steps": {**STEPS, "us": ["3"]}}, "$.steps.us[0]"),
        ({"steps": {**STEPS, "us": [3.5]}}, "$.steps.us[0]"),
        ({"steps": {**STEPS, "step": [1, 2]}}, "step has 2 entries, n has 1"),
        ({"steps": {**STEPS, "phases": {"forward": []}}}, "phases.forward has 0 entries, n has 1"),
        ({"steps": {**STEPS, "values": {"loss": ["much"]}}}, "$.steps.values"),
        ({"steps": {**STEPS, "values": {str(i): [None] for i in range(1_001)}}}, "1001 names"),
        ({"batches": [{"n": 0, "step": 1, "range": [1 << 62, 9, 1 << 62]}]}, "$.batches[0]"),
        ({"batches": [{"n": 0, "step": 1, "ids": [1, 2], "size": 3}]}, "size is 3, told are 2"),
        ({"batches": [{"n": 0, "step": 1, "ids": [1], "unknown": "?"}]}, "ids and unknown"),
        ({"batches": [{"n": 0, "step": 1, "ids": [1 << 63]}]}, "$.batches[0].ids[0]"),
        ({"artifacts": [{"n": 0, "t_ms": 1, "kind": "a", "name": "b", "base64": "?!"}]}, "base64"),
        ({"artifacts": [{"n": 0, "t_ms": 1, "kind": "a", "name": "b", "base64": "AAAA" * 350_000}]}, "bytes"),
        ({"end": {"t_ms": 1, "how": "exploded"}}, "$.end.how"),
        ({"facts": {"created_ms": 1, "config": nested(200)}}, "config is nested more than 100 deep"),
        ({"notes": [{"n": 0, "t_ms": 1, "kind": "a", "data": nested(200)}]}, "data is nested more than 100"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_named_with_its_batch(fields: dict[str, Any], where: str) -> None:
    said = refusal(line(**fields))
    assert where in said
    assert said.startswith("seq 3: ") or "seq" in fields


def test_numbers_that_json_has_no_word_for() -> None:
    values = {"a": ["NaN"], "b": ["-Infinity"], "c": [None], "d": [1e30]}
    (read,) = read_lines(line(steps={**STEPS, "values": values})).lines
    assert read.steps is not None
    assert read.steps.values == values


@pytest.mark.parametrize(
    "text",
    [
        b'{"v":1,"seq":3,',
        b'{"v":1,"seq":3,"run":"\xff"}',
        b'{"v":1,"seq":3,"run":"\\ud800"}',
        b'{"v":1,"seq":3,"facts":{"created_ms":1,"config":{"a":NaN}}}',
        b'{"v":1,"seq":3,"facts":{"created_ms":1,"config":{"a":' + b"[" * 100_000,
    ],
    ids=["cut off", "not UTF-8", "half a character", "NaN", "deep"],
)
def test_what_is_no_json(text: bytes) -> None:
    assert refusal(text).startswith("seq 3: ")


def test_what_comes_before_a_bad_batch_is_read() -> None:
    reading = read_lines(line(seq=1) + b"\n" + line(seq=2) + line(seq=3, rank=-1) + line(seq=4))
    assert [read.seq for read in reading.lines] == [1, 2]
    assert reading.refusal is not None
    assert reading.refusal.seq == 3


def test_a_request_is_of_one_writer() -> None:
    reading = read_lines(line(seq=1) + line(seq=2, writer="1" * 32))
    assert len(reading.lines) == 1
    assert "one writer" in str(reading.refusal)
    assert "no batch" in refusal(b"\n\n")


def test_compressed_bodies() -> None:
    body = line()
    assert unpacked(gzip.compress(body), "gzip", 10_000) == unpacked(body, "", 10_000) == body
    with pytest.raises(RunRecordsTooLarge):
        unpacked(gzip.compress(b"a" * 1_000_000), "gzip", 10_000)
    with pytest.raises(RunRecordsTooLarge):
        unpacked(b"a" * 10_001, "", 10_000)
    for cut, encoding in ((gzip.compress(body)[:-9], "gzip"), (b"no gzip", "gzip"), (body, "br")):
        with pytest.raises(RunRecordsError):
            unpacked(cut, encoding, 10_000)
