"""What is found is told: as series, to the log of findings, to whoever listens, and over the API."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from memory_api import Api, running
from memory_findings import MemoryFindings
from scenes import START_MS, Story
from trilens.cli.finding_text import show_findings
from trilens.detect.detectors import DETECTORS, all_detectors
from trilens.detect.stall import Stall
from trilens.detect.watch import Watch
from trilens.model.errors import StoreError
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.serve.detection.keeper import DetectionKeeper
from trilens.store.options import StoreOptions
from trilens.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.detect.scene import Scene
    from trilens.detect.watch import Changes


class Told:
    """Scenes of a story, at the times of its clock."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self.now_ms = START_MS
        self.trouble: dict[str, str] = {}

    def take_up(self) -> None:
        pass

    def scene(self, now_ms: int) -> Scene:
        return self._story.scene((now_ms - START_MS) / 1000)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = Store.open(StoreOptions(tmp_path_factory.mktemp("data")), upkeep=False)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def stalled() -> Story:
    story = Story(ranks=4, name="stalled", seconds=900)
    story.pause(at_s=300, for_s=60)
    for rank in range(4):
        story.says(rank, "data" if rank == 2 else "grad_sync", 300, 360)
    return story


def _keeper(told: Told, findings: Any, store: Store | None) -> DetectionKeeper:
    return DetectionKeeper(told, Watch([Stall()]), findings, store, clock_ms=lambda: told.now_ms)


def _look(keeper: DetectionKeeper, told: Told, from_s: int, to_s: int) -> list[Changes]:
    found = []
    for at_s in range(from_s, to_s + 1, 5):
        told.now_ms = START_MS + at_s * 1000
        found.append(keeper.look())
    return found


def _series(store: Store, query: str, at_s: float) -> list[tuple[dict[str, str], float]]:
    answer = Engine(store).instant(query, START_MS + round(at_s * 1000), QueryGuard())
    rows = range(len(answer.labels))
    return [(dict(answer.labels.labels(row)), float(answer.values[row, 0])) for row in rows]


def test_a_finding_is_a_series_while_it_lasts(store: Store, stalled: Story) -> None:
    told, findings = Told(stalled), MemoryFindings()
    keeper = _keeper(told, findings, store)
    heard: list[Changes] = []
    keeper.listen(lambda _scene, changes: heard.append(changes))
    keeper.take_up()
    _look(keeper, told, 100, 340)
    ((labels, value),) = _series(store, "trilens_finding", 340)
    assert value == 1
    expected = {
        "__name__": "trilens_finding",
        "code": "D001",
        "finding": "stall",
        "cause": "data",
        "severity": "critical",
        "cluster": "c1",
        "namespace": "ml",
        "workload": "stalled",
        "kind": "PyTorchJob",
        "team": "research",
        "run": "run-stalled",
        "rank": "2",
        "pod": "stalled-worker-0",
        "node": "node-0",
        "gpu": "2",
        "UUID": "GPU-stalled-2",
    }
    id = labels.pop("id")
    assert labels == expected
    ((known, _),) = _series(store, "trilens_finding_info", 340)
    del expected["finding"], expected["severity"]
    assert known == {**expected, "__name__": "trilens_finding_info", "id": id}
    ((_, onset_s),) = _series(store, "trilens_finding_onset_timestamp_seconds", 340)
    assert abs(onset_s - (START_MS / 1000 + 300)) < 5
    ((_, confidence),) = _series(store, "trilens_finding_confidence_ratio", 340)
    assert 0.5 < confidence <= 1
    assert next(family.name for family in keeper.metrics()) == "trilens_finding"
    assert len(findings.open()) == 1
    _look(keeper, told, 345, 400)
    assert not _series(store, "trilens_finding", 401)
    (kept,) = findings.during(START_MS, START_MS + 10_000_000)
    assert kept.ended_ms is not None
    assert not findings.open()
    assert sum(len(changes.opened) for changes in heard) == 1
    assert sum(len(changes.ended) for changes in heard) == 1


