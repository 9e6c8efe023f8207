"""The morning after the night of the demo, asked as its pages and commands ask: every fault is there with its
cause, and what it cost is known. The simulator's truth is not asked."""

from __future__ import annotations

import os
import time
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import pytest

from servers import free_port, running
from trilens.cli.demo_kept import night_to_open_on
from trilens.model.ledger import HOUR_MS
from trilens.serve.rehearsal.laid_night import Laying
from trilens_process import TRILENS

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.long

HOURS = 12
PATIENCE_S = 120.0


class Morning(NamedTuple):
    client: httpx.Client
    begin_ms: int

    def asked(self, path: str, **params: str) -> Any:
        return self.client.get(path, params=params).raise_for_status().json()["data"]

    def hour_of(self, at_ms: int) -> float:
        return (at_ms - self.begin_ms) / HOUR_MS


@pytest.fixture(scope="module")
def morning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Morning]:
    kept = night_to_open_on(0) if os.environ.get("TRILENS_TEST_NIGHT") else None
    if kept is None:
        pytest.skip("`make test-night` makes a night, which takes minutes, and looks at it")
    address = f"127.0.0.1:{free_port()}"
    laying = Laying(kept.folder, kept.night, time.time_ns() // 1000)
    log = tmp_path_factory.mktemp("morning") / "log"
    with (
        running([*TRILENS, "demo", "--listen", address], f"http://{address}/readyz", log=log),
        httpx.Client(base_url=f"http://{address}", timeout=PATIENCE_S) as client,
    ):
        yield Morning(client, laying.night.begin_ms + laying.by_ms)


def since_of(morning: Morning) -> str:
    return str(morning.begin_ms // 1000)


@cache
def incidents(morning: Morning) -> list[dict[str, Any]]:
    """Of the night, as they were when somebody first looked."""
    found: list[dict[str, Any]] = morning.asked("/api/incidents", **{"from": since_of(morning)})
    return found


def incidents_of(morning: Morning, workload: str, symptom: str) -> list[dict[str, Any]]:
    return [
        one
        for one in incidents(morning)
        if (one["subject"]["workload"] or {}).get("name") == workload
        and any(told["name"] == symptom for told in one["symptoms"])
    ]


def causes(morning: Morning, subject: str) -> list[str]:
    """The surest first."""
    answer = morning.asked("/api/why", subject=subject, **{"from": since_of(morning)})
    return [one["cause"] for one in answer["verdicts"]]


@pytest.mark.parametrize(
    ("workload", "symptom", "begins_h", "lasts"),
    [
        ("llm-pretrain-1", "FindingStall", 5.2, True),
        ("moe-ablation-1", "FindingHang", 4 + 2 / 3, True),
        ("vision-finetune-1", "FindingStraggler", 2, False),
        ("reward-model-1", "FindingThrottling", 6.5, False),
        ("speech-train-1", "xid 79", 7 + 2 / 3, True),
        ("embedder-1", "xid 48", 8 + 5 / 6, None),
        ("tts-train-1", "FindingCpuFallback", 3.5, True),
        ("protein-fold-1", "PodPendingLong", 0.67, True),
        ("diffusion-1", "TrainingCheckpointFailed", 4, False),
        ("diffusion-1", "PodOomKilled", 7, False),
        ("chat-1", "InferenceQueueGrowing", 0.13, False),
        ("chat-1", "SloBurningFast", 2, False),
        ("chat-1", "SloBudgetSpent", 11.93, True),
    ],
)
def test_every_fault_is_an_incident(
    morning: Morning, workload: str, symptom: str, begins_h: float, lasts: bool | None
) -> None:
    found = incidents_of(morning, workload, symptom)
    near = [one for one in found if abs(morning.hour_of(one["onset_ms"]) - begins_h) < 0.3]
    assert near, [(morning.hour_of(one["onset_ms"]), one["title"]) for one in found]
    if lasts is not None:
        assert (near[0]["state"] != "resolved") == lasts, near[0]["title"]


@pytest.mark.parametrize(
    ("workload", "symptom", "cause"),
    [
        ("llm-pretrain-1", "FindingStall", "data-stopped"),
        ("moe-ablation-1", "FindingHang", "flight-never-entered"),
        ("vision-finetune-1", "FindingStraggler", "slow-rank"),
        ("reward-model-1", "FindingThrottling", "gpu-too-hot"),
        ("speech-train-1", "xid 79", "dead-gpu"),
        ("embedder-1", "xid 48", "dead-gpu"),
        ("tts-train-1", "FindingCpuFallback", "fell-back-to-cpu"),
        ("protein-fold-1", "PodPendingLong", "untolerated-taint"),
        ("protein-fold-2", "PodPendingLong", "untolerated-taint"),
        # Its caches are full in the one minute and not in the next: whoever asks is told either.
        ("chat-1", "InferenceQueueGrowing", "too-few-replicas kv-cache-full"),
    ],
)
def test_its_cause_is_told(morning: Morning, workload: str, symptom: str, cause: str) -> None:
    """Of what lasts, and of what is over: an incident knows when it was."""
    names = [one["id"] for one in incidents_of(morning, workload, symptom)]
    told = [cause for name in (*names, workload) for cause in causes(morning, name)]
    assert {*cause.split()} & {*told}


def test_a_finding_that_lasts_is_told_once(morning: Morning) -> None:
    (hang,) = incidents_of(morning, "moe-ablation-1", "FindingHang")
    timeline = morning.asked(f"/api/incidents/{hang['id']}")["timeline"]
    told = [one["text"] for one in timeline if morning.hour_of(one["t_ms"]) < HOURS]
    assert len(told) < 12, "what it is, and what joined it"
    assert not [text for text in told if text.startswith("again")]


def test_a_flat_loss_is_found(morning: Morning) -> None:
    found = morning.asked("/api/findings", **{"from": since_of(morning)})
    (plateau,) = (one for one in found if one["kind"] == "plateau")
    assert plateau["workload"]["name"] == "ranking-1"
    assert abs(morning.hour_of(plateau["onset_ms"]) - 2.5) < 0.3
    assert plateau["ended_ms"] is None, "it lasts, although the server has only just begun"


def test_no_job_is_said_to_stand_that_only_paused(morning: Morning) -> None:
    stalled = {
        one["subject"]["workload"]["name"]
        for one in incidents(morning)
        if any(symptom["name"] == "FindingStall" for symptom in one["symptoms"])
    }
    assert stalled <= {"llm-pretrain-1", "moe-ablation-1", "tts-train-1"}


def test_one_job_stands_since_twelve_past_and_costs_the_most(morning: Morning) -> None:
    dearest = max(incidents(morning), key=lambda one: Decimal(one["lost"] or 0))
    assert dearest["subject"]["workload"]["name"] == "llm-pretrain-1"
    assert abs(dearest["onset_ms"] - morning.begin_ms - 5.2 * HOUR_MS) < 60_000
    assert Decimal(dearest["lost"]) > 5_000


def test_twelve_thousand_dollars_are_lost_and_the_first_page_says_on_what(morning: Morning) -> None:
    money = morning.asked("/api/now")["money"]
    assert money["hours"]["booked"] >= HOURS - 1, "all that are over"
    assert money["hours"]["corrected"] == 0, "nobody has booked anything else before"
    assert 11_000 <= Decimal(money["lost"]) <= 13_500
    assert 23_500 <= Decimal(money["spent"]) <= 29_000
    (first, *_) = money["causes"]
    assert first["workload"]["name"] == "llm-pretrain-1"


def test_a_team_is_far_over_its_budget(morning: Morning) -> None:
    (budget,) = (one for one in morning.asked("/api/cost/now")["budgets"] if one["name"] == "foundation")
    assert Decimal(budget["spent"]) > Decimal(budget["amount"])
    told = [symptom["name"] for one in incidents(morning) for symptom in one["symptoms"]]
    assert "BudgetNearlySpent" in told
