"""Step records of a thousand ranks taken in on one core, and lineage asked over a hundred million of them."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

import aiohttp
import httpx
import orjson

from bench.peers import Trilens
from bench.settled import wait_for_merges
from trilens.model.run import CheckpointRecord, Ending, RankProcess, RunFacts, RunId, WriterId
from trilens.model.run_commit import Position, RunCommit
from trilens.model.run_sums import AttemptSpan
from trilens.simulate.rank_records import SimulatedRank
from trilens.store.engine import Engine
from trilens.store.migrations import migrate
from trilens.store.runs import RunRecords

if TYPE_CHECKING:
    from pathlib import Path

RUN = "bench"
STEP_S = 0.5


@dataclass(frozen=True)
class RunIntakeResult:
    ranks: int
    seconds: float
    cores: float  # of the server, which has one
    interval_s: float  # the longest that it asked for
    answered_s: list[float]  # sorted
    made: int
    kept: int
    rss_mb: float


@dataclass
class _Sent:
    answered_s: list[float]
    interval_s: float = 2.0


@dataclass
class PinnedTrilens(Trilens):
    """A server that has one core."""

    core: int = 0

    def command(self) -> list[str]:
        return ["taskset", "-c", str(self.core), *super().command()]


def intake(out: Path, *, ranks: int, seconds: float) -> RunIntakeResult:
    """The server has the first core and whoever sends the last, so that neither takes the other's time."""
    cores = sorted(os.sched_getaffinity(0))
    server = PinnedTrilens(out / "run-intake", core=cores[0])
    server.start()
    os.sched_setaffinity(0, {cores[-1]})
    try:
        before = server.usage()
        simulated, sent, took = asyncio.run(_send(server.url, ranks, seconds))
        after = server.usage()
    finally:
        os.sched_setaffinity(0, cores)
        server.stop()
    with Engine.open(server.data) as engine:
        kept = sum(span.records for span in RunRecords(engine).spans(RunId(RUN)))
        counted = engine.query_arrow("SELECT count() AS n FROM run_steps")["n"][0].as_py()
    made = sum(rank.steps for rank in simulated)
    assert kept == counted, f"{kept} steps are told of, {counted} are there"
    return RunIntakeResult(
        ranks=ranks,
        seconds=took,
        cores=(after.cpu_s - before.cpu_s) / took,
        interval_s=sent.interval_s,
        answered_s=sorted(sent.answered_s),
        made=made,
        kept=kept,
        rss_mb=after.rss_mb,
    )


async def _send(url: str, ranks: int, seconds: float) -> tuple[list[SimulatedRank], _Sent, float]:
    sent = _Sent([])
    began = time.time()
    simulated = [SimulatedRank(RUN, rank, ranks, began, STEP_S) for rank in range(ranks)]
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(60)
    async with aiohttp.ClientSession(url, connector=connector, timeout=timeout) as session:
        until = began + seconds
        await asyncio.gather(*(_rank(session, rank, sent, until, ranks) for rank in simulated))
    return simulated, sent, time.time() - began


async def _rank(
    session: aiohttp.ClientSession, rank: SimulatedRank, sent: _Sent, until: float, ranks: int
) -> None:
    interval_s = 2.0
    await asyncio.sleep(interval_s * rank.rank / ranks)  # programs begin when they do
    while True:
        last = time.time() >= until
        body = rank.batch(time.time(), interval_s)
        if last:
            body += rank.end(time.time())
        interval_s = await _post(session, body, sent)
        if last:
            return
        await asyncio.sleep(min(interval_s, max(0.0, until - time.time()) + 0.5 * rank.rank / ranks))


async def _post(session: aiohttp.ClientSession, body: bytes, sent: _Sent) -> float:
    while True:
        began = time.monotonic()
        async with session.post("/api/v1/runs/records", data=body) as answer:
            text = await answer.read()
        if answer.status == 503:
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
            continue
        assert answer.status == 200, text
        sent.answered_s.append(time.monotonic() - began)
        interval_s: float = orjson.loads(text)["data"]["interval_s"]
        sent.interval_s = max(sent.interval_s, interval_s)
        return interval_s


RANKS = 1_024
SAMPLES = 8  # a step
RANGED, SHUFFLED = "ranged", "shuffled"
_DATASET_SAMPLES = 10_000_019
_STRIDE = 6_700_417
_SPIKE_EVERY = 4_000  # steps
_CHUNK_STEPS = 2_048  # of all ranks: two million rows an insert
_COMMITS_A_STEP = 5  # a rank sends every 5 s, so the ranks' records of one step come in five groups or so


