"""The flight recorder of a simulated rank."""

from __future__ import annotations

import pickle

import pytest

from trilens.simulate.recorded_collectives import Standstill, dumped, hung_in, standing


@pytest.mark.parametrize(
    ("phase", "numbers"), [("data", []), ("grad_sync", list(range(hung_in(0) - 11, hung_in(0) + 1)))]
)
def test_a_rank_that_stands_in_its_first_step_has_recorded_nothing_before_it(
    phase: str, numbers: list[int]
) -> None:
    stands = Standstill(8, 0, 1_768_392_000_000_000_000, 1_000_000_000)
    dump = pickle.loads(dumped(stands, standing(stands, phase), "2.27.3"))
    assert [one["collective_seq_id"] for one in dump["entries"]] == numbers