def test_a_restart_goes_on_with_what_lasted_and_ends_its_series(store: Store) -> None:
    story = Story(ranks=2, name="again", seconds=900)
    story.stop(at_s=300)
    told, findings = Told(story), MemoryFindings()
    first = _keeper(told, findings, store)
    first.take_up()
    _look(first, told, 100, 400)
    (before,) = findings.open()
    assert _series(store, 'trilens_finding{workload="again"}', 400)
    calm = Told(Story(ranks=2, name="again", seconds=900))
    calm.now_ms = START_MS + 410_000
    second = _keeper(calm, findings, store)
    second.take_up()
    _look(second, calm, 410, 415)
    assert [one.detected_ms for one in second.state.open] == [before.detected_ms]
    _look(second, calm, 420, 510)
    assert not _series(store, 'trilens_finding{workload="again"}', 511)
    assert not findings.open()


def test_what_cannot_be_kept_is_told_again(stalled: Story) -> None:
    class Full(MemoryFindings):
        is_full = True

        def put(self, intervals: Any) -> None:
            if self.is_full:
                raise StoreError("the disk is full")
            super().put(intervals)

    findings = Full()
    told = Told(stalled)
    keeper = _keeper(told, findings, None)
    keeper.take_up()
    _look(keeper, told, 100, 320)
    assert keeper.state.open
    findings.is_full = False
    _look(keeper, told, 325, 325)
    assert len(findings.open()) == 1


def test_it_looks_by_itself_until_it_is_stopped(stalled: Story) -> None:
    looked = threading.Event()
    keeper = _keeper(Told(stalled), MemoryFindings(), None)
    keeper.listen(lambda _scene, _changes: looked.set())

    def fail(_scene: Any, _changes: Any) -> None:
        raise RuntimeError("a defect of who listens")

    keeper.listen(fail)
    keeper.start()
    assert looked.wait(20)
    keeper.stop()
    assert keeper.state.looked_ms == START_MS
    names = {family.name for family in keeper.own_metrics()}
    assert {"trilens_detection_rounds", "trilens_findings_open"} <= names


@pytest.fixture(scope="module")
def api(stalled: Story) -> Iterator[tuple[Api, str]]:
    told, findings = Told(stalled), MemoryFindings()
    keeper = _keeper(told, findings, None)
    keeper.take_up()
    _look(keeper, told, 100, 400)
    other = Story(ranks=1, name="other", seconds=900)
    other.stop(at_s=500)
    told._story = other
    _look(keeper, told, 405, 600)
    made = Api(detection=keeper.state, findings=findings, now_ms=lambda: START_MS + 600_000)
    with running(made.build()) as url:
        yield made, url


def _asked(url: str, **params: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/api/findings", params=params)
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


def test_the_api_tells_what_lasts_and_what_is_over(api: tuple[Api, str]) -> None:
    _, url = api
    (now,) = _asked(url)
    assert (now["workload"]["name"], now["ended_ms"], now["code"]) == ("other", None, "D001")
    assert now["evidence"]
    assert now["action"]
    every = _asked(url, all="true")
    assert [one["workload"]["name"] for one in every] == ["other", "stalled"]
    assert every[1]["rank"] == 2
    assert every[1]["ended_ms"] is not None
    assert len(_asked(url, all="true", workload="stalled")) == 1
    assert not _asked(url, severity="info")
    assert not _asked(url, all="true", node="elsewhere")
    refused = httpx.get(f"{url}/api/findings", params={"from": "2000000000", "to": "1000000000"})
    assert refused.status_code == 400


def test_people_read_what_is_wrong_since_when_and_what_to_do(
    api: tuple[Api, str], capsys: pytest.CaptureFixture[str]
) -> None:
    show_findings(_asked(api[1], all="true"))
    text = capsys.readouterr().out
    assert "critical  D001 stall (data)" in text
    assert "do:   " in text
    assert " until " in text


def test_the_codes_of_detectors_are_their_own() -> None:
    codes = [one.code for one in all_detectors()]
    assert len(codes) == len(set(codes)) == len(DETECTORS)
    assert codes == sorted(codes)
