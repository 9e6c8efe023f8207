"""What a step, a million tokens and a request cost, and what a crash threw away, over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from command_here import trilens_here
from ledger_nights import NIGHT_MS, holder, hour, row, workload
from memory_api import Api, running
from memory_book import MemoryBook
from memory_runs import MemoryRuns
from trilens.ledger import causes
from trilens.ledger.source import GpuMinutes, ServingMinutes, Signals
from trilens.model.gpu import BindingInterval, GpuBinding, GpuKey
from trilens.model.ledger import HOUR_MS, Basis, Bucket, NodeBill
from trilens.model.ledger_facts import Facts, RankSteps, RunHistory
from trilens.model.life import MembershipInterval
from trilens.model.query import QueryGuard
from trilens.model.run import (
    CheckpointRecord,
    Ending,
    RankProcess,
    RunFacts,
    RunId,
    ValidationRecord,
    WriterId,
)
from trilens.model.run_sums import AttemptSpan
from trilens.model.workload import GpuUuid, Membership, PodKey
from trilens.serve.access.seen_runs import RunsSeen
from trilens.serve.money.cost_units import CostUnitsApi

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trilens.model.ledger_facts import StepMinutes

TRAINED, LOST = RunId("run-t"), RunId("run-l")
SPAN = ("--from", str(NIGHT_MS // 1000), "--to", str((NIGHT_MS + HOUR_MS) // 1000))


class Told:
    """Ten minutes of a run with two ranks, 60 steps and 6,000 tokens a minute and rank; a pod that serves;
    and a run that crashed 410 steps after its last checkpoint."""

    def records(self, from_ms: int, to_ms: int, *, guard: object = None) -> Facts:
        pod = PodKey("east", "ml", "chat-0", "uid-0")
        member = MembershipInterval(Membership(pod, workload("chat")), "gpu-03", NIGHT_MS)
        gpu = GpuBinding(GpuKey(GpuUuid("GPU-1")), pod, "main", None, ())
        return Facts(from_ms, to_ms, members=[member], bindings=[BindingInterval(gpu, NIGHT_MS, None)])

    def programs(self, from_ms: int, to_ms: int, *, guard: object = None) -> Facts:
        lives = [RankProcess(TRAINED, rank, WriterId(f"w{rank}"), NIGHT_MS) for rank in (0, 1)]
        return Facts(from_ms, to_ms, lives=lives)

    def rank_steps(
        self, lives: Sequence[RankProcess], from_ms: int, to_ms: int, *, guard: object = None
    ) -> RankSteps:
        run, rank = np.zeros(2, np.int32), np.arange(2, dtype=np.int32)
        minutes = (min(to_ms, NIGHT_MS + 600_000) - max(from_ms, NIGHT_MS)) // 60_000
        steps = np.full(2, 60 * max(minutes, 0), np.int64)
        return RankSteps((TRAINED,), run, rank, steps, 100 * steps, np.zeros(2, np.int64))

    def step_minutes(
        self, lives: Sequence[RankProcess], from_ms: int, to_ms: int, *, guard: object = None
    ) -> StepMinutes:
        raise AssertionError("nothing was lost")

    def with_steps(self, records: Facts, from_ms: int, to_ms: int, *, guard: object = None) -> Facts:
        return records

    def repeating(self, runs: Sequence[RunId], *, guard: object = None) -> Mapping[RunId, int]:
        return {}

    def first_ms(self, *, guard: object = None) -> int | None:
        return NIGHT_MS

    def histories(self, runs: Sequence[RunId], *, guard: object = None) -> Mapping[RunId, RunHistory]:
        assert [*runs] == [LOST], "only runs that lost something are looked at"
        born = NIGHT_MS
        process = RankProcess(
            LOST, 0, WriterId("w"), born, ended_ms=born + 1_800_000, ending=Ending.FAILED, step=4_410
        )
        span = AttemptSpan(
            0, 0, 1, 4_410, 4_410, None, None, born * 1000, (born + 1_800_000) * 1000, 0, 4_409
        )
        saved = CheckpointRecord(LOST, 4_000, 0, 0, 0, "/c", born + 1_500_000)
        return {LOST: RunHistory([process], [span], [saved])}


class Load:
    def signals(self, from_ms: int, to_ms: int, *, is_open: bool = False) -> Signals:
        raise AssertionError("all GPUs of a week are much, and not needed")

    def serving(self, from_ms: int, to_ms: int) -> Signals:
        assert from_ms == NIGHT_MS, "no other hour is booked"
        width = (to_ms - from_ms) // 60_000
        served = np.zeros((1, width))
        served[0, :4] = [10, 0, 30, 0]
        nothing = np.zeros((0, width))
        return Signals(
            GpuMinutes(from_ms, {}, nothing, nothing, nothing, nothing),
            ServingMinutes(from_ms, {("east", "ml", "chat-0"): 0}, served, served, served * 50_000),
        )


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    told: dict[str, Any] = {"cause": causes.LOST_WORK, "since_ms": NIGHT_MS + 1_500_000, "step": 4_001}
    book = MemoryBook(
        hour(
            NIGHT_MS,
            row(NIGHT_MS, holder("train", "x", TRAINED), Bucket.PRODUCTIVE, gpus=2),
            row(NIGHT_MS, holder("chat", "x"), Bucket.SERVING_BUSY, cause=causes.REQUESTS, basis=Basis.LOAD),
            row(NIGHT_MS, holder("lost", "x", LOST), Bucket.RECOMPUTE, ms=300_000, **told),
        )
    )
    runs = MemoryRuns([RunFacts(TRAINED, NIGHT_MS, "exp", "the-run")])
    api = Api(book=book, runs=runs, facts=Told(), signals=Load(), now_ms=lambda: NIGHT_MS + HOUR_MS - 1)
    with running(api.build()) as base:
        yield base


def ask(url: str, path: str, **params: str) -> Any:
    window = {"from": str(NIGHT_MS / 1000), "to": str((NIGHT_MS + HOUR_MS) / 1000)}
    answer = httpx.get(f"{url}{path}", params=window | params)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def test_steps_count_once_for_all_ranks(url: str) -> None:
    line, _ = ask(url, "/api/cost/units", per="step")["lines"]
    assert (line["keys"], line["name"]) == ({"run": "run-t"}, "the-run")
    assert (line["units"], line["amount"]) == (600.0, "8")
    assert line["per_unit"].startswith("0.01333333")


def test_a_run_without_a_step_is_told_with_what_it_cost(url: str) -> None:
    _, line = ask(url, "/api/cost/units", per="step")["lines"]
    assert (line["keys"], line["units"], line["per_unit"]) == ({"run": "run-l"}, None, None)
    assert (line["amount"], line["detail"]) == ("0.333333333", "no step")
    shown = trilens_here("cost", "--per", "step", *SPAN, "--server", url).stdout.splitlines()
    assert [line.split() for line in shown if line.startswith("run-l")] == [
        ["run-l", "-", "-", "$0.33", "0.08", "-", "no", "step"]
    ]


def test_tokens_are_of_all_ranks_and_of_inference_servers(url: str) -> None:
    trained, served = ask(url, "/api/cost/units", per="token")["lines"]
    assert (trained["keys"]["run"], trained["units"]) == ("run-t", 0.12)
    assert (served["keys"]["workload"]["name"], served["units"], served["per_unit"]) == ("chat", 2.0, "2")


def test_tokens_say_which_they_are(url: str) -> None:
    """The page of services counts prompts as well: who compares them has to know."""
    answer = ask(url, "/api/cost/units", per="token")
    trained, served = answer["lines"]
    assert "completion tokens, no prompts" in answer["definition"]
    assert (trained["detail"], trained["told"]) == ("tokens trained on", None)
    assert (served["detail"], served["told"]) == ("completion tokens", 1.0)


@pytest.mark.parametrize(("per", "units", "each"), [("token", 2.0, "0.5"), ("request", 40.0, "0.025")])
def test_units_told_of_for_a_part_of_the_time_are_divided_into_the_cost_of_that_part(
    monkeypatch: pytest.MonkeyPatch, per: str, units: float, each: str
) -> None:
    """Scraped for a quarter of the hour: all of its cost by a quarter of its tokens would be four times."""
    load = Load.serving

    def a_quarter(self: Load, from_ms: int, to_ms: int) -> Signals:
        found = load(self, from_ms, to_ms)
        for told in (found.serving.running, found.serving.requests, found.serving.tokens):
            told[:, 15:] = np.nan
        return found

    monkeypatch.setattr(Load, "serving", a_quarter)
    book = MemoryBook(
        hour(NIGHT_MS, row(NIGHT_MS, holder("chat", "x"), Bucket.SERVING_BUSY, basis=Basis.LOAD))
    )
    api = Api(book=book, facts=Told(), signals=Load(), now_ms=lambda: NIGHT_MS + HOUR_MS - 1)
    with running(api.build()) as base:
        line = ask(base, "/api/cost/units", per=per)["lines"][-1]
        shown = trilens_here("cost", "--per", per, *SPAN, "--server", base).stdout
    assert (line["units"], line["amount"], line["per_unit"], line["told"]) == (units, "4", each, 0.25)
    assert line["detail"].endswith("told of in 25 % of its time: by the cost of that part")
    assert f"~${0.5 if per == 'token' else 0.025}" in shown
    assert "told of in 25 % of its time" in shown


def test_units_count_only_while_hours_are_booked(url: str) -> None:
    before = str(NIGHT_MS / 1000 - 3600)
    (line,) = ask(url, "/api/cost/units", per="request", **{"from": before})["lines"]
    assert line["units"] == 40.0, "of an hour that is not booked, nobody knows what it cost"


@pytest.mark.parametrize("began_ms", [NIGHT_MS, NIGHT_MS - HOUR_MS], ids=["booked", "begun-before"])
def test_improvement_is_of_runs_that_are_booked_from_their_beginning(began_ms: int) -> None:
    values = [(NIGHT_MS + 60_000, 4.0), (NIGHT_MS + 600_000, 3.0)]
    told = [
        ValidationRecord(TRAINED, n, 0, 0, n, t_ms, values={"loss": value})
        for n, (t_ms, value) in enumerate(values)
    ]
    runs = MemoryRuns([RunFacts(TRAINED, began_ms, "exp", "the-run")], told_validations=told)
    book = MemoryBook(hour(NIGHT_MS, row(NIGHT_MS, holder("train", "x", TRAINED), Bucket.PRODUCTIVE)))
    api = Api(book=book, runs=runs, facts=Told(), signals=Load(), now_ms=lambda: NIGHT_MS + HOUR_MS - 1)
    with running(api.build()) as base:
        lines = ask(base, "/api/cost/units", per="improvement")["lines"]
    found = [(one["units"], one["amount"], one["per_unit"]) for one in lines]
    assert found == ([(25.0, "4", "0.16")] if began_ms == NIGHT_MS else [])


def test_requests(url: str) -> None:
    answer = ask(url, "/api/cost/units", per="request")
    (line,) = answer["lines"]
    assert (answer["unit"], line["units"], line["per_unit"]) == ("request", 40.0, "0.1")


def test_a_crash_is_told_with_the_steps_that_it_threw_away(url: str) -> None:
    (cause,) = ask(url, "/api/cost/why")["causes"]
    assert cause["lost_steps"] == [4_001, 4_410]
    assert cause["sentence"] == (
        "lost (team x): crash at step 4,410, 410 steps after the last checkpoint were lost, "
        "1 GPU, 5 min, $0.33"
    )


def test_what_was_done_before_any_node_was_known_does_not_count() -> None:
    """Nodes are known for the last 54 minutes of the hour: what the steps of the first six cost is not."""
    rows = row(NIGHT_MS, holder("train", "x", TRAINED), Bucket.PRODUCTIVE, gpus=2)
    bill = NodeBill(NIGHT_MS, "east", "gpu-01", HOUR_MS - 360_000, 0, None, 0, "", {}, "")
    book = MemoryBook(replace(hour(NIGHT_MS, rows), bills=(bill,)))
    api = Api(book=book, facts=Told(), now_ms=lambda: NIGHT_MS + HOUR_MS - 1)
    with running(api.build()) as base:
        (line,) = ask(base, "/api/cost/units", per="step")["lines"]
    assert line["units"] == 240.0


@pytest.mark.parametrize("per", ["mile", "step&from=1"])
def test_bad_units(url: str, per: str) -> None:
    answer = httpx.get(f"{url}/api/cost/units?per={per}")
    assert answer.status_code == 400


def test_moments_may_be_told_from_now(url: str) -> None:
    """As commands and notebooks write them."""
    answer = ask(url, "/api/cost/why", **{"from": "-1h", "to": "now"})
    whole = ask(url, "/api/cost/why", **{"from": str(answer["from_ms"] // 1000)})
    assert {**whole, "to_ms": answer["to_ms"]} == answer
    refused = httpx.get(f"{url}/api/cost/why", params={"from": "-1 hour"})
    assert refused.status_code == 400
    assert "1 hour" in refused.json()["error"]


def test_the_open_hour_is_read_when_it_is_booked_while_somebody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ms = NIGHT_MS + HOUR_MS // 2
    rows = row(NIGHT_MS, holder("train", "x", TRAINED), Bucket.PRODUCTIVE, gpus=2)
    book = MemoryBook(hour(NIGHT_MS, rows, upto_ms=now_ms))
    api = Api(book=book, facts=Told(), now_ms=lambda: now_ms)
    asked: list[int] = []
    monkeypatch.setattr(Told, "programs", lambda self, a, b, **_: asked.append(a) or Facts(a, b))
    runs = RunsSeen(api.runs, api.workloads)
    units = CostUnitsApi(book, api.facts, api.signals, runs, api.questions)
    units._prepare(now_ms, QueryGuard())
    assert asked == [], "nobody has asked"
    units._asked_ms = now_ms - 60_000
    units._prepare(now_ms, QueryGuard())
    assert asked == [NIGHT_MS]
    units._asked_ms = now_ms - HOUR_MS
    units._prepare(now_ms, QueryGuard())
    assert asked == [NIGHT_MS], "nor has anybody for long"
