"""The night of the demo, as a server shows it: every fault is found by who should find it, and its cost is
known. The simulator's truth is not asked."""

from __future__ import annotations

import os
import time
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

import pytest

from trilens.cli.demo_kept import night_folder
from trilens.ledger.booking import Booking
from trilens.ledger.known_losses import KnownLosses
from trilens.ledger.prices.book import default_book
from trilens.model.finding import FindingKind
from trilens.model.ledger import HOUR_MS
from trilens.model.ledger_sums import Dimension, Window
from trilens.model.query import QueryGuard
from trilens.promql.engine import Engine
from trilens.serve.money.cost_causes import why_answer
from trilens.serve.money.ledger_signals import LedgerSignals
from trilens.serve.own_queries import EmbeddedQueries
from trilens.serve.rehearsal.kept_night import kept, lay
from trilens.serve.storage import open_store
from trilens.settings.load import validate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.model.incident import Incident
    from trilens.store.store import Store

pytestmark = pytest.mark.long

QUANTA = Decimal(10**9)


class Morning(NamedTuple):
    store: Store
    begin_ms: int
    end_ms: int

    def incidents(self) -> list[Incident]:
        return self.store.incidents.during(self.begin_ms, self.end_ms)


@pytest.fixture(scope="module")
def morning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Morning]:
    folder = night_folder(0)
    night = kept(folder) if os.environ.get("TRILENS_TEST_NIGHT") else None
    if night is None:
        pytest.skip("`make test-night` makes a night, which takes minutes, and looks at it")
    data = tmp_path_factory.mktemp("morning") / "data"
    now_us = time.time_ns() // 1000
    end_ms = now_us // 1000
    lay(folder, night, data, end_ms, now_us)
    store = open_store(validate({"storage": {"data_dir": str(data)}}).storage, upkeep=False)
    yield Morning(store, end_ms - (night.end_ms - night.begin_ms), end_ms)
    store.close()


@pytest.mark.parametrize(
    ("kind", "workload", "rank", "begins_h"),
    [
        (FindingKind.CPU_FALLBACK, "tts-train-1", None, 1.5),
        (FindingKind.STRAGGLER, "vision-finetune-1", 5, 2),
        (FindingKind.PLATEAU, "ranking-1", None, 2.5),
        (FindingKind.HANG, "moe-ablation-1", 11, 4 + 2 / 3),
        pytest.param(
            FindingKind.STALL,
            "llm-pretrain-1",
            None,
            5.2,
            marks=pytest.mark.xfail(reason="its first hour has a short pause, which is looked at too seldom"),
        ),
        (FindingKind.THROTTLING, "reward-model-1", None, 6.5),
        (FindingKind.GPU_FAULT, "speech-train-1", 3, 7 + 2 / 3),
        (FindingKind.GPU_FAULT, "embedder-1", 6, 8 + 5 / 6),
        (FindingKind.CRASH, "diffusion-1", None, 9 + 1 / 3),
    ],
)
def test_detectors_find_it(
    morning: Morning, kind: FindingKind, workload: str, rank: int | None, begins_h: float
) -> None:
    begins_ms = morning.begin_ms + begins_h * HOUR_MS
    found = [
        one.finding
        for one in morning.store.findings.during(morning.begin_ms, morning.end_ms)
        if one.finding.kind is kind
    ]
    own = [
        one
        for one in found
        if one.subject.workload is not None
        and one.subject.workload.name == workload
        and (rank is None or one.subject.rank == rank)
    ]
    assert own, found
    assert abs(min(one.onset_ms for one in own) - begins_ms) < 15 * 60_000


@pytest.mark.parametrize(
    ("alert", "workload"),
    [
        ("PodPendingLong", "protein-fold-1"),
        ("TrainingCheckpointFailed", "diffusion-1"),
        ("InferenceQueueGrowing", "chat-1"),
    ],
)
def test_rules_find_it(morning: Morning, alert: str, workload: str) -> None:
    told = [
        (symptom.name, symptom.subject.workload.name if symptom.subject.workload is not None else "")
        for incident in morning.incidents()
        for symptom in incident.symptoms
    ]
    assert (alert, workload) in told, sorted(set(told))


@pytest.mark.parametrize("alert", ["InferenceP99High", "InferenceFirstTokenSlow"])
def test_a_service_is_over_what_it_promises(morning: Morning, alert: str) -> None:
    """These make no incident: they are for information."""
    fired = f'max_over_time(ALERTS{{alertname="{alert}",alertstate="firing",workload="chat-1"}}[12h])'
    assert len(Engine(morning.store).instant(fired, morning.end_ms, QueryGuard()).labels)


def test_the_job_that_stands_since_twelve_past_one_is_open_and_costs_the_most(morning: Morning) -> None:
    dearest = max(morning.incidents(), key=lambda one: one.lost_quanta or 0)
    assert dearest.resolved_ms is None
    assert dearest.workloads == ("research/PyTorchJob/llm-pretrain-1",)
    assert abs(dearest.onset_ms - (morning.begin_ms + 5.2 * HOUR_MS)) < 60_000
    assert Decimal(dearest.lost_quanta or 0) / QUANTA > 5_000


def test_twelve_thousand_dollars_are_lost_and_a_team_is_over_its_budget(morning: Morning) -> None:
    store, prices = morning.store, default_book()
    signals = LedgerSignals(EmbeddedQueries(store, lambda: morning.end_ms))
    booking = Booking(store.ledger_facts, signals, KnownLosses(store.ledger_facts, morning.begin_ms))
    for computed in booking.hours(morning.begin_ms, morning.end_ms, prices, morning.end_ms):
        store.ledger.write(computed.hour, reason="rehearsed")
    window = Window(morning.begin_ms // HOUR_MS * HOUR_MS, morning.end_ms)
    (total,) = why_answer(store.ledger, store.ledger_facts, window, morning.end_ms, limit=None).totals
    assert 11_000 <= Decimal(total.for_nothing or 0) <= 13_000
    spent = {one.keys[0]: one.quanta for one in store.ledger.sums([Dimension.TEAM], window)}
    assert Decimal(spent["foundation"]) / QUANTA > 9_000
