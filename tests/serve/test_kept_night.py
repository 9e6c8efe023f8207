"""A night that was watched once, laid into stores so that it ends when it should."""

from __future__ import annotations

import calendar
import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from trilens.ledger.prices.book import default_book
from trilens.model.flight_recorder import read_flight_recorder
from trilens.model.incident import MomentKind
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.serve.rehearsal import kept_night
from trilens.serve.rehearsal.bill import book
from trilens.serve.rehearsal.kept_night import TOLD, Moment, Night, keep, keep_moment, kept
from trilens.serve.rehearsal.laid_night import Laying, lay, lay_rest
from trilens.serve.rehearsal.moved_times import move_times
from trilens.serve.rehearsal.watched import WatchedWorld
from trilens.serve.rules import rule_groups
from trilens.serve.storage import open_store
from trilens.settings.load import validate
from trilens.simulate.scenario import Scenario
from trilens.simulate.world import World

if TYPE_CHECKING:
    from pathlib import Path

    from trilens.simulate.truth import Truth

HOUR_MS = 3_600_000
BEGIN_MS = 1_768_392_000_000
MINUTES = 24
END_MS = BEGIN_MS + MINUTES * 60_000
MOMENTS_MS = tuple(BEGIN_MS + minutes * 60_000 for minutes in (12, 20, MINUTES))
STEP = {"data_s": 0.1, "forward_s": 2, "backward_s": 4, "grad_sync_s": 0.4, "optimizer_s": 0.3, "jitter": 1}
TRAINING = {**STEP, "flight_recorder": True}


def scenario() -> Scenario:
    job: dict[str, Any] = {
        "name": "train", "kind": "PyTorchJob", "namespace": "ml", "team": "vision", "pool": "h100",
        "gpus_per_pod": 4, "arrivals": {"at": [0]}, "pull": 2, "start": 3, "training": TRAINING,
    }  # fmt: skip
    return Scenario.model_validate(
        {
            "name": "small",
            "pools": [{"name": "h100", "model": "H100", "nodes": 1, "gpus_per_node": 8}],
            "jobs": [job, {**job, "name": "hot"}],
            "faults": [
                {"kind": "hang", "at": "8m", "job": "train", "rank": 2},
                {"kind": "thermal", "at": "7m", "lasts": "4m", "job": "hot", "rank": 0, "factor": 1.6},
            ],
            "collective_timeout": "2h",
            "begins_at": "20h",
        }
    )


def world_from(begin_ms: int) -> World:
    return World(scenario(), start_ms=begin_ms, telling_ranks=8, identity="small")


