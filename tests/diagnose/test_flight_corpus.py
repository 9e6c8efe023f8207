"""PyTorch's own cases for its analyser come out as they are stated there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bench.verdicts.corpora import FLIGHT_VERDICTS

from servers import require_corpus
from trilens.diagnose.flight.cause import judge_dumps
from trilens.diagnose.flight.differences import steps
from trilens.diagnose.flight.operations import match
from trilens.diagnose.flight.reading import DumpSource, read_dumps
from trilens.diagnose.flight.timeline import Timelines
from trilens.model.flight_recorder import Collective, read_flight_recorder

PAIRS = (
    "all_reduce_same", "type_mismatch", "all_to_all", "input_size_mismatch", "output_size_mismatch",
    "all_reduce_in_ne_out", "state_mismatch", "dtype_mismatch", "gather_nonroot_empty_out",
    "gather_nonroot_out",
)  # fmt: skip


def _collective(event: dict[str, Any]) -> Collective:
    told = {"version": "2.8", "entries": [{"record_id": 0, **event}]}
    return read_flight_recorder(json.dumps(told).encode()).entries[0]


@pytest.mark.parametrize("name", PAIRS)
def test_two_ranks_match_or_not_as_stated(name: str) -> None:
    cases = json.loads(require_corpus("flight-recorder", "match_one_event_cases.json").read_text())
    (case,) = (one for one in cases if one["case"] == name)
    size = len(case["membership"]["0"])
    found = match(_collective(case["event_a"]), _collective(case["event_b"]), size)
    assert found.state == case["expected_match_state"]


def test_there_is_no_other_pair() -> None:
    cases = json.loads(require_corpus("flight-recorder", "match_one_event_cases.json").read_text())
    assert {one["case"] for one in cases} == {*PAIRS}


@pytest.mark.parametrize("case", sorted(FLIGHT_VERDICTS))
def test_whole_dumps_come_out_as_stated(case: int) -> None:
    folder = require_corpus("flight-recorder", "cases")
    (file,) = folder.glob(f"e2e_{case}_*.json")
    expected = json.loads(file.read_text())["expected"]
    dumps = read_dumps(
        DumpSource(one.name, one.read_bytes()) for one in sorted(file.with_suffix("").iterdir())
    )
    found = list(steps(Timelines(dumps)))
    assert len(found) == expected["collectives"]
    for at, step in enumerate(found):
        for name, value in (("record_id", step.record), ("name", step.name), ("pass_check", step.fits)):
            stated = expected.get(name, [None] * len(found))[at]
            assert stated in (None, value)
    verdict = judge_dumps(dumps)
    assert (verdict.reason, verdict.culprits) == FLIGHT_VERDICTS[case]
    assert verdict.confidence < 0.8 or not verdict.culprits  # neither case says more than that
