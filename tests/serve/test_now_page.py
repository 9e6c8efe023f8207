"""/api/now over HTTP: what the page that people see first is made of."""

from __future__ import annotations

import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from empty_records import NoRecords
from ledger_nights import NIGHT_MS, a_night, holder, hour, row, workload
from memory_api import Api, running
from memory_book import MemoryBook
from trilens.model.finding import Severity, Subject
from trilens.model.gpu import Gpu, GpuKey
from trilens.model.incident import Incident, IncidentState
from trilens.model.ledger import HOUR_MS, Basis, Bucket, as_quanta
from trilens.model.workload import GpuUuid
from trilens.resolve.gpus.missing import NodeGpus
from trilens.serve.app import build_app
from trilens.serve.gpu_bindings import GpusNow
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.now import NowApi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trilens.model.ledger import LedgerHour
    from trilens.model.ledger_sums import BookedHour, Episode, Window

    Ask = Callable[..., Any]

NOW_MS = NIGHT_MS + 6 * HOUR_MS - 60_000  # the end of the last hour of the night
DAY_MS = 24 * HOUR_MS


@dataclass
class Told:
    """Incidents, and GPUs that somebody looks at."""

    incidents: list[Incident] = field(default_factory=list)
    now: GpusNow = field(default_factory=GpusNow)

    def open(self) -> Sequence[Incident]:
        return [one for one in self.incidents if one.resolved_ms is None]

    def acknowledge(self, id: str, by: str) -> Incident:
        raise NotImplementedError

    def get(self, id: str, *, guard: Any = None) -> Incident | None:
        raise NotImplementedError

    def during(self, from_ms: int, to_ms: int, *, limit: int | None = None, guard: Any = None) -> Any:
        return [one for one in self.incidents if one.onset_ms < to_ms]


@contextmanager
def asking(
    hours: Sequence[LedgerHour],
    told: Told,
    now_ms: int = NOW_MS,
    book: MemoryBook | None = None,
    clock_s: Callable[[], float] = time.monotonic,
) -> Iterator[Ask]:
    api = Api(book=book or MemoryBook(*hours), now_ms=lambda: now_ms)
    nobody: Any = NoRecords()
    now = NowApi(
        api.book,
        api.facts,
        told,
        told,
        told,
        nobody,
        api.questions,
        clock_s,  # type: ignore[arg-type]
    )
    app = build_app(replace(api.parts(), pages=PageApis([now])))
    with running(app) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield lambda **params: client.get("/api/now", params=params).raise_for_status().json()["data"]


def incident(id: str, severity: Severity, lost: int | None, **more: Any) -> Incident:
    stalled = Subject(workload("vision-finetune-1"), "vision")
    return Incident(
        id,
        IncidentState.OPEN,
        severity,
        f"title of {id}",
        stalled,
        ("ml/PyTorchJob/vision-finetune-1",),
        (),
        (),
        NIGHT_MS + HOUR_MS,
        NIGHT_MS + HOUR_MS,
        lost_quanta=as_quanta(Decimal(lost)) if lost is not None else None,
        currency="USD" if lost is not None else None,
        **more,
    )


@pytest.fixture(scope="module")
def night() -> Iterator[dict[str, Any]]:
    told = Told(
        [
            incident("slow", Severity.WARNING, 900),
            incident("small", Severity.CRITICAL, 5),
            incident("stalled", Severity.CRITICAL, 1_228),
            incident("unpriced", Severity.CRITICAL, None),
            incident("over", Severity.CRITICAL, 7, resolved_ms=NOW_MS - 1),
        ],
        GpusNow(nodes=[NodeGpus("east", "gpu-07", 8, 6, 2, ()), NodeGpus("east", "gpu-01", 8, 8, 0, ())]),
    )
    with asking(a_night(), told) as ask:
        yield ask()


