"""What simulated training ranks tell of their steps: as they would with the SDK, and as it really was."""

from __future__ import annotations

import base64
import threading
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from worlds import SMALL, START_MS, after, rows, small

from records_server import RecordsServer, listening
from servers import free_port, until
from trilens.collect.runs.wire import read_lines
from trilens.diagnose.flight.cause import judge_dumps
from trilens.diagnose.flight.flight_verdict import Reason
from trilens.diagnose.flight.reading import DumpSource, read_dumps, read_stack
from trilens.model.flight_recorder import read_flight_recorder, standings
from trilens.simulate import telling
from trilens.simulate.over_http.server import SimulatedCluster
from trilens.simulate.scenario import read_scenario
from trilens.simulate.world import World

if TYPE_CHECKING:
    from trilens.simulate.telling import Sending

HEARTBEAT_S = 5.0
# 100 steps and a checkpoint take about 155 s.
FALLS_OVER = "- {kind: bad-batch, at: 9m, rank: 5}\n- {kind: xid, code: 31, at: 10m, rank: 2}\n"


def told(world: World) -> list[Sending]:
    """All that every rank has to tell now."""
    found = []
    for rank in world.telling.ranks.values():
        while (sending := rank.next(world.now_ms, HEARTBEAT_S)) is not None:
            found.append(sending)
            if not rank.taken():
                break
    return found


def of(sendings: list[Sending], section: str, rank: int | None = None) -> list[Any]:
    lines = [one.line for one in sendings if rank is None or one.line["rank"] == rank]
    return [item for line in lines for item in line.get(section, [])]


def steps_of(sendings: list[Sending], rank: int) -> list[tuple[int, int, float]]:
    """Step, end in microseconds, loss."""
    columns = [one.line["steps"] for one in sendings if one.line["rank"] == rank and "steps" in one.line]
    return [
        (step, start + us, loss)
        for part in columns
        for step, start, us, loss in zip(
            part["step"], part["start_us"], part["us"], part["values"]["loss"], strict=True
        )
    ]


def test_what_is_told_is_what_metrics_show() -> None:
    world = after(small("- {kind: straggler, at: 4m, rank: 3}\n- {kind: slow-data, at: 6m}\n"), 9)
    sendings = told(world)
    shown: dict[tuple[str, str, str], float] = {}
    for uid in world.metrics_endpoints():
        for row in rows(world.metrics_text(uid)):
            shown[row.name, row.labels["rank"], row.labels.get("phase", "")] = row.value
    for rank in range(8):
        (process,) = (one.line["process"] for one in sendings if one.line["rank"] == rank)
        on_gpu = next(one for one in world.truth.gpus if one.rank == rank)
        assert (process["gpus"], process["node"]) == ([on_gpu.gpu_uuid], on_gpu.node)
        assert (process["pod_uid"], process["world_size"]) == (on_gpu.pod_uid, 8)
        steps = steps_of(sendings, rank)
        number, end_us, loss = steps[-1]
        assert [step for step, _, _ in steps] == [*range(1, number + 1)]
        assert number == shown["training_step", str(rank), ""]
        assert loss == shown["training_loss", str(rank), ""]
        ended_s = shown["training_last_step_timestamp_seconds", str(rank), ""]
        assert end_us / 1e6 == pytest.approx(ended_s, abs=0.001)
        columns = next(one.line["steps"] for one in sendings if one.line["rank"] == rank)
        for phase, column in columns["phases"].items():
            total = shown["training_step_phase_seconds_total", str(rank), phase]
            assert sum(column) / 1e6 == pytest.approx(total, abs=0.001)
        in_steps = sum(sum(column) for column in columns["phases"].values()) / 1e6
        assert in_steps == pytest.approx(shown["training_step_seconds_total", str(rank), ""], abs=0.005)
        begins = columns["start_us"]
        assert all(end <= begin + 2 for (_, end, _), begin in zip(steps, begins[1:], strict=False))
    assert len(of(sendings, "checkpoints")) == shown["training_checkpoint_writes_total", "0", ""] > 0


def test_the_same_seed_tells_the_same_however_often_it_is_asked() -> None:
    asked_once = after(small(FALLS_OVER), 15)
    often = small(FALLS_OVER)
    parts = [one for minutes in (3, 7.77, 10.1, 12, 15) for one in told(after(often, minutes))]
    whole = told(asked_once)
    for rank in range(8):
        assert steps_of(parts, rank) == steps_of(whole, rank)
        assert of(parts, "batches", rank) == of(whole, "batches", rank)
        assert of(parts, "checkpoints", rank) == of(whole, "checkpoints", rank)


