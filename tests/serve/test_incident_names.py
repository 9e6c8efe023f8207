"""Of two clusters with workloads of one name, an incident means those of its own."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from trilens.model.finding import Severity, Subject
from trilens.model.incident import Incident, IncidentState, Symptom, SymptomKind
from trilens.model.workload import WorkloadKey
from trilens.serve.pages.fleet_health import WorkloadHealth
from trilens.serve.pages.incident_names import suffers
from trilens.serve.pages.now_money import incidents_now
from trilens.serve.pages.timeline_platform import troubles

EAST = WorkloadKey("east", "ml", "kubeflow.org", "PyTorchJob", "train", "u1")
WEST = EAST._replace(cluster="west", uid="u2")
NOWHERE = EAST._replace(cluster="", uid="u3")
NODE = Incident(
    "i1",
    IncidentState.OPEN,
    Severity.CRITICAL,
    "gpu-01 broke",
    Subject(cluster="east", node="gpu-01"),
    ("ml/PyTorchJob/train", "ml/PyTorchJob/other"),
    (),
    (),
    1_000,
    1_000,
)


def named(incident: Incident) -> list[bool]:
    found = [suffers(key, incident) for key in (EAST, WEST, NOWHERE)]
    health = WorkloadHealth((), [incident])
    assert found == [health.of(key) is not None for key in (EAST, WEST, NOWHERE)]
    assert found == [bool(troubles(key, [incident], ())) for key in (EAST, WEST, NOWHERE)]
    return found


def test_a_name_in_another_cluster_is_anothers() -> None:
    assert named(NODE) == [True, False, True], "of one whose cluster nobody knows it may be"
    assert named(replace(NODE, workloads=())) == [False, False, False]


def test_an_incident_whose_cluster_nobody_knows_may_mean_each() -> None:
    assert named(replace(NODE, subject=Subject(node="gpu-01"))) == [True, True, True]


def test_an_incident_of_two_clusters_means_both() -> None:
    there = Symptom(
        SymptomKind.FINDING, "k", "D001", Subject(workload=WEST), Severity.WARNING, 1_000, "it stalls", "look"
    )
    assert named(replace(NODE, symptoms=(there,))) == [True, True, True]


def test_it_costs_what_those_of_its_cluster_cost() -> None:
    per_hour = {"ml/PyTorchJob/train": {"east": 2 * 10**9, "west": 50 * 10**9}}
    money: Any = SimpleNamespace(per_hour=per_hour, currency="USD")
    (one,) = incidents_now([NODE], money)
    assert one.per_hour == "2"
    (one,) = incidents_now([replace(NODE, subject=Subject())], money)
    assert one.per_hour == "52"