def test_money_of_twelve_hours_and_what_it_went_to(night: dict[str, Any]) -> None:
    money = night["money"]
    assert (night["currency"], money["from_ms"], money["to_ms"]) == (
        "USD",
        NIGHT_MS - 6 * HOUR_MS,
        NIGHT_MS + 6 * HOUR_MS,
    )
    largest = money["causes"][0]
    assert (largest["workload"]["name"], largest["what"], largest["amount"]) == (
        "vision-finetune-1",
        "stalled at step 8,320",
        "1228.8",
    )
    amounts = [float(one["amount"]) for one in money["causes"]]
    assert amounts == sorted(amounts, reverse=True)
    assert sum(amounts) + float(money["rest"] or 0) == pytest.approx(float(money["lost"]))
    assert money["lost_share"] == pytest.approx(float(money["lost"]) / float(money["spent"]))
    assert money["hours"]["booked"] == 12
    assert [one["code"] for one in money["warnings"]] == ["no-price"]


def test_gpus_are_in_one_state_each_and_add_up(night: dict[str, Any]) -> None:
    states = {one["state"]: (one["gpus"], one["per_hour"]) for one in night["gpus"]}
    assert states == {
        "busy": (8, "24"),  # six of research, and two that have no price
        "wasted": (66, "264"),
        "idle": (4, "16"),
        "broken": (8, "32"),
        "unknown": (0, "0"),
    }
    assert night["burn"]["per_hour"] == "336"


def test_the_gravest_incident_comes_first_and_of_these_the_dearest(night: dict[str, Any]) -> None:
    assert [one["id"] for one in night["incidents"]] == ["stalled", "small", "unpriced", "slow"]
    stalled, _, unpriced, _ = night["incidents"]
    assert (stalled["lost"], stalled["per_hour"], stalled["team"]) == ("1228", "256", "vision")
    assert unpriced["lost"] is None


def test_what_all_open_incidents_lost_not_only_those_that_are_listed(night: dict[str, Any]) -> None:
    assert night["incidents_lost"] == "2133", "what is over, and what is unknown, is none of it"
    many = [incident(f"i-{number}", Severity.WARNING, 10) for number in range(23)]
    with asking(a_night(), Told(many)) as ask:
        answer = ask()
        told = len(answer["incidents"]), answer["more_incidents"], answer["incidents_lost"]
        assert told == (20, 3, "230")
        many[:] = [incident("unpriced", Severity.CRITICAL, None)]
        assert ask()["incidents_lost"] is None


def test_who_spends_most_with_what_it_lost(night: dict[str, Any]) -> None:
    vision, research, fleet, unnamed = night["teams"]
    assert (vision["team"], vision["spent"], vision["lost"], vision["per_hour"]) == (
        "vision",
        "3072",
        "1228.8",
        "256",
    )
    assert (research["team"], fleet["is_fleet"], fleet["team"]) == ("research", True, None)
    assert (unnamed["spent"], unnamed["unpriced_gpu_ms"]) == (None, 24 * HOUR_MS)
    assert [one["workload"]["name"] for one in night["workloads"]] == [
        "vision-finetune-1",
        "llm-pretrain",
        "ablation",
        "chat",
    ]
    assert night["workloads"][2]["per_hour"] is None, "it holds nothing now"


def test_without_a_yesterday_it_is_compared_with_the_first_hours_that_are_known(
    night: dict[str, Any],
) -> None:
    assert (night["compared_ms"], night["is_yesterday"]) == (NIGHT_MS - 5 * HOUR_MS, False)
    changes = night["changes"]
    assert night["burn"]["change"] == "32"
    assert [(one["is_fleet"], one["change"]) for one in changes["teams"]] == [(True, "32")]
    assert (changes["gpus_before"], changes["gpus"]) == (78, 86)
    assert changes["lost_gpus"] == [{"cluster": "east", "node": "gpu-07", "gpus": 2}]
    assert changes["incidents"] == {"count": 5, "over": 1, "lost": "2140"}