def test_it_is_as_the_protocol_says_and_told_again_until_it_is_taken() -> None:
    world = after(small(), 5)
    rank = world.telling.ranks[next(iter(world.telling.ranks))]
    first = rank.next(world.now_ms, HEARTBEAT_S)
    world.advance(world.now_ms + 60_000)
    assert rank.next(world.now_ms, HEARTBEAT_S) is first
    assert not rank.taken()
    second = rank.next(world.now_ms, HEARTBEAT_S)
    assert first is not None
    assert second is not None
    reading = read_lines(orjson.dumps(first.line) + b"\n" + orjson.dumps(second.line))
    assert reading.refusal is None
    one, other = reading.lines
    assert one.steps is not None
    assert other.steps is not None
    assert (one.seq, other.seq, one.steps.step[-1] + 1) == (0, 1, other.steps.step[0])
    rank.taken()
    heartbeat = rank.next(world.now_ms, HEARTBEAT_S)
    assert heartbeat is not None
    assert (heartbeat.line["seq"], "steps" in heartbeat.line) == (None, False)


def test_a_rank_that_raised_says_so_and_the_others_are_found_dead() -> None:
    world = small(FALLS_OVER)
    told(after(world, 9.9))
    told(after(world, 10.5))  # all of the job's processes are gone, and none has come yet
    restarted = told(after(world, 15))
    (run,) = world.truth.runs.values()
    began_at = run.attempts[1].first_step
    assert began_at > 0
    loads = of(restarted, "checkpoints")
    assert [one["step"] for one in loads if one.get("loaded")] == [began_at] * 8
    # What the killed ones had not told is found by who comes after them.
    left = {one.line["rank"] for one in restarted if one.for_dead}
    assert left == {0, 1, 3, 4, 5, 6, 7}
    assert steps_of([one for one in restarted if not one.for_dead], 3)[0][0] == began_at + 1


def test_a_failure_is_told_with_its_error() -> None:
    world = after(small(FALLS_OVER), 9.9)
    told(world)
    ends = {one.line["rank"]: one.line["end"] for one in told(after(world, 10.1)) if "end" in one.line}
    assert set(ends) == {2}
    assert ends[2]["how"] == "failed"
    assert ends[2]["error"].startswith("torch.AcceleratorError: CUDA error")


def test_a_hang_is_told_with_where_every_rank_stands() -> None:
    world = after(small("- {kind: hang, at: 5m, rank: 6}\n"), 5.2)
    assert of(told(world), "notes") == []
    sendings = told(after(world, 6.5))
    notes = of(sendings, "notes")
    assert [note["kind"] for note in notes] == ["stalled"] * 8
    stacks = [base64.b64decode(one["base64"]) for one in of(sendings, "artifacts")]
    read = [read_stack(stack.decode()) for stack in stacks]
    assert [stack is not None and stack.waits for stack in read] == [rank != 6 for rank in range(8)]
    assert read[6] is not None
    assert read[6].frame is not None
    assert read[6].frame.function == "backward"  # of its own code, as the SDK has the program's thread first
    assert {one.line["rank"]: one.line["state"]["phase"] for one in sendings}[6] == "backward"
    assert all("steps" not in one.line and one.line["seq"] is not None for one in sendings)
    again = told(after(world, 7))
    assert all(one.line["seq"] is None for one in again)  # they live, and nothing is new


def test_flight_recorders_of_a_hang_name_the_rank_that_did_not_come() -> None:
    recording = SMALL.replace("{checkpoint_every: 100}", "{checkpoint_every: 100, flight_recorder: true}")
    scenario = read_scenario(f"{recording}faults:\n- {{kind: hang, at: 5m, rank: 6}}\n", "recording.yaml")
    sendings = told(after(World(scenario, start_ms=START_MS, seed=1, telling_ranks=8), 6.5))
    dumps = {
        one.line["rank"]: base64.b64decode(artifact["base64"])
        for one in sendings
        for artifact in one.line.get("artifacts", [])
        if artifact["kind"] == "flight-recorder"
    }
    verdict = judge_dumps(read_dumps(DumpSource(str(rank), dump, rank) for rank, dump in dumps.items()))
    assert (verdict.reason, verdict.culprits) == (Reason.NEVER_ENTERED, (6,))
    assert verdict.confidence >= 0.8
    waits = [note for note in of(sendings, "notes") if note["kind"] == "collectives"]
    for rank, note in enumerate(waits):  # as the SDK would have read its own dump
        groups = [one._asdict() for one in standings(read_flight_recorder(dumps[rank]))]
        assert note["data"]["groups"] == groups


def test_the_last_good_checkpoint_is_told_with_its_time() -> None:
    world = after(small("- {kind: checkpoint-failing, at: 7m, lasts: 1h}\n"), 12)
    written = [one for one in of(told(world), "checkpoints", 0) if not one.get("loaded")]
    assert written[0]["ok"]
    assert not written[-1]["ok"]
    last_ms = max(one["start_ms"] for one in written if one["ok"])
    found = [
        row.value
        for uid in world.metrics_endpoints()
        for row in rows(world.metrics_text(uid))
        if row.name == "training_checkpoint_last_timestamp_seconds"
    ]
    assert found == [pytest.approx(last_ms / 1000, abs=0.001)]


