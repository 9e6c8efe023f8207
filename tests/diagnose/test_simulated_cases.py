"""From a fault of the simulator over collectors, intake and detectors to the verdict: its cause and rank."""

from __future__ import annotations

import io
from functools import cache

import pytest
from bench.detect.cases import Lived, live_through
from bench.detect.episodes import FAULTS, fault_episodes

from trilens.diagnose.bundle import read_bundle, write_bundle
from trilens.diagnose.case import Case
from trilens.diagnose.walk import why

SEED = 11


@cache
def _lived(name: str, after_s: float) -> Lived:
    episode = next(iter(fault_episodes(SEED, [one for one in FAULTS if one.name == name])))
    return live_through(episode, after_s)


@pytest.mark.parametrize(
    ("name", "after_s", "cause", "at_least"),
    [
        pytest.param("crash: exception", 35, "rank-raised", 0.8, id="crash"),
        pytest.param("Xid 79", 35, "dead-gpu", 0.8, id="dead-gpu"),
        pytest.param("hang: collective", 60, "logs-rank-behind", 0.5, id="hang"),
    ],
)
def test_what_went_wrong_is_named_with_its_rank(
    name: str, after_s: float, cause: str, at_least: float
) -> None:
    lived = _lived(name, after_s)
    [file] = lived.cases
    first, *_ = why(Case(file))
    assert (first.cause, first.subject.rank, first.subject.node) == (
        cause,
        lived.truth.rank,
        lived.truth.node,
    )
    assert first.confidence >= at_least


def test_a_bundle_of_a_simulated_case_comes_to_the_same() -> None:
    [file] = _lived("crash: exception", 35).cases
    kept = io.BytesIO()
    write_bundle(file, kept)
    assert why(Case(read_bundle(kept))) == why(Case(file))
