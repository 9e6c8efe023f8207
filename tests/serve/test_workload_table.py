"""/api/workload-table: all workloads with their health, money and progress, by columns."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

from ledger_nights import PRICE, hour, row
from memory_api import Api, running
from memory_book import MemoryBook
from trilens.detect.scene import JobView, PodView, RankView, Scene, Steps, Telemetry, ToldBy
from trilens.detect.watch import Changes
from trilens.model.finding import Finding, FindingInterval, FindingKind, Severity, Subject
from trilens.model.gpu import GpuBinding, GpuKey
from trilens.model.incident import Incident, IncidentState
from trilens.model.ledger import HOUR_MS, Bucket, Holder
from trilens.model.life import MembershipInterval, Phase, PhaseInterval
from trilens.model.query import QueryGuard
from trilens.model.run import RunFacts, RunId
from trilens.model.workload import GpuUuid, Membership, PodKey, Workload, WorkloadKey
from trilens.serve.app import build_app
from trilens.serve.detection.keeper import DetectionState
from trilens.serve.pages.apis import PageApis
from trilens.serve.pages.fleet_scene import KeptScene
from trilens.serve.pages.workload_table import WorkloadTableApi
from trilens.serve.pages.workload_table_money import Spent, WorkloadMoney
from trilens.serve.pages.workload_table_rows import Known, gone_workloads, workload_table
from trilens.store.workloads import WorkloadHistory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.ledger.source import LedgerBook

NOW_MS = 1_700_000_000_000
TRAIN = WorkloadKey("lab", "ml", "kubeflow.org", "PyTorchJob", "train", "u1")
CHAT = WorkloadKey("lab", "web", "apps", "Deployment", "chat", "u2")
OVER = WorkloadKey("lab", "ml", "batch", "Job", "over", "u3")
POD = PodKey("lab", "ml", "train-0", "p0")
RUN = RunFacts(RunId("run-1"), NOW_MS - HOUR_MS, name="lr 3e-4", total_steps=1_000)


def steps(last: int, *, ended_ms: int = NOW_MS, step_ms: int = 2_000) -> Steps:
    ends_ms = ended_ms - step_ms * np.arange(39, -1, -1)
    nothing = np.zeros(40)
    return Steps(np.arange(last - 39, last + 1), ends_ms, nothing, nothing, nothing, nothing, nothing)


def training(**more: Any) -> JobView:
    ranks = (RankView(0, ToldBy.RECORDS, more.pop("steps", steps(400)), NOW_MS),)
    told = {"phase": Phase.RUNNING, "phase_since_ms": NOW_MS - HOUR_MS, "rows": (0, 1), "run": RUN, **more}
    return JobView(TRAIN, "vision", 0, serves=False, ranks=ranks, **told)


def looked(*jobs: JobView) -> KeptScene:
    kept = KeptScene()
    kept.take(Scene(NOW_MS, Telemetry((), np.arange(0), {}), jobs), Changes())
    return kept


def known(kept: KeptScene, **more: Any) -> Known:
    told: dict[str, Any] = {"gone": (), "findings": (), "incidents": (), "spent": {}, "held": {}}
    return Known(scene=kept.now, per_hour=lambda _: None, currency="USD", **{**told, **more})


def finding(severity: Severity, text: str, subject: Subject) -> FindingInterval:
    told = Finding("D001", FindingKind.STALL, subject, severity, "", NOW_MS - 9_000, text, "Look.")
    return FindingInterval(told, NOW_MS - 5_000, NOW_MS)


def incident(severity: Severity, title: str, *workloads: str) -> Incident:
    return Incident("i1", IncidentState.OPEN, severity, title, Subject(), workloads, (), (), NOW_MS, NOW_MS)


def test_a_training_with_its_progress_and_its_money() -> None:
    kept = looked(training())
    spent = {TRAIN: Spent(12_345_678_900, 0.81)}
    table = workload_table(known(kept, spent=spent)._replace(per_hour=lambda _: Decimal("7.861")))
    assert (table.cluster, table.namespace, table.kind, table.name) == (
        ["lab"],
        ["ml"],
        ["PyTorchJob"],
        ["train"],
    )
    assert (table.team, table.phase, table.since_ms) == (["vision"], ["running"], [NOW_MS - HOUR_MS])
    assert (table.gpus, table.health, table.gone_ms) == ([2], ["ok"], [None])
    assert (table.cost, table.cost_per_hour, table.goodput) == ([12.35], [7.86], [0.81])
    assert (table.run, table.run_name) == (["run-1"], ["lr 3e-4"])
    assert (table.step, table.total_steps, table.seconds_left) == ([400], [1_000], [1_200])


@pytest.mark.parametrize(
    "job",
    [
        training(steps=steps(400, ended_ms=NOW_MS - 120_000)),
        training(phase=Phase.RESTARTING),
        training(run=replace(RUN, total_steps=None)),
        training(steps=steps(400, step_ms=0)),
    ],
    ids=["stalled", "restarting", "without an end", "in no time"],
)
def test_nobody_knows_how_long_it_takes_where_it_does_not_go_on(job: JobView) -> None:
    table = workload_table(known(looked(job)))
    assert (table.step, table.seconds_left) == ([400], [None])


def test_gpus_that_do_not_report_count_as_held() -> None:
    pods = (PodView(POD, "node-a", "Running"), PodView(replace_uid(POD, "gone"), "node-a", "Gone", gone_ms=1))
    held = {POD: 8, replace_uid(POD, "gone"): 3}
    assert workload_table(known(looked(training(pods=pods)), held=held)).gpus == [8]


def replace_uid(pod: PodKey, uid: str) -> PodKey:
    return pod._replace(uid=uid)


def test_a_run_whose_workload_nobody_knows_stands_by_itself() -> None:
    alone = JobView(None, None, 0, None, None, serves=False, run=RUN)
    findings = (finding(Severity.WARNING, "it diverges", Subject(run=RUN.run)),)
    table = workload_table(known(looked(alone), findings=findings))
    assert (table.kind, table.name, table.cluster) == (["Run"], ["lr 3e-4"], [""])
    assert table.health == ["warning"]


def test_several_runs_of_one_workload_are_one_row() -> None:
    table = workload_table(known(looked(training(), training(rows=(), run=replace(RUN, run=RunId("old"))))))
    assert (table.name, table.run) == (["train"], ["run-1"])


def test_health_is_the_gravest_and_an_incident_says_more_than_a_finding() -> None:
    chat = JobView(CHAT, None, 0, Phase.RUNNING, NOW_MS, serves=True)
    kept = looked(training(), chat)
    findings = (
        finding(Severity.WARNING, "slow", Subject(workload=TRAIN)),
        finding(Severity.CRITICAL, "it stalls", Subject(workload=TRAIN)),
    )
    alone = workload_table(known(kept, findings=findings))
    assert (alone.health, alone.health_text) == (["critical", "ok"], ["it stalls", None])
    assert alone.incident == [None, None]
    incidents = (incident(Severity.CRITICAL, "node-a broke", "ml/PyTorchJob/train", "web/Deployment/chat"),)
    table = workload_table(known(kept, findings=findings, incidents=incidents))
    assert table.health_text == ["node-a broke", "node-a broke"]
    assert table.incident == ["i1", "i1"]


def history(key: WorkloadKey, to_ms: int | None) -> WorkloadHistory:
    member = MembershipInterval(Membership(replace_uid(POD, key.uid), key), "node-a", NOW_MS - HOUR_MS, to_ms)
    phase = PhaseInterval(key, 0, Phase.SUCCEEDED, "", NOW_MS - 60_000, to_ms)
    return WorkloadHistory(Workload(key, team="vision"), [member], [phase])


def test_what_is_gone_comes_after_what_is_there() -> None:
    gone = gone_workloads([history(OVER, NOW_MS - 1_000), history(CHAT, None), history(TRAIN, NOW_MS)])
    assert [one.key for one in gone] == [OVER, TRAIN]
    spent = {OVER: Spent(1_000_000_000, None)}
    table = workload_table(known(looked(training()), gone=gone, spent=spent))  # train was made again
    assert table.name == ["train", "over"]
    assert (table.phase, table.gone_ms) == (["running", "succeeded"], [None, NOW_MS - 1_000])
    assert (table.health, table.gpus, table.cost) == (["ok", None], [2, 0], [None, 1.0])
    columns = [getattr(table, name) for name in table.__struct_fields__[2:]]
    assert {len(column) for column in columns} == {2}


def money_of(book: LedgerBook, now_ms: int) -> WorkloadMoney:
    return WorkloadMoney(book, lambda: "USD", lambda: now_ms)


def test_cost_is_of_the_last_days_and_goodput_of_the_last() -> None:
    now_ms = NOW_MS // HOUR_MS * HOUR_MS + 60_000
    this_ms, old_ms = now_ms // HOUR_MS * HOUR_MS, now_ms // HOUR_MS * HOUR_MS - 48 * HOUR_MS
    train = Holder(workload=TRAIN)
    book = MemoryBook(
        hour(old_ms, row(old_ms, train, Bucket.STALLED)),
        hour(
            this_ms,
            row(this_ms, train, Bucket.PRODUCTIVE, ms=HOUR_MS // 2),
            row(this_ms, train, Bucket.DATA_WAIT, ms=HOUR_MS // 2),
            row(this_ms, Holder(workload=CHAT), Bucket.SERVING_BUSY, price=None),
        ),
    )
    spent = money_of(book, now_ms).figures(QueryGuard())
    assert spent[TRAIN] == Spent(2 * PRICE, 0.5)
    assert spent[CHAT].amount is None


def test_time_without_a_price_counts_for_goodput_as_any_other() -> None:
    now_ms = NOW_MS // HOUR_MS * HOUR_MS + 60_000
    this_ms = now_ms // HOUR_MS * HOUR_MS
    train, part_ms = Holder(workload=TRAIN), HOUR_MS // 4
    priced = row(this_ms, train, Bucket.PRODUCTIVE, ms=3 * part_ms)
    unpriced = row(this_ms, train, Bucket.DATA_WAIT, ms=part_ms, price=None)
    for rows in ((priced, unpriced), (unpriced, priced)):
        spent = money_of(MemoryBook(hour(this_ms, *rows)), now_ms).figures(QueryGuard())
        assert spent[TRAIN] == Spent(None, 0.75)


class Counted(MemoryBook):
    asked = 0

    def sums(self, *args: Any, **more: Any) -> Any:
        self.asked += 1
        return super().sums(*args, **more)


def test_money_is_added_up_when_an_hour_was_booked_as_long_as_somebody_looks() -> None:
    book = Counted()
    money = money_of(book, NOW_MS)
    money.booked(NOW_MS)
    assert book.asked == 0  # nobody looks
    money.figures(QueryGuard())
    first = book.asked
    money.figures(QueryGuard())
    assert book.asked == first  # known
    money.booked(NOW_MS + 60_000)
    assert first < book.asked < 2 * first  # the days that are over are not added up again
    money.booked(NOW_MS + HOUR_MS)
    assert book.asked < 2 * first  # nobody has looked for long


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    api = Api()
    costs: Any = SimpleNamespace(look=lambda *_: None, of=lambda _: Decimal(4), currency="USD")
    records: Any = SimpleNamespace(during=lambda *_, **__: [history(OVER, NOW_MS)])
    held: Sequence[GpuBinding] = [GpuBinding(GpuKey(GpuUuid("GPU-1")), POD, "main", None, ())]
    gpus: Any = SimpleNamespace(held=held)
    money = money_of(MemoryBook(), NOW_MS)
    table = WorkloadTableApi(
        looked(training()), records, money, costs, gpus, DetectionState, list, None, api.questions
    )
    with running(build_app(replace(api.parts(), pages=PageApis((table,))))) as address:
        yield address


def test_over_http(url: str) -> None:
    answer = httpx.get(f"{url}/api/workload-table")
    assert answer.json()["data"]["name"] == ["train"]
    assert answer.json()["data"]["cost_per_hour"] == [4.0]
    assert "no look since" in answer.json()["warnings"][0]
    every = httpx.get(f"{url}/api/workload-table", params={"state": "all"})
    assert every.json()["data"]["name"] == ["train", "over"]
    wrong = httpx.get(f"{url}/api/workload-table", params={"state": "asleep"})
    assert (wrong.status_code, wrong.json()["errorType"]) == (400, "bad_data")


def test_the_schema_is_that_of_the_answer(url: str) -> None:
    types = httpx.get(f"{url}/api/openapi.json").json()["components"]["schemas"]
    answer = httpx.get(f"{url}/api/workload-table").json()["data"]
    assert set(answer) == set(types["WorkloadTable"]["properties"])
