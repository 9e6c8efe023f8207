"""A run that the real W&B wrote without a server; the API against a stand-in: no such server can be had."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from json_stand_in import answering

from trilens.collect.trackers import wandb_files
from trilens.collect.trackers.json_api import JsonApi
from trilens.collect.trackers.wandb_api import WandbProject
from trilens.collect.trackers.wandb_files import WandbFolder
from trilens.collect.trackers.wandb_log import HEADER
from trilens.model.errors import TrackerAway, TrackerError
from trilens.serve.tracker_figures import Known
from trilens.serve.write_back import ToWandb, WriteBack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from trilens.model.tracked_run import TrackerChange

_PROGRAM = """
import sys, wandb
run = wandb.init(project="llm", name="first try", id="abc123", mode="offline", dir=sys.argv[1],
                 config={"lr": 0.1, "layers": [1, 2], "optimizer": "adam"},
                 settings=wandb.Settings(x_disable_stats=True))
for step in range(40):
    odd = float("nan") if step == 3 else step
    run.log({"loss": 1 / (step + 1), "odd": odd, "deep": {"er": 1}, "word": "x" * 2000})
run.summary["best"] = 0.2
run.finish()
"""


@pytest.fixture(scope="module")
def offline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wandb")
    command = [sys.executable, "-c", _PROGRAM, str(folder)]
    environment = {**_clean(), "WANDB_SILENT": "true"}
    subprocess.run(command, check=True, capture_output=True, timeout=120, env=environment)
    return folder


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}


def changes(folder: Path, cursors: dict[str, str] | None = None) -> list[TrackerChange]:
    return [*WandbFolder(folder).changes(cursors or {})]


def values(found: list[TrackerChange], metric: str) -> list[float]:
    return [point.value for change in found for point in change.points if point.metric == metric]


def test_a_real_offline_run_is_read(offline: Path) -> None:
    found = changes(offline)
    run = found[-1].run
    assert (run.tracker.run, run.experiment, run.name, run.state) == (
        "abc123",
        "llm",
        "first try",
        "finished",
    )
    assert run.params == {"lr": "0.1", "layers": "[1,2]", "optimizer": "adam"}
    assert run.step == 39
    assert run.metrics["best"] == 0.2
    assert run.started_ms is not None
    assert values(found, "loss") == [1 / (step + 1) for step in range(40)]
    assert math.isnan(values(found, "odd")[3])
    assert values(found, "deep.er") == [1.0] * 40
    assert values(found, "word") == []


def test_goes_on_in_the_middle_of_a_record_that_spans_blocks(offline: Path, tmp_path: Path) -> None:
    [file] = offline.rglob("run-*.wandb")
    whole = file.read_bytes()
    assert len(whole) > 65_536, "records that are cut at the end of a block are what this is about"
    growing = tmp_path / file.name
    cursors: dict[str, str] = {}
    seen: list[float] = []
    for size in (5, 7, 3000, 32_768, 40_001, 65_539, len(whole)):
        growing.write_bytes(whole[:size])
        found = changes(tmp_path, cursors)  # a new reader each time, as after a restart
        seen += values(found, "loss")
        cursors |= {change.run.tracker.run: change.cursor for change in found}
    assert seen == [1 / (step + 1) for step in range(40)]


def test_a_run_that_is_not_over_is_running(offline: Path, tmp_path: Path) -> None:
    [file] = offline.rglob("run-*.wandb")
    (tmp_path / file.name).write_bytes(file.read_bytes()[:40_000])
    assert changes(tmp_path)[-1].run.state == "running"


def test_a_damaged_file_does_not_keep_the_others_from_being_read(
    offline: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    [file] = offline.rglob("run-*.wandb")
    damaged = bytearray(file.read_bytes())
    damaged[200] ^= 1
    (tmp_path / "run-a.wandb").write_bytes(damaged)
    (tmp_path / "run-b.wandb").write_bytes(b"not a run")
    (tmp_path / file.name).write_bytes(file.read_bytes())
    folder = WandbFolder(tmp_path)
    assert len(values([*folder.changes({})], "loss")) >= 40
    assert not any([*folder.changes({"abc123": changes(tmp_path)[-1].cursor})])
    said = [getattr(record, "error", "") for record in caplog.records]
    assert ["damaged record" in one for one in said[:2]].count(True) == 1
    assert ["does not begin" in one for one in said[:2]].count(True) == 1
    assert len(said) == 4, "once by each of the two who read"


def test_what_comes_before_a_damage_is_read(offline: Path, tmp_path: Path) -> None:
    [file] = offline.rglob("run-*.wandb")
    damaged = bytearray(file.read_bytes())
    damaged[-2000] ^= 1
    (tmp_path / file.name).write_bytes(damaged)
    assert 30 < len(values(changes(tmp_path), "loss")) <= 40


def test_a_run_that_was_resumed_has_two_files_and_all_points_of_both(offline: Path, tmp_path: Path) -> None:
    [file] = offline.rglob("run-*.wandb")
    cursors: dict[str, str] = {}
    seen: list[float] = []
    for folder in ("offline-run-1-abc123", "offline-run-2-abc123"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file.name).write_bytes(file.read_bytes())
        found = changes(tmp_path, cursors)
        seen += values(found, "loss")
        cursors |= {change.run.tracker.run: change.cursor for change in found}
    assert len(seen) == 80
    assert changes(tmp_path, cursors) == []


class Reads:
    """Where files were begun to be read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._at: list[tuple[Path, int]] = []
        read = wandb_files._read

        def noted(file: Path, at: int) -> Any:
            self._at.append((file, at))
            return read(file, at)

        monkeypatch.setattr(wandb_files, "_read", noted)

    def since(self) -> list[tuple[Path, int]]:
        """Of each file the first, since this was last asked."""
        at, self._at = self._at, []
        return [*dict(reversed(at)).items()][::-1]


