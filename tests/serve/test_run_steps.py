"""/api/runs/{run}/steps and curve: many steps in columns, in pages of whole steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from memory_runs import MemoryRuns
from trilens.model.run import RunFacts, RunId, StepRecord

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = RunId("r-1")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    steps = [
        StepRecord(
            RUN,
            step,
            rank,
            0,
            step,
            1_000_000 * step,
            900,
            {"forward": 300} if rank else {},
            values={"loss": math.nan if step == 4 else 5.0 - step + rank},
            samples=8 if rank else None,
        )
        for step in range(5)
        for rank in range(3)
    ]
    with running(Api(runs=MemoryRuns([RunFacts(RUN, 1_000)], told_steps=steps)).build()) as address:
        yield address


def asked(url: str, what: str, **params: object) -> dict[str, Any]:
    answer = httpx.get(f"{url}/api/runs/{RUN}/{what}", params={name: str(v) for name, v in params.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_pages_hold_whole_steps_and_all_of_them_once(url: str) -> None:
    pages = [asked(url, "steps", limit=7)]
    while pages[-1]["next"]:
        pages.append(asked(url, "steps", limit=7, next=pages[-1]["next"]))
    assert [sorted(set(page["step"])) for page in pages] == [[0, 1], [2, 3], [4]]
    every = [pair for page in pages for pair in zip(page["step"], page["rank"], strict=True)]
    assert every == [(step, rank) for step in range(5) for rank in range(3)]


def test_a_step_larger_than_a_page_is_one(url: str) -> None:
    page = asked(url, "steps", limit=2, first=3, last=4)
    assert (page["step"], page["next"]) == ([3, 3, 3], "4")
    assert asked(url, "steps", limit=2, first=4, last=4)["next"] is None


def test_what_nobody_told_is_null_and_what_is_not_finite_is_named(url: str) -> None:
    page = asked(url, "steps", first=3, rank=0)
    assert page["phases_us"] == {}
    page = asked(url, "steps", first=3)
    assert page["phases_us"] == {"forward": [None, 300, 300, None, 300, 300]}
    assert page["samples"] == [None, 8, 8, None, 8, 8]
    assert page["values"]["loss"] == [2, 3, 4, "NaN", "NaN", "NaN"]


def test_a_curve_has_the_mean_of_the_ranks_and_the_worst(url: str) -> None:
    curve = asked(url, "curve", last=3)
    assert curve["mean"] == [6, 5, 4, 3]
    assert (curve["worst"], curve["worst_rank"]) == ([7, 6, 5, 4], [2, 2, 2, 2])
    assert curve["t_ms"] == [0, 1000, 2000, 3000]


def test_what_is_not_there_is_said(url: str) -> None:
    assert httpx.get(f"{url}/api/runs/nobody/steps").status_code == 404
    none = httpx.get(f"{url}/api/runs/{RUN}/curve", params={"value": "bleu"})
    assert (none.status_code, "told of no value 'bleu'" in none.text) == (404, True)
    wrong = httpx.get(f"{url}/api/runs/{RUN}/steps", params={"first": "x"})
    assert (wrong.status_code, "is no number" in wrong.text) == (400, True)