def fill(data: Path, ranged_steps: int, shuffled_steps: int) -> None:
    """What the intake would have written for two runs of 1,024 ranks: one reads its data in order, the other
    shuffled."""
    # Lately, or a server would delete them as expired.
    began_us = time.time_ns() // 1000 - (max(ranged_steps, shuffled_steps) + 100) * 500_000
    with Engine.open(data) as engine:
        migrate(engine)
        for run, steps in ((RANGED, ranged_steps), (SHUFFLED, shuffled_steps)):
            _tell_of(engine, run, steps, began_us)  # first: what is newer than all positions was interrupted
            for first in range(0, steps, _CHUNK_STEPS):
                for statement in _inserts(run, first, min(first + _CHUNK_STEPS, steps), began_us):
                    engine.command(statement)
        wait_for_merges(engine)


def _inserts(run: str, first: int, last: int, began_us: int) -> list[str]:
    rows = f"FROM numbers({first * RANKS}, {(last - first) * RANKS})"
    step, rank = f"intDiv(number, {RANKS})", f"number % {RANKS}"
    jump = f"if({step} % {_SPIKE_EVERY} = {_SPIKE_EVERY - 1}, 10, 0)"
    loss = f"2 + 8 / (1 + 0.01 * {step}) + 0.05 * sin({step} * 12.9898 + {rank} * 78.233) + {jump}"
    commit = f"{began_us} + {step} * 500000 + intDiv({rank}, {RANKS // _COMMITS_A_STEP}) * 1000000"
    us = "450000 + rand() % 50000"
    whose = f"'{run}' AS run, {step} AS step, {rank} AS rank, 0 AS attempt, {step} AS n"
    start = f"{began_us} + {step} * 500000 + rand(1) % 2000"
    first_id = f"number * {SAMPLES}"
    ranged = run == RANGED
    ids = f"arrayMap(i -> toInt64(({first_id} + i) * {_STRIDE} % {_DATASET_SAMPLES}), range({SAMPLES}))"
    statements = [
        "INSERT INTO run_steps (run, step, rank, attempt, n, start_us, us, phases, device, values, samples, "
        f"tokens, epoch, commit) SELECT {whose}, {start}, {us} AS took, "
        "map('data', took * 0.04, 'forward', took * 0.3, 'backward', took * 0.45, 'grad_sync', took * 0.15, "
        f"'optimizer', took * 0.06), map(), map('loss', {loss}, 'grad_norm', 1 + 0.1 * sin(number), "
        f"'lr', 3e-4), {SAMPLES}, {SAMPLES * 4096}, 0, {commit} {rows}",
        "INSERT INTO run_curves (run, value, step, attempt, t_us, told, total, worst, worst_rank, commit) "
        f"SELECT '{run}', 'loss', step, 0, {began_us} + step * 500000, count(), sum(loss), max(loss), "
        f"argMax(rank, loss), commit FROM (SELECT {step} AS step, {rank} AS rank, {loss} AS loss, "
        f"{commit} AS commit {rows}) GROUP BY step, commit",
        "INSERT INTO run_shares (run, attempt, step, dataset, shard, batches, samples, unknown, commit) "
        f"SELECT '{run}', 0, step, 'tokens', NULL, count(), count() * {SAMPLES}, 0, commit "
        f"FROM (SELECT {step} AS step, {commit} AS commit {rows}) GROUP BY step, commit",
        "INSERT INTO run_batches (run, step, rank, attempt, n, i, dataset, shard, epoch, size, first, "
        "stride, ids, names, digest, unknown, low, high, commit) "
        f"SELECT {whose}, 0, 'tokens', NULL, 0, {SAMPLES}, "
        + (f"{first_id}, 1, [], " if ranged else f"NULL, 1, {ids}, ")
        + "[], lower(hex(cityHash64(number))), NULL, "
        + (f"{first_id}, {first_id} + {SAMPLES - 1}, " if ranged else f"{(1 << 63) - 1}, {-(1 << 63)}, ")
        + f"{commit} {rows}",
    ]
    if not ranged:
        statements.append(
            "INSERT INTO run_samples (sample, run, dataset, shard, name, step, rank, attempt, n, epoch, "
            "commit) SELECT sample, run, 'tokens', NULL, '', step, rank, 0, n, 0, commit "
            f"FROM (SELECT {whose}, {commit} AS commit, {ids} AS ids {rows}) ARRAY JOIN ids AS sample"
        )
    return statements