class Followed:
    """A folder and its reader, as the server goes through it again and again."""

    def __init__(self, folder: Path) -> None:
        self._reader = WandbFolder(folder)
        self.cursors: dict[str, str] = {}

    def once(self) -> list[TrackerChange]:
        found: list[TrackerChange] = []
        for change in self._reader.changes(self.cursors):
            self.cursors[change.run.tracker.run] = change.cursor
            found.append(change)
        return found


def made_long_ago(file: Path, content: bytes, days: float) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content)
    at_s = time.time() - days * 86_400
    os.utime(file, (at_s, at_s))


BEGIN = len(HEADER)


def test_a_run_that_did_not_change_for_a_day_is_let_go_and_whole_when_it_goes_on(
    offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = offline.rglob("run-*.wandb")
    whole, reads, followed = file.read_bytes(), Reads(monkeypatch), Followed(tmp_path)
    first, second = (tmp_path / name / file.name for name in ("run-1", "run-2"))
    made_long_ago(first, whole, 2)
    made_long_ago(second, whole[:40_000], 0.9)
    seen = values(followed.once(), "loss")
    assert reads.since() == [(first, BEGIN), (second, BEGIN)]
    made_long_ago(second, whole[:50_000], 0.9)
    seen += values(followed.once(), "loss")
    [(grown, at)] = reads.since()
    assert (grown, at > BEGIN) == (second, True)
    made_long_ago(second, whole[:50_000], 1.1)
    assert (followed.once(), reads.since()) == ([], [])
    made_long_ago(second, whole, 0)
    found = followed.once()
    assert reads.since() == [(first, BEGIN), (second, BEGIN)]
    assert found[-1].run.params == {"lr": "0.1", "layers": "[1,2]", "optimizer": "adam"}
    assert seen + values(found, "loss") == [1 / (step + 1) for step in range(40)] * 2


def test_what_has_not_changed_is_not_read_after_a_restart(
    offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = offline.rglob("run-*.wandb")
    (tmp_path / file.name).write_bytes(file.read_bytes())
    followed = Followed(tmp_path)
    followed.once()
    reads = Reads(monkeypatch)
    assert changes(tmp_path, followed.cursors) == []
    assert reads.since() == []


def test_a_file_that_is_gone_is_forgotten(
    offline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [file] = offline.rglob("run-*.wandb")
    whole, there = file.read_bytes(), tmp_path / file.name
    there.write_bytes(whole[:40_000])
    followed = Followed(tmp_path)
    followed.once()
    there.unlink()
    assert followed.once() == []
    there.write_bytes(whole)
    reads = Reads(monkeypatch)
    assert followed.once()[-1].run.params["lr"] == "0.1"
    assert reads.since() == [(there, BEGIN)]


def test_what_nobody_took_is_told_again(offline: Path) -> None:
    """The store may take nothing just then."""
    reader = WandbFolder(offline)
    refused = next(iter(reader.changes({})))
    assert next(iter(reader.changes({}))) == refused


def repr_start(value: object) -> str:
    return repr(value)[:9]


def _loss(step: int) -> float | str:
    return "NaN" if step == 7 else step


class Graphql:
    """Answers as W&B does, as far as it is asked here."""

    def __init__(self) -> None:
        self.summary: dict[str, Any] = {"loss": 0.5, "_step": 1500, "_timestamp": 1.0}
        self.last_step = 1500
        self.writes = 0
        self.asked_for_history = 0
        self.asked_for_summary = 0

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        asked, variables = body["query"], body["variables"]
        if "UpsertBucket" in asked:
            self.summary = json.loads(variables["summaryMetrics"])
            self.writes += 1
            return {"data": {"upsertBucket": {"bucket": {"id": variables["id"]}}}}
        if variables["project"] != "llm":
            return {"data": {"project": None}}
        if "HistoryPage" in asked:
            self.asked_for_history += 1
            asked_for = range(variables["minStep"], variables["maxStep"])
            logged = [step for step in sorted({*range(1501), self.last_step}) if step in asked_for]
            logged = logged[:: -(-len(logged) // variables["pageSize"]) or 1]  # of too many, a sample
            rows = [{"_step": step, "_timestamp": 10.0 + step, "loss": _loss(step)} for step in logged]
            return {"data": {"project": {"run": {"history": [json.dumps(row) for row in rows]}}}}
        node = {
            "id": "node-1",
            "name": "abc",
            "displayName": "first",
            "state": "finished",
            "config": json.dumps({"lr": {"value": 0.1, "desc": None}, "_wandb": {"value": {}}}),
            "summaryMetrics": json.dumps(self.summary),
            "tags": ["big"],
            "createdAt": "2026-01-01T00:00:00",
            "heartbeatAt": "2026-01-01T01:00:00Z",
            "user": {"username": "ada"},
        }
        if "query Summary" in asked:
            self.asked_for_summary += 1
            return {"data": {"project": {"run": node}}}
        page = {"edges": [{"node": node}], "pageInfo": {"endCursor": "c", "hasNextPage": False}}
        return {"data": {"project": {"runs": page}}}


@pytest.fixture
def graphql() -> Iterator[tuple[Graphql, str]]:
    api = Graphql()
    with answering(lambda _path, body: api.answer(body)) as url:
        yield api, url


def test_runs_and_their_whole_history_come_from_the_api(graphql: tuple[Graphql, str]) -> None:
    _, url = graphql
    project = WandbProject(JsonApi(url, dict, False, 5), "team/llm")
    found = [*project.changes({})]
    run = found[-1].run
    assert (run.name, run.state, run.user, run.params) == ("first", "finished", "ada", {"lr": "0.1"})
    assert (run.ended_ms or 0) - (run.started_ms or 0) == 3_600_000
    losses = values(found, "loss")
    assert len(losses) == 1501
    assert math.isnan(losses[7])
    assert [*project.changes({"abc": found[-1].cursor})] == []


FIGURES: dict[str, float | str] = {
    "trilens.gpu_hours": 2.5,
    "trilens.cost": 10.25,
    "trilens.cost_currency": "USD",
    "trilens.provisional": "false",
    "trilens.verdict": "rank-raised: rank 3 raised first, the others fell for want of it",
    "trilens.verdict_confidence": 0.95,
    "trilens.verdict_fix": "1. Read its traceback. 2. Start again from the last checkpoint.",
}


def test_figures_are_added_to_the_summary(graphql: tuple[Graphql, str]) -> None:
    api, url = graphql
    api.summary["trilens.run"] = "r-1"  # as its program said there
    before = dict(api.summary)
    project = WandbProject(JsonApi(url, dict, False, 5), "team/llm")
    [*_, change] = project.changes({})
    assert change.run.tags["trilens.run"] == "r-1"
    for _ in range(2):  # the second as after a restart
        write_back = WriteBack(lambda _run: Known(FIGURES, None), ToWandb(project))
        assert write_back.write(change.run)
    assert api.summary == {**before, **FIGURES}
    assert api.writes == 1
    [*_, change] = project.changes({})
    asked = api.asked_for_summary
    assert WriteBack(lambda _run: Known(FIGURES, None), ToWandb(project)).write(change.run)
    assert api.asked_for_summary == asked, "the run that was read says so already"
    without = {"trilens.gpu_hours": 2.5}
    write_back = WriteBack(lambda _run: Known(without, None), ToWandb(project))
    assert write_back.write(change.run)
    assert api.summary == {**before, **FIGURES}, "it ended long ago, and all of it was written"
    lately = replace(change.run, ended_ms=time.time_ns() // 1_000_000)
    assert write_back.write(lately)
    assert api.summary == {**before, **without}, "what is not known any more is taken back"


def test_a_run_that_goes_on_keeps_its_summary_to_itself(graphql: tuple[Graphql, str]) -> None:
    api, url = graphql
    project = WandbProject(JsonApi(url, dict, False, 5), "team/llm")
    [*_, change] = project.changes({})
    write_back = WriteBack(lambda _run: Known(FIGURES, None), ToWandb(project))
    assert not write_back.write(replace(change.run, state="running"))
    assert api.writes == 0
    assert write_back.write(change.run), "the same figures, but it is over now"
    assert api.writes == 1


def test_steps_that_are_counted_in_tokens_do_not_take_a_request_for_every_thousand(
    graphql: tuple[Graphql, str],
) -> None:
    api, url = graphql
    api.last_step = api.summary["_step"] = 10**12
    found = [*WandbProject(JsonApi(url, dict, False, 5), "team/llm").changes({})]
    assert [point.step for change in found for point in change.points] == [*range(1501), 10**12]
    assert api.asked_for_history < 30


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), "x", [1], None, 10**400], ids=repr_start)
def test_a_step_that_is_none_does_not_keep_the_project_from_being_read(
    graphql: tuple[Graphql, str], odd: object
) -> None:
    api, url = graphql
    api.summary = {"_step": odd, "loss": 10**400}
    [change] = WandbProject(JsonApi(url, dict, False, 5), "team/llm").changes({})
    assert (change.run.step, change.run.metrics) == (None, {"loss": math.inf})


def test_who_does_not_answer_is_told_from_a_run_that_cannot_be_read(graphql: tuple[Graphql, str]) -> None:
    with pytest.raises(TrackerAway, match="no answer from"):
        [*WandbProject(JsonApi("http://127.0.0.1:1", dict, False, 5), "team/llm").changes({})]


def test_a_project_that_is_not_there_is_said(graphql: tuple[Graphql, str]) -> None:
    _, url = graphql
    with pytest.raises(TrackerError, match="there is no project"):
        [*WandbProject(JsonApi(url, dict, False, 5), "team/other").changes({})]
