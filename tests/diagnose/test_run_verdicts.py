"""The verdict on a run, for its tracker: when it is asked, what is told of it, and what is remembered."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest
from scenario_files import FOLDER, Scenario

from trilens.diagnose.walk import why
from trilens.model.errors import RequestError
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.life import MembershipInterval
from trilens.model.run import Ending, RankProcess, RunId, WriterId
from trilens.model.verdict import Layer, Verdict
from trilens.model.workload import Membership, PodKey, WorkloadKey
from trilens.serve.asked_loop import AskedLoop
from trilens.serve.run_verdicts import RunVerdicts, verdict_figures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.case_file import CaseFile
    from trilens.serve.cases.wish import Wish

RUN = RunId("r-1")
JOB = WorkloadKey("prod", "ml", "batch", "Job", "train", "job-train")
POD = PodKey("prod", "ml", "train-0", "pod-train-0")
TAINT = Scenario(FOLDER / "untolerated-taint", {})


class Gathered:
    """What is gathered is tested with it: here a case that lies in a file."""

    def __init__(self) -> None:
        self.wishes: list[Wish] = []
        self.error: Exception | None = None

    def read(self, wish: Wish, guard: object) -> CaseFile:
        self.wishes.append(wish)
        if self.error is not None:
            raise self.error
        return TAINT.case().file

    async def complete(self, kept: CaseFile) -> CaseFile:
        return kept


class Members:
    def members_among(self, *_: object) -> list[MembershipInterval]:
        return [MembershipInterval(Membership(POD, JOB), "n1", 0)]


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.fixture
def cases() -> Gathered:
    return Gathered()


@pytest.fixture
def verdicts(cases: Gathered, loop: asyncio.AbstractEventLoop) -> RunVerdicts:
    made = RunVerdicts(cases, Members(), list)  # type: ignore[arg-type]
    made.ask_in(AskedLoop(loop))
    return made


def process(ending: Ending | None = None, attempt: int = 0, **more: Any) -> RankProcess:
    facts = {"pod": "train-0", "pod_uid": "pod-train-0", "namespace": "ml"} | more
    ended_ms = 5_000_000 if ending is not None else None
    return RankProcess(
        RUN,
        0,
        WriterId(f"w{attempt}"),
        1_000,
        attempt,
        heard_ms=9_000,
        ended_ms=ended_ms,
        ending=ending,
        **facts,
    )


def test_a_run_that_failed_is_told_why(verdicts: RunVerdicts, cases: Gathered) -> None:
    told = verdicts.of(RUN, [process(Ending.FAILED)], "failed")
    best = why(TAINT.case())[0]
    assert best.cause == "untolerated-taint"
    assert told == {
        "trilens.verdict": f"{best.cause}: {best.text}",
        "trilens.verdict_confidence": best.confidence,
        "trilens.verdict_fix": " ".join(f"{n}. {step}" for n, step in enumerate(best.fix, 1))
        if len(best.fix) > 1
        else best.fix[0],
    }
    (wish,) = cases.wishes
    assert (wish.written, wish.to_ms) == ("prod/ml/Job.batch/train", 5_300_000)
    verdicts.of(RUN, [process(Ending.FAILED)], "failed")
    assert len(cases.wishes) == 1  # what its pod said of its end is gone by then


@pytest.mark.parametrize(
    ("state", "processes", "is_asked"),
    [
        ("running", [process()], False),
        ("finished", [process(Ending.FINISHED)], False),
        ("finished", [process(Ending.LOST)], False),  # it said itself that all was well
        ("running", [process(Ending.LOST)], True),  # MLflow is not told that a program was killed
        ("running", [process(Ending.FAILED), process(attempt=1)], False),  # it was started again
        ("killed", [process(Ending.FINISHED)], True),
        ("failed", [process(Ending.FAILED, pod=None, pod_uid=None, namespace=None)], False),  # in no workload
    ],
)
def test_when_it_is_asked(
    verdicts: RunVerdicts, cases: Gathered, state: str, processes: list[RankProcess], is_asked: bool
) -> None:
    assert bool(verdicts.of(RUN, processes, state)) is is_asked
    assert len(cases.wishes) == is_asked


def test_a_run_of_which_something_is_found_now(cases: Gathered, loop: asyncio.AbstractEventLoop) -> None:
    found = Finding(
        "D002", FindingKind.HANG, Subject(run=RUN), Severity.CRITICAL, "x", 1, "hangs", "look", 0.9
    )
    lasting = [FindingInterval(found, 1, 2)]
    verdicts = RunVerdicts(cases, Members(), lambda: lasting)  # type: ignore[arg-type]
    verdicts.ask_in(AskedLoop(loop))
    assert verdicts.of(RUN, [process()], "running")
    lasting.clear()
    assert verdicts.of(RUN, [process()], "running") == {}


def test_what_could_not_be_asked_is_not_nothing(verdicts: RunVerdicts, cases: Gathered) -> None:
    cases.error = RequestError("several")
    assert verdicts.of(RUN, [process(Ending.FAILED)], "failed") is None


def test_what_nobody_can_tell_and_what_is_only_not_seen_is_not_told() -> None:
    def verdict(layer: Layer, confidence: float, *fix: str) -> Verdict:
        return Verdict(f"a-{layer}", layer, "t", confidence, fix)

    blind, guess = verdict(Layer.TELEMETRY, 1.0, "x"), verdict(Layer.GPU, 0.4, "x")
    assert verdict_figures([blind, guess, verdict(Layer.PROGRAM, 0.9)]) == {}
    told = verdict_figures([blind, verdict(Layer.NODE, 0.7, "drain it", "call them" * 1000)])
    assert told["trilens.verdict"] == "a-node: t"
    assert str(told["trilens.verdict_fix"]).startswith("1. drain it 2. call them")
    assert len(str(told["trilens.verdict_fix"])) == 2000