def test_what_began_and_ended_since_yesterday() -> None:
    def at(hour_ms: int, *names: str) -> LedgerHour:
        return hour(hour_ms, *(row(hour_ms, holder(one, "t"), Bucket.PRODUCTIVE) for one in names))

    today = NIGHT_MS + DAY_MS
    with asking([at(NIGHT_MS, "old", "both"), at(today, "both", "new")], Told(), today + HOUR_MS - 1) as ask:
        answer = ask()
    assert (answer["is_yesterday"], answer["compared_ms"]) == (True, NIGHT_MS + HOUR_MS - 1)
    changes = answer["changes"]
    assert [one["workload"]["name"] for one in changes["began"]] == ["new"]
    assert [one["workload"]["name"] for one in changes["ended"]] == ["old"]
    assert changes["teams"] == [], "one went, and one came: the team spends the same"
    (doubt,) = answer["doubts"]
    assert doubt["code"] == "hours-missing"
    assert re.fullmatch(r"(1 hour of this span is|\d+ hours of this span are) not booked", doubt["text"])


def test_what_nobody_tells_of_is_unknown_and_not_busy() -> None:
    held = row(NIGHT_MS, holder("silent", "t"), Bucket.PRODUCTIVE, gpus=3, basis=Basis.NONE)
    with asking([hour(NIGHT_MS, held)], Told(), NIGHT_MS + HOUR_MS - 1) as ask:
        states = {one["state"]: one["gpus"] for one in ask()["gpus"]}
    assert states == {"busy": 0, "wasted": 0, "idle": 0, "broken": 0, "unknown": 3}


def test_rounded_gpus_add_up() -> None:
    """Two thirds of one busy, two thirds of one waiting, two thirds of one idle: two GPUs."""
    part_ms = HOUR_MS * 2 // 3
    rows = [
        row(NIGHT_MS, holder("a", "t"), Bucket.PRODUCTIVE, ms=part_ms),
        row(NIGHT_MS, holder("a", "t"), Bucket.DATA_WAIT, ms=part_ms),
        row(NIGHT_MS, holder("b", "t"), Bucket.ALLOCATED_IDLE, ms=part_ms),
    ]
    with asking([hour(NIGHT_MS, *rows)], Told(), NIGHT_MS + HOUR_MS - 1) as ask:
        assert sum(one["gpus"] for one in ask()["gpus"]) == 2


def test_a_server_that_has_just_begun_says_that_it_does_not_know() -> None:
    gpus = {key: Gpu(key, "east", "gpu-01") for key in (GpuKey(GpuUuid("GPU-1")), GpuKey(GpuUuid("GPU-2")))}
    now = GpusNow(gpus=gpus, nodes=[NodeGpus("east", "gpu-01", 3, 2, 1, ())])
    with asking([], Told(now=now)) as ask:
        answer = ask()
    assert (answer["burn"], answer["currency"], answer["money"]["lost"]) == (None, None, None)
    states = {one["state"]: (one["gpus"], one["per_hour"]) for one in answer["gpus"]}
    assert (states["unknown"], states["broken"], states["busy"]) == ((2, None), (1, None), (0, None))
    assert [one["code"] for one in answer["doubts"]] == ["not-booked", "hours-missing"]
    assert answer["changes"]["teams"] is None


class CountingBook(MemoryBook):
    """Tells how often causes were worked out, and waits before anything else until it may go on."""

    def __init__(self, *hours: LedgerHour) -> None:
        super().__init__(*hours)
        self.counted, self.may_go = 0, threading.Event()
        self.may_go.set()

    def hours(self, from_ms: int, to_ms: int, **more: Any) -> Sequence[BookedHour]:
        assert self.may_go.wait(10)
        return super().hours(from_ms, to_ms, **more)

    def episodes(self, window: Window, **more: Any) -> Sequence[Episode]:
        self.counted += 1
        return super().episodes(window, **more)


