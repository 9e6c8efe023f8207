"""What `trilens top` asks for and how it is laid out, without a terminal."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from command_here import trilens_here
from http_target import HttpTarget
from trilens.cli.failure import report
from trilens.cli.top.cells import length_cell, money_cell, plain
from trilens.cli.top.choice import Order, worst_first
from trilens.cli.top.columns import placed
from trilens.cli.top.curves import curve
from trilens.cli.top.head_text import incidents_line, money_line, state_text
from trilens.cli.top.marks import ASCII, UNICODE, marks
from trilens.cli.top.picture import Head, Told, Workload
from trilens.cli.top.reading import Reader, head_of, workloads_of
from trilens.cli.top.tables import rank_columns, workload_columns
from trilens.serve.pages.workload_table_answers import WorkloadTable

HEAD = Head(
    "USD",
    Decimal("369.6"),
    (("busy", 46), ("wasted", 9), ("idle", 8), ("broken", 1), ("unknown", 0)),
    (Told("critical", "20261116-0432-64b1", "ml/llm has hung", 0, lost=Decimal("40.2")),),
    lost=Decimal("12140.2"),
)
# As /api/now answers, of a fleet without anything.
QUIET: dict[str, Any] = {
    "currency": "USD",
    "burn": None,
    "gpus": [],
    "incidents": [],
    "more_incidents": 0,
    "incidents_lost": None,
}


def workload(name: str, **known: Any) -> Workload:
    return Workload("lab", "ml", "Job", name, currency="USD", **known)


def table(*names: str, **columns: list[Any]) -> dict[str, Any]:
    """As /api/workload-table answers: its own type says which columns there are."""
    empty: dict[str, Any] = {name: [None] * len(names) for name in WorkloadTable.__struct_fields__}
    given = {"at_ms": 1, "currency": "USD", "name": list(names), **columns}
    for name, text in (("cluster", "lab"), ("namespace", "ml"), ("kind", "Job")):
        given.setdefault(name, [text] * len(names))
    given.setdefault("gpus", [8] * len(names))
    told: dict[str, Any] = msgspec.to_builtins(msgspec.convert({**empty, **given}, WorkloadTable))
    return told


def titles(width: int) -> list[str]:
    return [one.column.title for one in placed(workload_columns(UNICODE), width)]


def test_rows_are_made_of_columns_and_null_stays_unknown() -> None:
    found = workloads_of(
        table(
            "llm",
            "gone",
            health=["critical", None],
            health_text=["Job ml/llm makes no steps", None],
            cost=[12.5, None],
            step=[250, None],
            total_steps=[1000, None],
            gone_ms=[None, 7],
            phase=["running", "succeeded"],
        ),
        {("lab", "ml", "Job", "llm"): (0.5,)},
    )
    llm, gone = found
    assert (llm.path, llm.health, llm.health_text) == (
        "lab/ml/Job/llm",
        "critical",
        "makes no steps",
    )
    assert (llm.spent, llm.progress, llm.use, llm.is_over) == (Decimal("12.5"), 0.25, (0.5,), False)
    assert (gone.spent, gone.progress, gone.use, gone.is_over) == (None, None, (), True)
    assert (gone.health, workload_columns(UNICODE)[0].cell(gone)) == ("unknown", "-")
    assert worst_first([gone, replace(gone, name="ok", health="ok")])[-1] is gone


def test_the_head_is_what_the_first_page_has() -> None:
    told = {
        **QUIET,
        "gpus": [{"state": "busy", "gpus": 3, "per_hour": None}],
        "incidents": [{"severity": "warning", "id": "i", "title": "t", "onset_ms": 5, "lost": "1.50"}],
        "more_incidents": 2,
        "incidents_lost": "7.50",
    }
    head = head_of(told)
    assert (head.burn_per_hour, head.gpus, head.lost, head.more_incidents) == (
        None,
        (("busy", 3),),
        Decimal("7.50"),
        2,
    )


def test_on_a_narrow_screen_the_least_missed_go_and_none_is_too_wide() -> None:
    wide = titles(160)
    assert wide == [one.title for one in workload_columns(UNICODE)]
    assert titles(79) == [one for one in wide if one not in ("namespace", "step", "what is wrong")]
    for width in (40, 60, 79, 100, 160, 300):
        shown = placed(workload_columns(UNICODE), width)
        assert sum(one.width for one in shown) + len(shown) - 1 <= max(width, 57)
    assert [one.column.title for one in placed(rank_columns(UNICODE), 79)][:3] == ["rank", "pod", "node"]


def test_a_cell_is_as_wide_as_its_column() -> None:
    shown = placed(workload_columns(UNICODE), 79)
    for one in (
        workload("a-name-that-is-longer-than-it-can-be-shown", per_hour=Decimal(99_999_999)),
        workload("日本語の名前がここにあります", use=(0.1,) * 40),
        workload("x"),
    ):
        from rich.cells import cell_len

        assert [cell_len(column.text(one)) for column in shown] == [column.width for column in shown]


def test_of_a_curve_the_newest_is_shown_and_idle_looks_idle() -> None:
    use = next(one for one in placed(workload_columns(UNICODE), 79) if one.column.title == "use")
    assert use.text(workload("a", use=(1.0, 1.0, 0.0, 0.0, math.nan, 0.5, 1.0))) == "▁▁ ▅█"
    assert UNICODE.sparkline((0.0, 0.01)) == "▁▁"
    end_s = 1_800_000_000.0
    assert curve([[end_s - 60, "0.25"], [end_s, "0.5"]], end_s)[-2:] == (0.25, 0.5)
    assert math.isnan(curve([[end_s, "1"]], end_s)[0])


def test_unknown_sorts_last_whichever_way() -> None:
    columns = workload_columns(UNICODE)
    rows = [workload("a"), workload("b", gpus=1), workload("c", gpus=8)]
    order = Order(columns, next(at for at, one in enumerate(columns) if one.title == "gpus"))
    assert [one.name for one in order.sorted(rows)] == ["c", "b", "a"]
    order.turned = True
    assert [one.name for one in order.sorted(rows)] == ["b", "c", "a"]


def test_sorting_goes_by_what_is_shown() -> None:
    columns = workload_columns(UNICODE)
    order = Order(columns)
    shown = [one.column for one in placed(columns, 79)]
    seen = []
    for _ in shown:
        seen.append(order.column.title)
        order.move(1, shown)
    assert seen == [one.title for one in shown]
    assert order.at == 0


def test_what_is_wrong_comes_first_then_what_costs_most() -> None:
    rows = [
        workload("cheap", per_hour=Decimal(1)),
        workload("dear", per_hour=Decimal(90)),
        workload("ended", phase="failed", health="critical"),
        workload("ill", health="critical"),
        workload("slow", health="warning"),
    ]
    assert [one.name for one in worst_first(rows)] == ["ill", "slow", "dear", "cheap", "ended"]


def test_search_is_for_every_word_anywhere() -> None:
    one = workload("llm-7b", team="Vision", phase="running")
    assert one.has("") and one.has("LLM vis") and one.has("lab/") is False and not one.has("llm queued")


def test_the_head_in_words() -> None:
    line = money_line(HEAD, UNICODE, 100).plain
    assert line.startswith("burning $370 an hour   64 GPUs: 46 busy, 9 wasted, 8 idle, 1 broken   ███")
    assert line.count("✖") == 1
    assert len(line) <= 100
    assert "█" not in money_line(HEAD, UNICODE, 80).plain
    assert incidents_line(HEAD, 80).plain == "1 incident open, $12,140 lost   ml/llm has hung"
    assert len(incidents_line(HEAD, 30).plain) == 30
    assert money_line(Head(), UNICODE, 80).plain.startswith("burning unknown")


def test_old_is_said() -> None:
    assert state_text(1.0, None, is_paused=False).plain == "live"
    assert state_text(60.0, None, is_paused=False).plain == "OLD, 1m"
    assert state_text(60.0, "no answer", is_paused=False).plain == "OLD, 1m: no answer"
    assert state_text(60.0, None, is_paused=True).plain == "PAUSED, 1m old"


def test_cells() -> None:
    assert [money_cell(Decimal(x), "USD") for x in ("0.004", "55.04", "1638.4", "112140")] == [
        "<$0.01",
        "$55.04",
        "$1,638",
        "$112k",
    ]
    assert money_cell(None, "USD") == money_cell(Decimal(1), None) == "-"
    assert [length_cell(x) for x in (None, 45, 1707, 31530)] == ["-", "45s", "28m", "8h 45m"]
    assert plain("a\x1b[31mb\nc") == "a [31mb c"


class _Latin:
    encoding = "latin-1"


def test_a_terminal_without_unicode_gets_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", _Latin())
    assert marks() is ASCII
    assert money_line(HEAD, ASCII, 120).plain.isascii()
    assert all(one.text(workload("a", use=(0.5,))).isascii() for one in placed(workload_columns(ASCII), 160))


def test_one_frame_for_a_pipe() -> None:
    now = {**QUIET, "burn": {"per_hour": "369.6"}}
    found = table("a-name-longer-than-a-narrow-screen-has-room-for", "done", phase=["running", "succeeded"])
    with HttpTarget() as server:
        server.say(json.dumps({"status": "success", "data": now}), "/api/now")
        server.say(json.dumps({"status": "success", "data": found}), "/api/workload-table")
        url = f"http://{server.address}"
        said = trilens_here("top", "--once", "--server", url)
        every = trilens_here("top", "--once", "--all", "--server", url)
        live = trilens_here("top", "--server", url)
    assert said.returncode == 0, said.stderr
    first, second, heads, row = said.stdout.splitlines()
    assert (first, second) == ("burning $370 an hour   no GPU is known", "no incident is open")
    assert heads.split()[:2] == ["workload", "namespace"]
    assert row.split()[1:3] == ["a-name-longer-than-a-narrow-screen-has-room-for", "ml"]
    assert len(every.stdout.splitlines()) == 5
    assert (live.returncode, "trilens top --once" in live.stderr) == (2, True)


def test_one_workload_from_inside() -> None:
    def gpu(rank: int, attempt: int, to_ms: int | None = None) -> dict[str, Any]:
        told = {
            "rank": rank,
            "pod": f"llm-{rank}",
            "node": "gpu-1",
            "index": str(rank),
            "uuid": f"GPU-{rank}",
        }
        return {**told, "attempt": attempt, "to_ms": to_ms, "utilization": 0.9, "power_watts": None}

    whose = {"cluster": "lab", "namespace": "ml", "kind": "Job", "name": "llm"}
    finding = {"severity": "warning", "code": "D004", "text": "slow", "onset_ms": 1, "action": ""}
    incident = {
        "severity": "critical",
        "id": "i",
        "title": "hung",
        "onset_ms": 1,
        "action": None,
        "lost": "7",
        "workloads": ["ml/Job/llm"],
    }
    answers = {
        "/api/now": QUIET,
        "/api/workload-table": table("llm"),
        "/api/workloads/lab/ml/Job/llm": {
            "workload": {
                "gone": None,
                "phase": {"phase": "running", "reason": "", "seconds": 300},
                "members": {"ready": None, "total": 2},
                "team": None,
            },
            "spent": None,
            "gpus": [gpu(1, 1), gpu(0, 1), gpu(2, 1, to_ms=5), gpu(3, 0)],
        },
        "/api/incidents": [
            {**incident, "subject": {"cluster": "lab"}},
            {**incident, "id": "nowhere", "subject": {"cluster": None}},
            {**incident, "id": "elsewhere", "subject": {"cluster": "other"}},
            {**incident, "id": "of-another", "subject": {"cluster": "lab"}, "workloads": ["x/Job/llm"]},
        ],
        "/api/findings": [
            {**finding, "workload": whose},
            {**finding, "workload": {**whose, "namespace": "x"}},
            {**finding, "workload": None},
        ],
    }
    with HttpTarget() as server:
        for path, data in answers.items():
            server.say(json.dumps({"status": "success", "data": data}), path)
        reader = Reader(f"http://{server.address}")
        found = reader.ask(workload("llm")).opened
        gone = reader.ask(workload("gone")).opened
    assert found is not None
    assert found.lines == ("running for 5m, ? of 2 pods ready, team unknown",)
    assert [one.code for one in (*found.incidents, *found.findings)] == ["i", "nowhere", "D004"]
    # The server of this test evaluates no PromQL: what only it can tell is unknown.
    assert [(one.rank, one.utilization, one.celsius, one.step_s) for one in found.ranks] == [
        (0, 0.9, None, None),
        (1, 0.9, None, None),
    ]
    assert gone is not None
    assert (gone.is_known, len(gone.lines)) == (False, 1)


def test_without_textual_it_says_what_to_install(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(ImportError("no module", name="textual.app")) == 2
    assert "pip install 'trilens[top]'" in capsys.readouterr().err


@pytest.mark.parametrize("sent", [True, False])
def test_a_token_that_is_wrong_and_none_at_all_are_two_things(*, sent: bool) -> None:
    refusal = json.dumps({"status": "error", "error": "this server needs its token"})
    with HttpTarget() as server:
        server.say(refusal, "/api/now", status=401)
        environ = {"TRILENS_TOKEN": "old"} if sent else {}
        said = trilens_here("top", "--once", "--server", f"http://{server.address}", **environ)
    assert said.returncode == 2
    assert ("does not take the token that was sent" in said.stderr) is sent
    assert ("trilens login, or set TRILENS_TOKEN" in said.stderr) is not sent


def test_what_is_not_there_says_where_the_others_are() -> None:
    refusal = json.dumps({"status": "error", "error": "there is no incident 'x'"})
    with HttpTarget() as server:
        server.say(refusal, "/api/incidents/x", status=404)
        said = trilens_here("incidents", "x", "--server", f"http://{server.address}")
    assert said.stderr == (
        "trilens: there is no incident 'x' (trilens incidents --all lists those of the last day)\n"
    )