class HiddenTruth:
    """That of a simulator, which only its own parts may ask."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth

    def __getattr__(self, name: str) -> Any:
        who = sys._getframe(1).f_globals["__name__"]
        assert who.startswith("trilens.simulate."), f"{who} asks for what it should find"
        return getattr(self._truth, name)


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder."""
    folder = tmp_path_factory.mktemp("night")
    settings = validate({"storage": {"data_dir": str(folder / "watched")}})
    store = open_store(settings.storage, upkeep=False)
    world = world_from(BEGIN_MS)
    world.truth = HiddenTruth(world.truth)  # type: ignore[assignment]
    few = ("findings", "thresholds")
    groups = [group for group in rule_groups(settings) if any(name in str(group.file) for name in few)]
    pause = range(BEGIN_MS + 10 * 60_000, END_MS - 240_000)  # with one glance in it
    moments = []
    with WatchedWorld(world, store, "demo", groups, default_book(), lambda at: at not in pause) as watched:
        for at_ms in MOMENTS_MS:
            watched.go_on(at_ms)
            watched.settle()
            assert store.records_settled(60)
            moments.append(Moment(at_ms, time.time_ns() // 1000))
            keep_moment(store.engine, folder / "kept", moments[-1], world.telling.told_so_far())
        book(world, store, default_book(), BEGIN_MS, lambda _: None, open_ms=60_000)
        book(world, store, default_book(), BEGIN_MS, lambda _: None)
    store.close()
    keep(folder / "watched", folder / "kept", Night(BEGIN_MS, time.time_ns() // 1000, tuple(moments)))
    return folder / "kept"


def laying_at(night: Path, into_ms: int) -> Laying:
    """As of a moment so long after the night began, days later."""
    known = kept(night)
    assert known is not None
    days = (time.time_ns() // 1_000_000 - BEGIN_MS) // (24 * HOUR_MS)
    return Laying(night, known, 1000 * (BEGIN_MS + days * 24 * HOUR_MS + into_ms))


def test_it_is_moved_by_whole_hours_and_left_at_the_last_moment(night: Path) -> None:
    laying = laying_at(night, 23 * 60_000 + 1_234)
    assert laying.by_ms % HOUR_MS == 0
    assert laying.moment.at_ms == MOMENTS_MS[1]
    assert laying.shift.end_ms == BEGIN_MS + 23 * 60_000 + 1_234
    assert laying_at(night, MINUTES * 60_000).moment.at_ms == MOMENTS_MS[2]
    assert laying_at(night, 70 * 60_000).moment.at_ms == MOMENTS_MS[2], "of the hour that it may end in"


def test_what_was_found_is_there_at_another_time(night: Path, tmp_path: Path) -> None:
    laying = laying_at(night, 23 * 60_000 + 1_234)
    by_ms, end_ms = laying.by_ms, laying.now_us // 1000
    lay(laying, tmp_path / "data")
    settings = validate({"storage": {"data_dir": str(tmp_path / "data")}})
    store = open_store(settings.storage, upkeep=False)
    try:
        found = store.findings.open()
        finding = next(one for one in found if one.finding.kind == "hang")
        assert finding.finding.subject.rank == 2
        hung_ms = BEGIN_MS + 8 * 60_000 + by_ms
        assert hung_ms - 10_000 < finding.finding.onset_ms < hung_ms + 30_000
        assert finding.detected_ms < hung_ms + 120_000, "it goes on when detectors look again"
        assert MOMENTS_MS[1] + by_ms - 180_000 < finding.seen_ms <= MOMENTS_MS[1] + by_ms
        incident = next(one for one in store.incidents.open() if one.subject.workload.name == "train-1")
        assert "train-1 has hung" in incident.title
        assert {moment.t_ms > hung_ms - 10_000 for moment in incident.timeline} == {True}
        assert incident.lost_quanta
        named_ms = calendar.timegm(time.strptime(incident.id[:13], "%Y%m%d-%H%M")) * 1000
        assert abs(incident.detected_ms - named_ms) < 120_000  # it was a whole minute before it was moved
        run = next(one for one in store.runs.runs() if one.run == finding.finding.subject.run)
        assert BEGIN_MS + by_ms < run.created_ms < BEGIN_MS + by_ms + 60_000
        (process, *_) = store.runs.processes([run.run])
        assert process.heard_ms == MOMENTS_MS[1] + by_ms
        recorded = [one for one in store.runs.artifacts(run.run) if one.kind == "flight-recorder"]
        (dump, *_) = store.runs.artifact_files(run.run, recorded)
        (last, *_) = reversed(read_flight_recorder(dump.content).entries)
        assert last.created_ns is not None
        assert hung_ms - 10_000 < last.created_ns // 1_000_000 < hung_ms + 30_000
        (machine,) = store.machines.unfinished()
        assert machine.from_ms == BEGIN_MS + by_ms
        (hour,) = store.ledger.hours(BEGIN_MS + by_ms, BEGIN_MS + by_ms + HOUR_MS)
        assert hour.upto_ms == END_MS + by_ms
        assert hour.computed_ms <= end_ms, "else a server would compute it anew"
        assert store.ledger.incomplete(BEGIN_MS + by_ms, end_ms) == [], "its rows are there"
    finally:
        store.close()


def test_what_lasts_through_a_pause_is_one_finding_and_what_is_over_ends_at_the_next_glance(
    night: Path, tmp_path: Path
) -> None:
    laying = laying_at(night, 23 * 60_000)
    lay(laying, tmp_path / "data")
    store = open_store(validate({"storage": {"data_dir": str(tmp_path / "data")}}).storage, upkeep=False)
    try:
        found = store.findings.during(BEGIN_MS + laying.by_ms, laying.now_us // 1000)
        (hang,) = (one for one in found if one.finding.kind == "hang")
        (hot,) = (one for one in found if one.finding.kind == "throttling")
        assert hang.ended_ms is None
        assert hot.ended_ms is not None
        incident = next(one for one in store.incidents.open() if one.subject.workload.name == "train-1")
        assert MomentKind.LEFT not in {moment.kind for moment in incident.timeline}
        assert not [moment.text for moment in incident.timeline if moment.text.startswith("again")]
    finally:
        store.close()


def test_samples_end_with_the_night_and_rules_may_go_on_at_once(night: Path, tmp_path: Path) -> None:
    laying = laying_at(night, 23 * 60_000 + 1_234)
    end_ms = laying.now_us // 1000
    lay(laying, tmp_path / "data")
    store = open_store(validate({"storage": {"data_dir": str(tmp_path / "data")}}).storage, upkeep=False)
    try:
        engine = Engine(store)
        in_pause_ms = BEGIN_MS + laying.by_ms + 14 * 60_000
        assert len(engine.instant("trilens_finding", in_pause_ms, QueryGuard()).labels)
        for metric in ("DCGM_FI_DEV_GPU_UTIL", "trilens_finding", "kube_pod_info"):
            assert len(engine.instant(metric, end_ms, QueryGuard()).labels), metric
        last = engine.instant("max(timestamp(DCGM_FI_DEV_GPU_UTIL))", end_ms + 60_000, QueryGuard())
        assert end_ms - 30_000 < 1000 * last.values[0, 0] <= end_ms
        recorded = "trilens:threshold"
        assert len(engine.instant(recorded, end_ms - 1, QueryGuard()).labels)
        assert not len(engine.instant(recorded, end_ms, QueryGuard()).labels), "or two would tell the same"
    finally:
        store.close()


def test_the_rest_is_laid_while_the_store_is_used(
    night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_night, "_RECENT_MS", 8 * 60_000)
    halved = tmp_path / "halved"
    shutil.copytree(night, halved)
    known = kept(night)
    assert known is not None
    keep(night.parent / "watched", halved, known)
    laying = laying_at(halved, 23 * 60_000)
    recent_ms = laying.night.recent_ms + laying.by_ms
    lay(laying, tmp_path / "data")
    store = open_store(validate({"storage": {"data_dir": str(tmp_path / "data")}}).storage)
    try:
        engine = Engine(store)
        counted = "count_over_time(DCGM_FI_DEV_GPU_TEMP[1h])"

        def samples(at_ms: int) -> float:
            found = engine.instant(counted, at_ms, QueryGuard())
            return float(found.values.sum())

        recent = samples(laying.now_us // 1000)
        assert samples(recent_ms) == 0
        lay_rest(laying, store)
        older = samples(recent_ms)
        assert older > 0
        assert samples(laying.now_us // 1000) == recent + older, "what was read before is not all"
        assert store.engine.query_arrow("SELECT count() AS n FROM run_batches")["n"][0].as_py() > 0
    finally:
        store.close()


def test_ranks_go_on_from_where_they_were_whenever_that_is(night: Path) -> None:
    laying = laying_at(night, 21 * 60_000)
    begin_ms = BEGIN_MS + 40 * HOUR_MS + 1_234
    world = world_from(begin_ms)
    world.advance(begin_ms + laying.moment.at_ms - BEGIN_MS)
    told = json.loads((night / laying.moment.folder / TOLD).read_bytes())["told"]
    world.telling.go_on_from(told)
    assert world.telling.ranks
    for rank in world.telling.ranks.values():
        sending = rank.next(world.now_ms, 5.0)
        assert sending is not None
        assert sending.line["seq"] is None, "there is nothing that was not told"
        assert "steps" not in sending.line


def test_no_folder_is_no_night(tmp_path: Path) -> None:
    assert kept(tmp_path) is None
    (tmp_path / "night.json").write_text('{"begin_ms": 1', "utf-8")
    assert kept(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ('{"onset_ms":1768392000000}', '{"onset_ms":1768392001000}'),
        ("[[0,1,1768392000000000,5]]", "[[0,1,1768392001000000,5]]"),
        ('{"lost_quanta":1768392000000}', '{"lost_quanta":1768392000000}'),
        ("since 2026-01-14T12:00:00Z", "since 2026-01-14T12:00:01Z"),
        ('"20260114-1200-a999"', '"20260114-1200-a999"'),
        ("0.1768392000000", "0.1768392000000"),
    ],
)
def test_times_in_texts_move_and_nothing_else_does(text: str, moved: str) -> None:
    assert move_times(text, 1_000) == moved
