"""Barriers of three real processes on gloo: who does not come is named, and the program goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servers import free_port

RANKS = Path(__file__).with_name("barrier_ranks.py")

Told = dict[int, dict[str, Any]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("barrier")
    surroundings = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "3",
        "OMP_NUM_THREADS": "1",
        "TORCH_FR_BUFFER_SIZE": "100",
    }
    log = folder / "log"
    with log.open("wb") as said:
        job = subprocess.Popen(
            [sys.executable, str(RANKS), str(folder)], env=surroundings, stderr=said, start_new_session=True
        )
    try:
        job.wait(timeout=90)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    answers = [folder / f"{rank}.json" for rank in range(3)]
    assert all(answer.exists() for answer in answers), log.read_text()
    return {rank: json.loads(answer.read_text()) for rank, answer in enumerate(answers)}


def missing(told: Told, barrier: str) -> list[list[int] | None]:
    return [told[rank].get(barrier, {}).get("missing") for rank in range(3)]


def test_without_a_process_group_there_is_nobody_to_wait_for(told: Told) -> None:
    assert [told[rank]["alone"] for rank in range(3)] == [[], [], []]


def test_when_all_come_none_is_missing(told: Told) -> None:
    assert missing(told, "first") == [[], [], []]
    assert missing(told, "second") == [[], [], []]
    assert told[0]["second"]["notes"] == []


def test_a_rank_that_does_not_come_is_named_by_the_monitored_barrier(told: Told) -> None:
    assert missing(told, "third") == [[2], [2], []]
    (note,) = told[0]["third"]["notes"]
    assert note["kind"] == "barrier"
    assert note["data"]["by"] == "monitored_barrier"
    assert note["data"]["missing"] == [2]
    assert note["text"].startswith("rank 2 did not come to barrier 3 within 0.5 s")


def test_the_note_says_where_the_missing_rank_was_last(told: Told) -> None:
    (note,) = told[1]["third"]["notes"]
    assert note["data"]["last_seen"] == {"2": {"step": 41, "phase": "forward"}}
    assert "rank 2 was last in step 41, forward" in note["text"]


def test_the_programs_own_group_works_on_after_a_barrier_that_failed(told: Told) -> None:
    assert [told[rank]["the group still works"] for rank in range(3)] == [3.0, 3.0, 3.0]


def test_the_metrics_name_the_rank_until_it_comes_again(told: Told) -> None:
    after, later = told[1]["metrics after the third"], told[1]["metrics after the fourth"]
    assert "trilens_barrier_missing_ranks 1" in after
    assert 'trilens_barrier_rank_missing{missing_rank="2"} 1' in after
    assert missing(told, "fourth") == [[], [], []]
    assert "trilens_barrier_missing_ranks 0" in later
    assert 'trilens_barrier_rank_missing{missing_rank="2"} 0' in later


def test_with_the_monitored_barrier_refused_the_store_names_the_rank(told: Told) -> None:
    assert missing(told, "fifth") == [[1], [], [1]]
    assert [note["data"]["by"] for rank in (0, 2) for note in told[rank]["fifth"]["notes"]] == [
        "store",
        "store",
    ]


def test_a_rank_that_comes_late_but_in_time_is_not_missing(told: Told) -> None:
    assert missing(told, "sixth") == [[], [], []]


def test_a_group_of_some_ranks_has_barriers_of_its_own(told: Told) -> None:
    assert missing(told, "pair") == [[], [], []]


def test_it_raises_only_when_asked_to(told: Told) -> None:
    assert missing(told, "raising") == [[2], [2], []]
    assert told[0]["raising"]["said"] == "ranks that did not come to the barrier: 2"
    assert missing(told, "after raising") == [[], [], []]


def test_keys_of_past_barriers_are_removed_from_the_store(told: Told) -> None:
    assert [told[rank]["keys of past barriers"] for rank in range(3)] == [False, False, False]


def test_a_rank_that_was_killed_is_named(told: Told) -> None:
    assert missing(told, "before the kill") == [[], [], []]
    assert missing(told, "after the kill") == [[2], [2], None]


def test_a_store_that_died_is_said_and_breaks_nothing(told: Told) -> None:
    after = told[1]["after the store died"]
    assert after["missing"] == []
    assert after["unknown"]


def test_inside_a_step_it_is_a_phase(told: Told) -> None:
    assert [told[rank]["phases of the step"] for rank in range(3)] == [["barrier"]] * 3


def test_a_run_that_is_switched_off_waits_for_nobody(told: Told) -> None:
    assert told[0]["switched off"] == "this run tells nothing"


def test_a_forked_child_does_not_use_its_parents_connections(told: Told) -> None:
    assert all(told[rank]["a forked child was refused"] for rank in range(3))


@pytest.mark.parametrize("store", ["hash", "file", "prefix"])
def test_every_kind_of_store_serves(told: Told, store: str) -> None:
    assert told[0][store] == {"missing": [[1], [1]], "left": [2, 3]}


def test_the_clock_offset_is_measured_with_its_uncertainty(told: Told) -> None:
    offset_us, uncertainty_us = told[1]["clock"]
    assert abs(offset_us + 5_000_000) <= uncertainty_us
    assert uncertainty_us > 0
    assert told[1]["clock of the same machine"] == [0, 0]


def test_ranks_tell_each_other_where_they_are_and_whose_clock_they_have(told: Told) -> None:
    assert missing(told, "all have told") == [[], [], []]
    assert [told[rank]["clock offset"] for rank in range(3)] == [0, 0, 0]


def test_the_flight_recorder_is_asked_and_read(told: Told) -> None:
    assert "gloo:all_reduce" in told[0]["collectives"]
    assert told[0]["entered"] == told[1]["entered"] >= 1
