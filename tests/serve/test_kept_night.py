"""A night that was watched once, laid into stores so that it ends when it should."""

from __future__ import annotations

import calendar
import time
from typing import TYPE_CHECKING, Any

import pytest

from trilens.ledger.prices.book import default_book
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.serve.rehearsal.kept_night import Night, keep, kept, lay, move_times
from trilens.serve.rehearsal.watched import WatchedWorld
from trilens.serve.rules import rule_groups
from trilens.serve.storage import open_store
from trilens.settings.load import validate
from trilens.simulate.scenario import Scenario
from trilens.simulate.world import World

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3_600_000
BEGIN_MS = 1_768_392_000_000
MINUTES = 20
END_MS = BEGIN_MS + MINUTES * 60_000
STEP = {"data_s": 0.1, "forward_s": 2, "backward_s": 4, "grad_sync_s": 0.4, "optimizer_s": 0.3, "jitter": 1}


def scenario() -> Scenario:
    job: dict[str, Any] = {
        "name": "train", "kind": "PyTorchJob", "namespace": "ml", "team": "vision", "pool": "h100",
        "gpus_per_pod": 4, "arrivals": {"at": [0]}, "pull": 2, "start": 3, "training": STEP,
    }  # fmt: skip
    return Scenario.model_validate(
        {
            "name": "small",
            "pools": [{"name": "h100", "model": "H100", "nodes": 1, "gpus_per_node": 8}],
            "jobs": [job],
            "faults": [{"kind": "hang", "at": "8m", "job": "train", "rank": 2}],
            "collective_timeout": "2h",
            "begins_at": "20h",
        }
    )


def world_from(begin_ms: int) -> World:
    return World(scenario(), start_ms=begin_ms, telling_ranks=8, identity="small")


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder."""
    folder = tmp_path_factory.mktemp("night")
    settings = validate({"storage": {"data_dir": str(folder / "watched")}})
    store = open_store(settings.storage, upkeep=False)
    world = world_from(BEGIN_MS)
    groups = [group for group in rule_groups(settings) if "findings" in str(group.file)]
    pause = range(BEGIN_MS + 11 * 60_000, END_MS - 120_000)
    with WatchedWorld(world, store, "demo", groups, default_book(), lambda at: at not in pause) as watched:
        watched.go_on(END_MS)
    store.close()
    told = world.telling.told_so_far()
    keep(folder / "watched", folder / "kept", Night(BEGIN_MS, END_MS, time.time_ns() // 1000, told))
    return folder / "kept"


def test_what_was_found_is_there_at_another_time(night: Path, tmp_path: Path) -> None:
    known = kept(night)
    assert known is not None
    now_us = time.time_ns() // 1000
    end_ms = now_us // 1000 - 61_234  # no whole number of anything
    by_ms = end_ms - END_MS
    lay(night, known, tmp_path / "data", end_ms, now_us)
    settings = validate({"storage": {"data_dir": str(tmp_path / "data")}})
    store = open_store(settings.storage, upkeep=False)
    try:
        found = store.findings.open()
        finding = next(one for one in found if one.finding.kind == "hang")
        assert finding.finding.subject.rank == 2
        hung_ms = BEGIN_MS + 8 * 60_000 + by_ms
        assert hung_ms - 10_000 < finding.finding.onset_ms < hung_ms + 30_000
        assert finding.detected_ms < hung_ms + 120_000, "it goes on when detectors look again"
        assert finding.seen_ms > end_ms - 90_000
        (incident,) = store.incidents.open()
        assert "train-1 has hung" in incident.title
        assert {moment.t_ms > hung_ms - 10_000 for moment in incident.timeline} == {True}
        assert incident.lost_quanta
        named_ms = calendar.timegm(time.strptime(incident.id[:13], "%Y%m%d-%H%M")) * 1000
        assert abs(incident.detected_ms - named_ms) < 120_000  # it was a whole minute before it was moved
        engine = Engine(store)
        in_pause_ms = END_MS + by_ms - 180_000
        assert len(engine.instant("trilens_finding", in_pause_ms, QueryGuard()).labels)
        for metric in ("DCGM_FI_DEV_GPU_UTIL", "trilens_finding", "kube_pod_info"):
            assert len(engine.instant(metric, end_ms, QueryGuard()).labels), metric
        (run,) = store.runs.runs()
        assert BEGIN_MS + by_ms < run.created_ms < BEGIN_MS + by_ms + 60_000
        (process, *_) = store.runs.processes([run.run])
        assert process.heard_ms == end_ms
        (machine,) = store.machines.unfinished()
        assert machine.from_ms == BEGIN_MS + by_ms
    finally:
        store.close()


def test_ranks_go_on_from_where_they_were_whenever_that_is(night: Path) -> None:
    known = kept(night)
    assert known is not None
    begin_ms = BEGIN_MS + 40 * HOUR_MS + 1_234
    world = world_from(begin_ms)
    world.advance(begin_ms + MINUTES * 60_000)
    world.telling.go_on_from(known.told)
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
