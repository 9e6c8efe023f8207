"""Whether a run's checkpoints are written, and what keeps them from it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.diagnose.answer import Answer, evidence
from trilens.diagnose.case_file import LogKind
from trilens.model.finding import Subject
from trilens.model.verdict import Fact, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.diagnose.case import Case
    from trilens.diagnose.case_file import CaseAlert, LogText

_FAILED: Final = "TrainingCheckpointFailed"
_OVERDUE: Final = "TrainingCheckpointOverdue"
_CHECKPOINT: Final = re.compile(r"checkpoint", re.IGNORECASE)
_WRONG: Final = re.compile(
    r"\b\w*Error\b|\bErrno \d+|not written|could not|cannot|fail(?:ed|ure)|refused", re.IGNORECASE
)
_WRITTEN: Final = re.compile(r"\b(?:written|saved|wrote|complete[d]?)\b", re.IGNORECASE)
# What storage says, by what has to be done about it.
_SAID: Final = {
    "full": re.compile(r"No space left|Disk quota exceeded|Errno (?:28|122)\b|quota", re.IGNORECASE),
    "denied": re.compile(r"Permission denied|Read-only file system|AccessDenied|Forbidden|Errno (?:13|30)\b"),
}
_BY_ALERT: Final = 0.75  # that it fails is sure, with what is not
_LENGTH: Final = 300


def checkpoint_alerts(case: Case) -> list[CaseAlert]:
    return [one for one in case.file.alerts if one.labels.get("alertname") in (_FAILED, _OVERDUE)]


def failed_writes(case: Case) -> list[tuple[LogText, str]]:
    """What its programs wrote of checkpoints that failed, since the last that was written."""
    return [found for log in case.file.logs for found in _failed_in(log)]


def _failed_in(log: LogText) -> Iterator[tuple[LogText, str]]:
    failed: list[str] = []
    for line in log.lines if log.kind is not LogKind.KERNEL else ():
        if _CHECKPOINT.search(line) is None:
            continue
        if _WRONG.search(line) is not None:
            failed.append(line)
        elif _WRITTEN.search(line) is not None:
            failed.clear()
    yield from ((log, line) for line in failed)


def _last_written(case: Case) -> str | None:
    """What tells of the last one that was written, where that is what was written last of any."""
    for log in case.file.logs:
        told = [line for line in log.lines if _CHECKPOINT.search(line) is not None]
        last = told[-1] if told and log.kind is not LogKind.KERNEL else ""
        if _WRITTEN.search(last) is not None and _WRONG.search(last) is None:
            return last
    return None


@evidence("full", "denied", "error", "again", "late")
def checkpoint_writes(case: Case) -> Answer:
    alerts, failed = checkpoint_alerts(case), failed_writes(case)
    facts = [
        Fact(one.annotations.get("summary", one.labels["alertname"]), "alert", one.active_ms)
        for one in alerts
    ]
    facts += [Fact(line[:_LENGTH], f"log of {log.pod.name if log.pod else log.name}") for log, line in failed]
    if failed:
        log, line = failed[-1]
        how = next((word for word, sign in _SAID.items() if sign.search(line)), "error")
        often = "once" if len(failed) == 1 else f"{len(failed)} times"
        names = {"save_error": line[:_LENGTH], "saves": f"{often} in its last lines"}
        subject = Subject(pod=log.pod, node=log.node or None)
        return Answer((how,), tuple(facts), 1.0, names, subject=subject)
    if alerts and (written := _last_written(case)) is not None:
        return Answer(("again",), tuple(facts), names={"written": written[:_LENGTH]})
    if any(one.labels["alertname"] == _FAILED for one in alerts):
        missing = Missing("why writing does not end well", "trilens runs show RUN has the error of each")
        names = {"save_error": "with what, its log does not say", "saves": "in the last quarter of an hour"}
        return Answer(("error",), tuple(facts), _BY_ALERT, names, (missing,))
    if alerts:
        return Answer(("late",), tuple(facts), names={"late": facts[0].text})
    missing = Missing("its checkpoints", "have the program call run.checkpoint(): docs/sdk.md")
    return replace(Answer.unknown(missing), names={"late": "nothing tells of one"})
