"""What of an incident somebody sees who is bound to clusters: nothing of a machine of another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from empty_records import NoRecords
from trilens.model.finding import Severity, Subject
from trilens.model.incident import Incident, IncidentState, Symptom, SymptomKind
from trilens.model.workload import WorkloadKey
from trilens.serve.access.seen_trouble import seen_incidents
from trilens.serve.access.sight import Sight

OWN = WorkloadKey("lab", "ml", "batch", "Job", "train", "u1")
LAB = Sight(clusters=frozenset({"lab"}))


class NoWorkloads(NoRecords):
    def called(self, *_: object) -> list[Any]:
        return []


def symptom(name: str, subject: Subject) -> Symptom:
    return Symptom(SymptomKind.ALERT, name, name, subject, Severity.CRITICAL, 0, f"{name} told", "do it")


def incident(root: Symptom) -> Incident:
    """Of a workload of the lab, which it stops."""
    effect = symptom("D001", Subject(OWN, cluster="lab"))
    state, workloads = IncidentState.OPEN, ("ml/Job/train",)
    title, subject = root.text, root.subject
    return Incident("i", state, root.severity, title, subject, workloads, (root, effect), (), 0, 0)


@pytest.mark.parametrize("cluster", ["prod", None])
def test_a_machine_of_another_cluster_is_not_told_of(cluster: str | None) -> None:
    whole = incident(symptom("NodeDown", Subject(cluster=cluster, node="secret-1")))
    (cut,) = seen_incidents([whole], NoWorkloads(), LAB)
    assert "secret-1" not in repr(cut)
    assert "NodeDown" not in repr(cut)
    assert (cut.title, [one.name for one in cut.symptoms]) == ("D001 told", ["D001"])


def test_nor_in_plain_words_to_a_team_in_one_cluster() -> None:
    """Who sees teams alone sees the machines that these are on, wherever they are."""
    whole = incident(symptom("NodeDown", Subject(cluster="prod", node="secret-1")))
    nobodys = Sight(frozenset({"lab"}), frozenset({"nlp"}))
    effect = symptom("D002", Subject(team="nlp", cluster="lab"))
    several = replace(whole, symptoms=(*whole.symptoms, effect))
    (cut,) = seen_incidents([several], NoWorkloads(), nobodys)
    assert [one.name for one in cut.symptoms] == ["D002"]
    (cut,) = seen_incidents([several], NoWorkloads(), Sight(teams=frozenset({"nlp"})))
    assert [one.text for one in cut.symptoms] == ["NodeDown on secret-1", "D002 told"]


def test_a_machine_of_the_own_cluster_is() -> None:
    whole = incident(symptom("NodeDown", Subject(cluster="lab", node="gpu-1")))
    assert seen_incidents([whole], NoWorkloads(), LAB) == [whole]