def test_nothing_comes_from_a_dead_node_until_it_is_back() -> None:
    world = small("- {kind: node-not-ready, at: 5m, lasts: 2m, node: 0}\n")
    told(after(world, 4.9))
    there = {one.rank for one in world.truth.gpus if one.node == "h100-0000"}
    assert there
    silent = told(after(world, 6.5))
    assert {one.line["rank"] for one in silent} == set(range(8)) - there
    back = told(after(world, 9))
    assert {one.line["rank"] for one in back} == set(range(8))
    assert {note["kind"] for note in of(back, "notes")} >= {"moving"}


def test_a_bad_batch_spoils_the_loss_whenever_its_step_is_done() -> None:
    world = after(small(FALLS_OVER), 16)
    sendings = told(world)
    (fault,) = (one for one in world.truth.faults if one.kind == "bad-batch")
    step = int(fault.detail.removeprefix("step "))
    losses = [loss for number, _, loss in steps_of(sendings, 5) if number == step]
    others = [loss for number, _, loss in steps_of(sendings, 4) if number == step]
    before = [loss for number, _, loss in steps_of(sendings, 5) if number == step - 1]
    assert len(losses) == len(others) == 2
    assert min(losses) > 1.4 * max(before)
    assert max(others) < 1.1 * max(before)
    assert next(loss for number, _, loss in steps_of(sendings, 4) if number == step + 1) > 1.3 * before[0]


def test_a_server_that_takes_nothing_is_said_once_and_one_that_refuses_ends_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    with SimulatedCluster(after(small(), 5)) as cluster:
        cluster.send_records_to(nowhere)
        until(lambda: bool(caplog.records), "that nobody answers")
    assert [nowhere in record.getMessage() for record in caplog.records] == [True]
    ended = threading.Event()
    refusing = RecordsServer()
    refusing.refused = {0}

    def send(url: str) -> None:
        with SimulatedCluster(after(small(), 5), on_end=ended.set) as cluster:
            cluster.send_records_to(url)
            assert ended.wait(30)

    with listening(refusing) as url, pytest.raises(RuntimeError, match="the simulation has failed"):
        send(url)


def test_of_a_job_all_ranks_tell_or_none() -> None:
    jobs = """
  - {name: another, kind: Job, namespace: a, team: a, pool: h100, gpus_per_pod: 8, arrivals: {at: [1m]}}
  - {name: little, kind: Job, namespace: a, team: a, pool: h100, gpus_per_pod: 4, arrivals: {at: [2m]}}
"""
    faults = "- {kind: oom-killed, at: 7m, job: another}\n"
    world = after(small(faults, jobs, telling_ranks=12), 6)
    named = {world.truth.jobs[run.job_uid].template for run in world.truth.runs.values()}
    assert len(world.truth.attempts) == 3
    assert named == {"train", "little"}
    assert len(world.telling.ranks) == 12
    world.telling.most_ranks = 100
    after(world, 10)
    assert len(world.truth.attempts) == 4
    assert len(world.truth.runs) == 2  # who begins in the middle cannot say what came before


def test_of_a_long_past_the_last_steps_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telling, "_MOST_OLD_STEPS", 400)
    world = after(small(), 10)
    world.telling.leave_out_old(world.now_ms)
    sendings = told(world)
    steps = steps_of(sendings, 0)
    assert len(steps) == 50
    assert sendings[0].line["state"]["lost"] == {"step": steps[0][0] - 1}
    (run,) = world.truth.runs.values()
    assert run.told[0, 0] == range(steps[0][0], steps[-1][0] + 1)


def test_samples_come_in_turn_and_once_an_epoch() -> None:
    text = """
name: samples
pools: [{name: h100, model: H100, nodes: 1}]
jobs:
  - name: train
    kind: Job
    namespace: a
    team: a
    pool: h100
    gpus_per_pod: 4
    arrivals: {at_start: 1}
    training: {samples_per_step: 5, dataset_samples: 203, shuffled: SHUFFLED}
"""
    for shuffled in ("true", "false"):
        scenario = read_scenario(text.replace("SHUFFLED", shuffled), "samples.yaml")
        world = after(World(scenario, start_ms=START_MS, seed=1), 3)
        (attempt,) = world.truth.attempts
        seen = [attempt.samples(rank, step) for step in range(1, 11) for rank in range(4)]
        ids = [one for samples in seen for one in samples.ids]
        assert {samples.epoch for samples in seen} == {0}
        assert len(set(ids)) == len(ids) == 200
        assert set(ids) <= set(range(203))
        assert attempt.samples(0, 11).epoch == 1
        (batch, *_) = of(told(world), "batches", 0)
        assert ("ids" in batch, "range" in batch) == (shuffled == "true", shuffled == "false")
