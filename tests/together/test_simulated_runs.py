"""A simulated job that falls over, meets a bad batch twice and hangs tells a real server of its steps; what
that answers is compared with what really happened."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx

from servers import until
from trilens.simulate.over_http.pace import grown
from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import read_scenario
from trilens_process import server

if TYPE_CHECKING:
    from pathlib import Path

SCENARIO = """
name: falls-over
pools: [{name: h100, model: H100, nodes: 1}]
jobs:
  - name: train
    kind: JobSet
    namespace: research
    team: vision
    experiment: spiky
    pool: h100
    pods: 2
    gpus_per_pod: 2
    arrivals: {at_start: 1}
    duration: 2h
    training: {checkpoint_every: 100}
faults:
  - {kind: bad-batch, at: 9m, rank: 1}
  - {kind: xid, code: 31, at: 10m, rank: 2}
  - {kind: hang, at: 17m, rank: 3}
"""
AGE_MS = 20 * 60_000
RANKS = 4


def test_lineage_answers_what_really_happened(tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    world = grown(read_scenario(SCENARIO, "x.yaml"), now_ms=now_ms, age_ms=AGE_MS, seed=1)
    (truth,) = world.truth.runs.values()
    first, second = truth.attempts
    assert second.run is not None
    hung_at = int(second.run.step_at(AGE_MS / 1000))
    with (
        server(tmp_path) as (url, _),
        SimulatedCluster(world) as cluster,
        httpx.Client(base_url=url, timeout=30) as client,
    ):

        def ask(path: str) -> Any:
            answer = client.get(path)
            return answer.json()["data"] if answer.status_code == 200 else None

        def all_is_told() -> bool:
            last = ask(f"/api/runs/{truth.run}/steps/{hung_at}")
            noted = last is not None and len(ask(f"/api/runs/{truth.run}")["notes"])
            return last is not None and len(last["ranks"]) == noted == RANKS

        cluster.send_records_to(url)
        until(all_is_told, "the last steps before it hung")
        run = ask(f"/api/runs/{truth.run}")
        saved = second.first_step + 100
        contents = ask(f"/api/runs/{truth.run}/checkpoints/{saved}")
        spikes = ask(f"/api/runs/{truth.run}/spikes")
        bad_step = int(next(f.detail for f in world.truth.faults if f.kind == "bad-batch").split()[1])
        sample = first.samples(1, bad_step).ids[7]
        sightings = ask(f"/api/samples/{sample}")
        step = ask(f"/api/runs/{truth.run}/steps/{bad_step}")
    assert (run["run"]["state"], run["run"]["attempts"]) == ("stalled", 2)
    assert (run["run"]["experiment"], run["run"]["name"]) == ("spiky", "train-1")
    assert {note["kind"] for note in run["notes"]} == {"stalled"}
    assert first.last_step is not None
    assert first.last_step > bad_step > second.first_step > 0

    inside = [(*part["attempts"], part["first_step"], part["last_step"]) for part in contents["parts"]]
    assert inside == truth.inside(1, saved)
    assert not contents["doubts"]

    really = [
        (number, rank, at)
        for at, attempt in enumerate(truth.attempts)
        for rank in range(RANKS)
        for number in truth.told[at, rank]
        if sample in attempt.samples(rank, number).ids
    ]
    assert really == [(bad_step, 1, 0), (bad_step, 1, 1)]
    assert sorted((one["step"], one["rank"], one["attempt"]) for one in sightings) == really
    assert [one["kept"] for one in sorted(sightings, key=lambda one: one["attempt"])] == [False, True]

    assert [(one["step"], one["rank"], one["attempt"]) for one in spikes["spikes"]] == really
    common = {one["digest"] for one in spikes["common"] if one["digest"] is not None}
    assert spikes["spikes"][0]["batches"][0]["digest"] in common

    records = {one.rank: one for one in first.steps(bad_step - 1, bad_step)}
    for one in (one for one in step["ranks"] if one["attempt"] == 0):
        record = records[one["rank"]]
        gpu = next(g for g in world.truth.gpus if g.rank == one["rank"] and g.attempt == first.attempt)
        assert one["gpus"] == [gpu.gpu_uuid]
        assert one["phases_us"]["forward"] == round(1e6 * record.forward_s)