def _tell_of(engine: Engine, run: str, steps: int, began_us: int) -> None:
    """Its processes, a checkpoint every hundredth of its way, and how far each was taken in."""
    end_ms = (began_us + steps * 500_000) // 1000
    positions, processes = [], []
    for rank in range(RANKS):
        writer = WriterId(f"{rank:032x}")
        span = AttemptSpan(
            rank, 0, 0, steps - 1, steps, steps * SAMPLES, None, began_us, end_ms * 1000, 0, steps - 1
        )
        positions.append(Position(RunId(run), rank, writer, 0, steps // 10, (span,)))
        processes.append(
            RankProcess(
                RunId(run),
                rank,
                writer,
                began_us // 1000,
                node=f"gpu-{rank // 8:04}",
                gpus=(f"GPU-{rank:08}",),
                heard_ms=end_ms,
                step=steps - 1,
                ended_ms=end_ms,
                ending=Ending.FINISHED,
            )
        )
    checkpoints = [
        CheckpointRecord(RunId(run), at, 0, 0, n, f"/ckpt/{run}/{at}", began_us // 1000 + at * 500)
        for n, at in enumerate(range(steps // 100, steps, steps // 100))
    ]
    facts = RunFacts(RunId(run), began_us // 1000, "bench", run, world_size=RANKS, total_steps=steps)
    RunRecords(engine).commit(RunCommit([facts], processes, checkpoints=checkpoints, positions=positions))


@dataclass(frozen=True)
class LineageResult:
    records: int
    disk_mb: float
    cold_s: dict[str, float]  # by question, the first time after the server's start
    warm_s: dict[str, float]  # the median of the next times


def lineage(out: Path, *, records: int, repeats: int) -> LineageResult:
    """Asked of a server as people ask it; four fifths of the records are of the run that reads in order."""
    data = out / "run-lineage"
    steps = {RANGED: records * 4 // 5 // RANKS, SHUFFLED: records // 5 // RANKS}
    if not data.exists():
        fill(data, steps[RANGED], steps[SHUFFLED])
    server = Trilens(data)
    server.start()
    try:
        questions = _questions(steps)
        with httpx.Client(base_url=server.url, timeout=120) as client:
            cold = {what: _asked(client, path) for what, path in questions.items()}
            warm = {
                what: median(_asked(client, path) for _ in range(repeats)) for what, path in questions.items()
            }
    finally:
        server.stop()
    with Engine.open(data) as engine:
        found = engine.query_arrow(
            "SELECT sumIf(rows, table = 'run_steps') AS records, sum(bytes_on_disk) AS size "
            "FROM system.parts WHERE active AND table LIKE 'run_%' AND database = currentDatabase()"
        ).to_pylist()[0]
    return LineageResult(found["records"], found["size"] / 1e6, cold, warm)


def _questions(steps: dict[str, int]) -> dict[str, str]:
    middle = {run: count // 2 for run, count in steps.items()}
    checkpoint = {run: count // 100 * 90 for run, count in steps.items()}
    in_order = (middle[RANGED] * RANKS + 7) * SAMPLES
    shuffled = (middle[SHUFFLED] * RANKS + 7) * SAMPLES * _STRIDE % _DATASET_SAMPLES
    return {
        "one step, all ranks": f"/api/runs/{RANGED}/steps/{middle[RANGED]}",
        "one step of one rank": f"/api/runs/{SHUFFLED}/steps/{middle[SHUFFLED]}?rank=7",
        "what a checkpoint at nine tenths holds": f"/api/runs/{RANGED}/checkpoints/{checkpoint[RANGED]}",
        "who saw a sample, told in a range": f"/api/samples/{in_order}?run={RANGED}",
        "who saw a sample, told by itself": f"/api/samples/{shuffled}?run={SHUFFLED}",
        "the same over all runs": f"/api/samples/{shuffled}",
        "loss spikes over the whole run": f"/api/runs/{RANGED}/spikes",
        "the run": f"/api/runs/{RANGED}",
    }


def _asked(client: httpx.Client, path: str) -> float:
    began = time.perf_counter()
    answer = client.get(path)
    took = time.perf_counter() - began
    assert answer.status_code == 200, answer.text
    return took
