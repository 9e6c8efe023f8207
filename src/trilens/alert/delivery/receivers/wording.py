"""What people read, wherever they read it."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from trilens.alert.delivery.notice import Notice, Occasion, SymptomNote
from trilens.model.incident import SymptomKind

if TYPE_CHECKING:
    from collections.abc import Sequence

_SHOWN: Final = 8  # symptoms and workloads: whoever needs more follows the link
_PLACES: Final = ("cluster", "namespace", "workload", "run", "rank", "pod", "node", "UUID")


def test_notice() -> Notice:
    """Of nothing: to see that messages arrive."""
    now_ms = time.time_ns() // 1_000_000
    text = "A test of Trilens: nothing is wrong"
    labels = {"alertname": "TrilensTest", "severity": "info"}
    note = SymptomNote("alert/test", "alert", "TrilensTest", "info", text, "Nothing.", labels, now_ms)
    return Notice(f"test-{now_ms}", Occasion.TEST, False, "info", text, labels, (), (note,), now_ms, now_ms)


def headline(notice: Notice) -> str:
    """One line: what it is about, and why it is told now."""
    if notice.occasion is Occasion.TEST:
        return notice.title
    if notice.merged_into is not None:
        return f"[goes on as {notice.merged_into}] {notice.title}"
    by = f" by {notice.acknowledged_by}" if notice.acknowledged_by else ""
    word = {
        Occasion.OPENED: notice.severity,
        Occasion.CHANGED: f"{notice.severity}, changed",
        Occasion.REPEATED: f"{notice.severity}, still",
        Occasion.ACKNOWLEDGED: f"acknowledged{by}",
        Occasion.RESOLVED: "resolved",
    }[notice.occasion]
    return f"[{word}] {notice.title}"


def where(notice: Notice) -> str:
    """`namespace=ml workload=llm rank=3 node=gpu-7`"""
    named = [f"{name}={notice.labels[name]}" for name in _PLACES if notice.labels.get(name)]
    return " ".join(named)


def when(notice: Notice) -> str:
    since = f"since {moment(notice.onset_ms)}"
    if notice.resolved_ms is None:
        return since
    return f"{since} until {moment(notice.resolved_ms)} ({_length(notice.resolved_ms - notice.onset_ms)})"


def followers(notice: Notice) -> list[str]:
    """What follows from the root, a line each."""
    others = notice.symptoms[1:]
    lines = [f"{one.name}: {one.text}" + (" (over)" if _has_ended(one) else "") for one in others]
    return few(lines, notice.more_symptoms)


def _has_ended(symptom: SymptomNote) -> bool:
    """An event is one moment: that it is over says nothing."""
    return symptom.ended_ms is not None and symptom.kind != SymptomKind.EVENT


def few(lines: Sequence[str], untold: int = 0) -> list[str]:
    more = max(len(lines) - _SHOWN, 0) + untold
    return [*lines[:_SHOWN], f"and {more} more"] if more > 0 else list(lines)


def plain_text(notice: Notice) -> str:
    """The whole message, a fact a line."""
    facts = [
        ("where", where(notice)),
        ("when", when(notice)),
        ("do now", notice.action if not notice.is_resolved else ""),
        ("lost", notice.lost or ""),
        ("suffers", ", ".join(few(notice.workloads))),
        ("look", notice.url),
        ("incident", notice.incident),
    ]
    lines = [headline(notice), ""]
    if notice.root is not None and notice.root.text != notice.title:
        lines += [notice.root.text, ""]
    lines += [f"{name + ':':10}{text}" for name, text in facts if text]
    if following := followers(notice):
        lines += ["", "What follows from it:", *(f"- {line}" for line in following)]
    return "\n".join(lines) + "\n"


def moment(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _length(length_ms: int) -> str:
    seconds = max(length_ms, 0) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"
