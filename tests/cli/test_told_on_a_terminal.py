"""Incidents, findings and alerts as people read them, on a terminal and in a pipe."""

from __future__ import annotations

import getpass
import sys
from typing import Any

import pytest

from trilens.cli.alerts import _subject
from trilens.cli.incident_text import show_incident, show_incidents
from trilens.cli.paragraph import say
from trilens.cli.user import user_name

TITLE = "Xid 79 on GPU 2 of gpu-17: the GPU has fallen off the bus"


def symptom(kind: str, name: str, text: str, *, code: str = "", over: bool = False) -> dict[str, Any]:
    labels = {"code": code} if code else {}
    return {"kind": kind, "name": name, "text": text, "labels": labels, "ended_ms": 9_000 if over else None}


def incident(*symptoms: dict[str, Any], more: int = 0) -> dict[str, Any]:
    return {
        "id": "20261115-0312-9f3a",
        "severity": "critical",
        "title": TITLE,
        "action": "Drain gpu-17.",
        "workloads": ["ml/PyTorchJob/llm"],
        "lost": "38.204",
        "currency": "USD",
        "onset_ms": 1_794_712_324_567,
        "resolved_ms": None,
        "acknowledged_ms": None,
        "acknowledged_by": None,
        "merged_into": None,
        "told": [],
        "held_back": [],
        "symptoms": list(symptoms),
        "more_symptoms": more,
        "timeline": [{"t_ms": 1_794_712_324_567, "kind": "onset", "text": TITLE}],
    }


FAULT = incident(
    symptom("finding", "D009", TITLE, code="D009"),
    symptom("alert", "FindingGpuFault", "the same in other words", code="D009"),
    symptom("finding", "D010", "a rank has crashed", code="D010", over=True),
    symptom("event", "xid 79", "GPU has fallen off the bus.", over=True),
    symptom("finding", "D001", "no step for 3 min", code="D001"),
    symptom("alert", "GpuLost", "GPU 2 of gpu-17 no longer reports"),
)


def test_a_list_has_what_lasts_and_says_nothing_twice(capsys: pytest.CaptureFixture[str]) -> None:
    show_incidents([FAULT])
    assert capsys.readouterr().out.splitlines() == [
        "critical  20261115-0312-9f3a  since 2026-11-15T03:12:04Z",
        f"          {TITLE}",
        "    do:   Drain gpu-17.",
        "    hits: ml/PyTorchJob/llm",
        "    lost: 38.20 USD",
        "    D001: no step for 3 min",
        "    GpuLost: GPU 2 of gpu-17 no longer reports",
        "          and 3 more: trilens incidents 20261115-0312-9f3a",
    ]


def test_a_list_stays_short(capsys: pytest.CaptureFixture[str]) -> None:
    show_incidents([incident(*(symptom("alert", f"A{at}", f"text {at}") for at in range(9)), more=2)])
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "    A4:   text 4",
        "          and 6 more: trilens incidents 20261115-0312-9f3a",
    ]


def test_one_incident_has_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    show_incident(FAULT)
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if line.endswith("(over)")] == ["    D010: a rank has crashed  (over)"]
    assert [one["name"] for one in FAULT["symptoms"] if not any(one["name"] in line for line in shown)] == []
    assert shown[-1] == f"2026-11-15T03:12:04Z  onset         {TITLE}"


def test_who_was_told_and_why_nobody_is(capsys: pytest.CaptureFixture[str]) -> None:
    def reason(why: str, name: str | None, text: str, until_ms: int | None = None) -> dict[str, Any]:
        return {"why": why, "name": name, "text": text, "until_ms": until_ms}

    held_back = [
        reason("silence", "1a2b", "ada: we know", 1_794_712_324_567),
        reason("inhibited", None, 'while there is alertname="NodeNotReady"'),
        reason("quiet", "ml", "told afterwards, if it still lasts"),
        reason("no-receiver", None, "no receivers are set"),
    ]
    one = {**FAULT, "told": ["ops", "mail"], "held_back": held_back}
    told = [
        "    told: ops, mail",
        "    mute: silence 1a2b until 2026-11-15T03:12:04Z (ada: we know)",
        '    mute: inhibited while there is alertname="NodeNotReady"',
        "    mute: quiet time of ml: told afterwards, if it still lasts",
    ]
    show_incidents([one])
    assert [line for line in capsys.readouterr().out.splitlines() if line[4:9] in ("told:", "mute:")] == told
    show_incident(one)
    assert "    mute: no receivers are set" in capsys.readouterr().out.splitlines()


def test_a_terminal_folds_sentences_and_tears_no_name_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "restart research/a-workload-with-a-name-that-is-longer-than-the-line from its checkpoint"
    say(text, "do:")
    assert capsys.readouterr().out == f"    do:   {text}\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    say(text, "do:")
    assert capsys.readouterr().out.splitlines() == [
        "    do:   restart",
        "          research/a-workload-with-a-name-that-is-longer-than-the-line",
        "          from its checkpoint",
    ]


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (
            {"cluster": "lab", "namespace": "ml", "workload": "llm", "rank": "3", "UUID": "GPU-1"},
            "lab/ml/llm rank=3",
        ),
        ({"node": "gpu-1", "gpu": "2", "UUID": "GPU-1"}, "node=gpu-1 gpu=2"),
        ({"node": "gpu-1", "UUID": "GPU-1"}, "node=gpu-1 UUID=GPU-1"),
        ({"alertname": "A"}, "-"),
    ],
    ids=["rank", "index", "only a UUID", "nothing"],
)
def test_whom_an_alert_is_about(labels: dict[str, str], told: str) -> None:
    assert _subject(labels) == told


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4242")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert user_name() == ""
