"""What an incident stands for where somebody asks why: whom it hits, and its time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trilens.model.errors import RequestError
from trilens.model.finding import Severity, Subject
from trilens.model.incident import Incident, IncidentState, Symptom, SymptomKind
from trilens.model.labels import make_labels
from trilens.model.workload import PodKey, WorkloadKey
from trilens.serve.cases.wish import INCIDENT, Wish

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
NOW_MS = 100 * HOUR_MS
ASKED = Wish("20260101-0312-9f3a", "ml", NOW_MS - HOUR_MS, NOW_MS, executes=True)
JOB = Subject(workload=WorkloadKey("lab", "ml", "batch", "Job", "train", "u"), node="n1")
NOBODY = Subject(job_name="dcgm")


def _incident(*subjects: Subject, onset_ms: int = NOW_MS - MINUTE_MS) -> Incident:
    symptoms = tuple(
        Symptom(SymptomKind.ALERT, str(number), "GpuLost", one, Severity.CRITICAL, onset_ms, "lost", "")
        for number, one in enumerate(subjects)
    )
    return Incident(
        "20260101-0312-9f3a",
        IncidentState.OPEN,
        Severity.CRITICAL,
        "lost",
        subjects[0],
        (),
        symptoms,
        (),
        onset_ms,
        onset_ms,
    )


@pytest.mark.parametrize(
    ("subjects", "written"),
    [
        ((JOB,), "lab/ml/Job.batch/train"),
        ((Subject(pod=PodKey("lab", "ml", "p", "u"), node="n1"),), "lab/ml/pod/p"),
        ((Subject(node="n1", cluster="lab"),), "lab/node/n1"),
        ((Subject(node="n1"),), "node/n1"),
        ((NOBODY, JOB), "lab/ml/Job.batch/train"),  # the root names nobody, and what follows from it does
    ],
)
def test_whom_it_hits(subjects: tuple[Subject, ...], written: str) -> None:
    asked = ASKED.of_incident(_incident(*subjects))
    assert (asked.written, asked.namespace, asked.executes) == (written, None, True)
    assert INCIDENT.fullmatch(ASKED.written)
    assert not INCIDENT.fullmatch("train-20260101-0312")


def test_one_that_hits_nobody_is_refused() -> None:
    with pytest.raises(RequestError, match="about no workload, pod or node"):
        ASKED.of_incident(_incident(NOBODY))


def test_the_time_of_one_that_lasts_is_until_now_and_from_before_it_began() -> None:
    short = ASKED.of_incident(_incident(JOB))
    assert (short.from_ms, short.to_ms) == (ASKED.from_ms, NOW_MS)
    long = ASKED.of_incident(_incident(JOB, onset_ms=NOW_MS - 5 * HOUR_MS))
    assert (long.from_ms, long.to_ms) == (NOW_MS - 5 * HOUR_MS - 30 * MINUTE_MS, NOW_MS)


def test_the_time_of_one_that_is_over_ends_with_it() -> None:
    began = NOW_MS - 20 * HOUR_MS
    over = replace(_incident(JOB, onset_ms=began), resolved_ms=began + HOUR_MS)
    asked = ASKED.of_incident(over)
    assert (asked.from_ms, asked.to_ms) == (began - 30 * MINUTE_MS, began + HOUR_MS + 5 * MINUTE_MS)


NODE = Subject(cluster="lab", node="n1")
ROWS = {"finding": "gpu-fault", "cause": "row-remap-pending"}
OFTEN = {"alertname": "NodeRepeatOffender"}
LOST = {"finding": "gpu-fault", "cause": "lost"}


def _of_days(subject: Subject, *told: dict[str, str], ended: int = 0) -> Incident:
    """Its symptoms, the root first; so many of them have ended."""
    incident = _incident(subject, *[subject] * (len(told) - 1), onset_ms=NOW_MS - 72 * HOUR_MS)
    symptoms = [
        replace(one, labels=make_labels(labels), ended_ms=one.onset_ms if number < ended else None)
        for number, (one, labels) in enumerate(zip(incident.symptoms, told, strict=True))
    ]
    return replace(incident, symptoms=tuple(symptoms))


@pytest.mark.parametrize(
    "incident",
    [
        _of_days(NODE, ROWS),
        _of_days(NODE, OFTEN),
        _of_days(JOB, ROWS),  # which has that GPU
        _of_days(NODE, LOST, OFTEN, ended=1),  # that the GPU broke is over
    ],
)
def test_a_weakness_that_lasts_for_days_is_asked_about_in_the_time_that_was_wished(
    incident: Incident,
) -> None:
    asked = ASKED.of_incident(incident)
    assert (asked.from_ms, asked.to_ms) == (ASKED.from_ms, NOW_MS)


@pytest.mark.parametrize(
    "incident",
    [
        _of_days(NODE, LOST, OFTEN),
        _of_days(JOB, LOST, OFTEN, ended=1),  # it fell then, and that explains it
    ],
)
def test_what_broke_days_ago_is_asked_about_since_then(incident: Incident) -> None:
    assert ASKED.of_incident(incident).from_ms == NOW_MS - 72 * HOUR_MS - 30 * MINUTE_MS


def test_a_weakness_that_is_over_has_its_time() -> None:
    over = replace(_of_days(NODE, ROWS, ended=1), resolved_ms=NOW_MS - 71 * HOUR_MS)
    assert ASKED.of_incident(over).from_ms == NOW_MS - 72 * HOUR_MS - 30 * MINUTE_MS
