"""Ranks of the simulator send step records to a real server, and lineage is asked of it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import httpx

from trilens.simulate.rank_records import SAMPLES_A_STEP, SimulatedRank
from trilens_process import server

if TYPE_CHECKING:
    from pathlib import Path

RANKS = 8
STEPS = 40


def test_what_simulated_ranks_did_is_known(tmp_path: Path) -> None:
    began_s = time.time() - 20
    ranks = [SimulatedRank("sim", rank, RANKS, began_s) for rank in range(RANKS)]
    with server(tmp_path) as (url, _), httpx.Client(base_url=url, timeout=30) as client:
        for now_s in (began_s + 10, began_s + 10, began_s + 20):  # the second is a heartbeat
            for rank in ranks:
                answer = client.post("/api/v1/runs/records", content=rank.batch(now_s))
                assert answer.status_code == 200, answer.text
        before_end = client.get("/api/runs/sim").json()["data"]
        for rank in ranks:
            client.post("/api/v1/runs/records", content=rank.end(began_s + 20))
        step = client.get("/api/runs/sim/steps/17").json()["data"]
        after_end = client.get("/api/runs/sim").json()["data"]
        alive = client.get("/metrics").text
        sample = (17 * RANKS + 3) * SAMPLES_A_STEP * 6_700_417 % 10_000_019
        seen = client.get(f"/api/samples/{sample}").json()["data"]
    assert (before_end["run"]["state"], after_end["run"]["state"]) == ("running", "finished")
    assert len(step["ranks"]) == RANKS
    assert [(one["step"], one["rank"]) for one in seen] == [(17, 3)]
    assert f"trilens_run_records_steps_total {RANKS * STEPS:.1f}" in alive
