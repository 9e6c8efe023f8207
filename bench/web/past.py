"""Twelve hours of a simulated fleet, kept as a server would have kept them: what pages look back on.

The cluster itself is simulated; records and the first and last samples go through a server's own parts. What
lies in between is made in the engine, in the tables in which the intake would have left it.
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from bench.settled import wait_for_merges
from trilens.alert.rule import RecordingRule
from trilens.alert.rule_file import parse_rules
from trilens.ledger.booking import Booking
from trilens.ledger.known_losses import KnownLosses
from trilens.ledger.prices.book import price_book
from trilens.model.labels import METRIC_NAME, make_labels
from trilens.model.ledger import HOUR_MS
from trilens.model.query import QueryGuard
from trilens.model.run import RunId
from trilens.model.run_commit import RunCommit
from trilens.promql.engine import Engine as PromEngine
from trilens.rules import rule_files
from trilens.serve.gpu_bindings import GpuBindings
from trilens.serve.gpu_reports import StoredReports
from trilens.serve.money.ledger_signals import LedgerSignals
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.rehearsal.objects import FollowedObjects
from trilens.serve.rehearsal.ranks import TellingRanks
from trilens.serve.rehearsal.telemetry import ScrapedTelemetry
from trilens.serve.rules import BUILTIN
from trilens.serve.workload_metrics import as_series, measured
from trilens.simulate.world import World
from trilens.store import sql
from trilens.store.engine import Engine
from trilens.store.options import StoreOptions
from trilens.store.runs import RunRecords
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from trilens.simulate.scenario import Scenario

SCENARIO: Final = Path(__file__).with_name("fleet.yaml")
CLUSTER: Final = "bench"
IDENTITY: Final = "bench"
_BEGUN_MS: Final = 90_000  # by then all jobs of the start run, and have told of their first steps
_EVERY_MS: Final = 120_000  # samples of the past: what was last said holds for longer
_RAW: Final = (
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
)
_RECORDED: Final = (
    "trilens:gpu_utilization:ratio",
    "trilens:gpu_power:watts",
    "trilens:gpu_temperature:celsius",
    "trilens:sm_clock:hertz",
)
_OF_WORKLOADS: Final = (
    "trilens:workload_gpu_utilization:ratio",
    "trilens:workload_gpu_power:watts",
    "trilens:workload_gpu_temperature:celsius",
    "trilens:workload_sm_clock:hertz",
    "trilens:workload_gpus:count",
)
_FILLED: Final = (*_RAW, *_RECORDED, *_OF_WORKLOADS)
_RULES: Final = "gpu.yml"
_JOINED: Final = (  # what these are made with
    "trilens:gpu_reported:info",
    "trilens:workload_pod:info",
    "trilens:workload_gpu:info",
    "trilens:gpu_holder:info",
    "trilens:gpu_identity:info",
    "trilens:gpu_share:ratio",
    "trilens:gpu:info",
)
_STEPS_AT_ONCE: Final = 500
SEED: Final = 0


def telling_ranks(scenario: Scenario) -> int:
    """Those of its first job: then no other may tell."""
    first = scenario.jobs[0]
    return first.pods * first.gpus_per_pod


def make_past(data: Path, scenario: Scenario, end_ms: int, hours: int) -> dict[str, dict[str, Any]]:
    """Into a data directory that nobody has open. Returns how far each rank has told: in another world of the
    same identity it goes on from there."""
    born_ms = end_ms - hours * HOUR_MS
    world = World(
        scenario, start_ms=born_ms, seed=SEED, telling_ranks=telling_ranks(scenario), identity=IDENTITY
    )
    store = Store.open(StoreOptions(data_dir=data), upkeep=False)
    try:
        _follow(world, store, end_ms)
    finally:
        store.close()
    untold = {
        run: rank.lives[0].untold_steps(end_ms)
        for (run, number), rank in world.telling.ranks.items()
        if not number
    }
    with Engine.open(data) as engine:
        engine.command(_samples_statement(born_ms + _BEGUN_MS, end_ms))
        for run, steps in untold.items():
            _tell_steps(engine, RunId(run), steps, end_ms)
    _book(data, born_ms, end_ms)
    _settle(data)
    return {
        life.writer: {**life.told_so_far(), "_step": life.told_so_far()["_step"] + untold[run]}
        for (run, _), rank in world.telling.ranks.items()
        for life in rank.lives
    }


def _settle(data: Path) -> None:
    """As it would be after twelve hours: rolled up hour by hour, and merged."""
    store = Store.open(StoreOptions(data_dir=data), upkeep=False)
    try:
        store.roll_up()
    finally:
        store.close()
    with Engine.open(data) as engine:
        wait_for_merges(engine)


def _follow(world: World, store: Store, end_ms: int) -> None:
    """The first minutes and the last moment."""
    objects = FollowedObjects(world, store, CLUSTER)
    telemetry = ScrapedTelemetry(world, store, CLUSTER)
    ranks = TellingRanks(world, store.runs, _BEGUN_MS / 1000)
    gpus = GpuBindings(store.gpus, StoredReports(store), objects, samples=store, machines=store.machines)
    objects.look()
    gpus.look(world.now_ms)
    for until_ms in (world.now_ms + _BEGUN_MS, end_ms):
        world.advance(until_ms)
        objects.look()
        telemetry.look()
        gpus.look(until_ms)
        if until_ms < end_ms:
            ranks.look()
            ranks.stop()
    told = as_series(measured(objects.resolver, end_ms))
    _append(store, [store.series(labels) for labels in told], end_ms, np.array([*told.values()]))
    for rule in _recording_rules():
        _record(store, rule, end_ms)


def _recording_rules() -> Iterator[RecordingRule]:
    (entry,) = (one for one in rule_files() if one.name == _RULES)
    for group in parse_rules(entry.read_text(encoding="utf-8"), BUILTIN / entry.name, timedelta(minutes=1)):
        for rule in group.rules:
            if isinstance(rule, RecordingRule) and (rule.record in _FILLED or rule.record in _JOINED):
                yield rule


def _record(store: Store, rule: RecordingRule, at_ms: int) -> None:
    found = PromEngine(store).instant(rule.expr, at_ms, QueryGuard())
    if not len(found.labels):
        return
    series = [
        store.series(make_labels({**found.labels.labels(row), METRIC_NAME: rule.record, **dict(rule.labels)}))
        for row in range(len(found.labels))
    ]
    _append(store, series, at_ms, found.values[:, 0])


def _append(store: Store, series: Sequence[int], at_ms: int, values: NDArray[np.float64]) -> None:
    store.append(np.array(series, np.int64), np.full(len(series), at_ms, np.int64), values)


def _samples_statement(from_ms: int, to_ms: int) -> str:
    """Of what pages ask about, a sample every so often, a little up and down about what was said last."""
    samples = (to_ms - from_ms) // _EVERY_MS - 1
    return (
        "INSERT INTO samples (metric, series, t, v) "
        f"SELECT metric, series, {from_ms} + k * {_EVERY_MS}, "
        "last * (0.97 + cityHash64(series, k) % 100 * 0.0003) "
        "FROM (SELECT metric, series, argMax(v, t) AS last FROM samples "
        f"WHERE metric IN {sql.text_list(_FILLED)} GROUP BY metric, series) "
        f"ARRAY JOIN range(1, {samples}) AS k"
    )


def _tell_steps(engine: Engine, run: RunId, steps: int, end_ms: int) -> None:
    """So many more of every rank, evenly until the end; each as the last one that was told."""
    records = RunRecords(engine)
    positions = [*records.positions(run)]
    span = positions[0].spans[-1]
    each_us = (end_ms * 1000 - span.end_us) // steps
    when = f"start_us + k * {each_us} + cityHash64(rank, k) % 20000"
    columns = (
        "run, step, rank, attempt, n, start_us, us, phases, device, values, samples, tokens, epoch, commit"
    )
    for first in range(1, steps + 1, _STEPS_AT_ONCE):
        some = range(first, min(first + _STEPS_AT_ONCE, steps + 1))
        engine.command(
            f"INSERT INTO run_steps ({columns}) SELECT run, step + k, rank, attempt, n + k, {when}, "
            "us + cityHash64(k, rank) % 200000, phases, device, values, samples, tokens, epoch, commit + k "
            f"FROM run_steps ARRAY JOIN range({some.start}, {some.stop}) AS k "
            f"WHERE run = {sql.text(run)} AND step = {span.last_step}"
        )
    columns = "run, value, step, attempt, t_us, told, total, worst, worst_rank, commit"
    engine.command(
        f"INSERT INTO run_curves ({columns}) "
        f"SELECT run, value, step + k, attempt, t_us + k * {each_us}, told, "
        "total * (1 + 3 / (k + 9)), worst, worst_rank, commit + k FROM run_curves "
        f"ARRAY JOIN range(1, {steps + 1}) AS k WHERE run = {sql.text(run)} AND step = {span.last_step}"
    )
    commit = RunCommit()
    for at in positions:
        last = at.spans[-1]
        more = last._replace(
            last_step=last.last_step + steps,
            records=last.records + steps,
            end_us=end_ms * 1000,
            last_n=last.last_n + steps,
        )
        commit.positions.append(at._replace(spans=(*at.spans[:-1], more)))
    for process in records.processes([run]):
        commit.processes.append(
            dataclasses.replace(
                process, heard_ms=end_ms, step=span.last_step + steps, ended_ms=None, ending=None
            )
        )
    records.commit(commit)


def _book(data: Path, from_ms: int, to_ms: int) -> None:
    """All hours that are over, as the server's keeper does it."""
    first_ms, end_ms = -(-from_ms // HOUR_MS) * HOUR_MS, to_ms // HOUR_MS * HOUR_MS
    store = Store.open(StoreOptions(data_dir=data), upkeep=False)
    try:
        facts = store.ledger_facts
        booking = Booking(facts, LedgerSignals(EmbeddedQueries(store)), KnownLosses(facts, first_ms))
        for computed in booking.hours(first_ms, end_ms, price_book(None), to_ms):
            store.ledger.write_all([computed.hour])
        store.ledger.settle()
    finally:
        store.close()