def test_money_is_worked_out_once_for_all_and_anew_while_nobody_waits() -> None:
    book, clock = CountingBook(*a_night()), [0.0]
    told = Told([incident("first", Severity.WARNING, 1)])
    with asking((), told, book=book, clock_s=lambda: clock[0]) as ask:
        ask()
        told.incidents.append(incident("second", Severity.WARNING, 2))
        assert [one["id"] for one in ask()["incidents"]] == ["second", "first"], "incidents are of now"
        assert book.counted == 1
        ask(**{"from": str(NIGHT_MS / 1000)})
        assert book.counted == 2, "of another span it is another one"
        clock[0] = 20.0
        book.may_go.clear()
        spent = ask()["money"]["spent"]
        book.write(hour(NIGHT_MS, row(NIGHT_MS, holder("more", "t"), Bucket.PRODUCTIVE, gpus=100)))
        assert ask()["money"]["spent"] == spent, "who asks does not wait"
        book.may_go.set()
        deadline = time.monotonic() + 30
        while ask()["money"]["spent"] == spent:  # it is kept a moment later
            assert time.monotonic() < deadline
        assert book.counted == 3
        renewed = ask()["money"]["spent"]
        book.write(hour(NIGHT_MS, row(NIGHT_MS, holder("less", "t"), Bucket.PRODUCTIVE)))
        clock[0] = 1_000.0
        assert ask()["money"]["spent"] != renewed, "what is old is told to nobody"


class SlowBook(CountingBook):
    """What is asked about one span waits until it may go on."""

    def __init__(self, slow_ms: int) -> None:
        super().__init__(*a_night())
        self.slow_ms, self.is_asked, self.may_answer = slow_ms, threading.Event(), threading.Event()

    def episodes(self, window: Window, **more: Any) -> Sequence[Episode]:
        if window.from_ms == self.slow_ms:
            self.is_asked.set()
            assert self.may_answer.wait(60)
        return super().episodes(window, **more)


def test_who_looks_at_another_span_does_not_wait() -> None:
    book = SlowBook(NIGHT_MS)
    slow = {"from": str(NIGHT_MS / 1000)}
    with asking((), Told(), book=book) as ask, ThreadPoolExecutor(2) as others:
        waiting = others.submit(ask, **slow)
        assert book.is_asked.wait(60)
        same = others.submit(ask, **slow)
        try:
            ask()
            ask(**{"from": str(NIGHT_MS / 1000 - 7200)})
            assert not waiting.done()
        finally:
            book.may_answer.set()
        assert waiting.result()["money"] == same.result()["money"]
    assert book.counted == 3, "who looks at the same waits for it"


def test_what_everybody_sees_first_is_worked_out_when_an_hour_was_booked() -> None:
    api = Api(book=CountingBook(*a_night()), now_ms=lambda: NOW_MS)
    told = Told()
    nobody: Any = NoRecords()
    now = NowApi(api.book, api.facts, told, told, told, nobody, api.questions)  # type: ignore[arg-type]
    pages = PageApis([now])
    pages.booked(NOW_MS)
    deadline = time.monotonic() + 60
    while api.questions.runner.running:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert api.book.counted == 1  # type: ignore[attr-defined]
    to = -(-NOW_MS // HOUR_MS) * HOUR_MS / 1000
    with running(build_app(replace(api.parts(), pages=pages))) as url:
        for asked in ({}, {"from": to - 12 * 3600, "to": to}):  # as the page asks
            httpx.get(f"{url}/api/now", params=asked).raise_for_status()
    assert api.book.counted == 1, "nobody waits for it"  # type: ignore[attr-defined]


def test_a_span_of_the_past() -> None:
    with asking(a_night(), Told()) as ask:
        answer = ask(**{"from": str(NIGHT_MS / 1000 - 7200), "to": str(NIGHT_MS / 1000)})
    assert [one["bucket"] for one in answer["money"]["causes"]] == ["unallocated", "data_wait"]
    assert answer["burn"]["per_hour"] == "336", "how fast it goes is of now"
