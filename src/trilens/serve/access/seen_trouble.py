"""Findings and incidents as a sight shows them: those of own workloads, without the names of others.

An incident that hits several is cut: what is told of others goes, what is told of a machine is told in plain
words, and what all of it cost is not told. One that hits own workloads alone is shown as it is, the fault of
the machine included.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from trilens.model.finding import Severity, Subject
from trilens.model.incident import MomentKind
from trilens.model.workload import WorkloadKey
from trilens.serve.access.seen_workloads import shown_keys
from trilens.serve.pages.incident_names import clusters_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.model.finding import FindingInterval
    from trilens.model.incident import Incident, Symptom
    from trilens.model.query import QueryGuard
    from trilens.serve.access.seen_workloads import Workloads
    from trilens.serve.access.sight import Sight

_TOLD: Final = frozenset({MomentKind.ONSET, MomentKind.DETECTED, MomentKind.RESOLVED})
_ELSEWHERE: Final = "hit by something that is not this team's alone"


def seen_findings(
    found: Sequence[FindingInterval], workloads: Workloads, sight: Sight, guard: QueryGuard | None = None
) -> Sequence[FindingInterval]:
    if sight.is_whole:
        return found
    eyes = _Eyes(workloads, sight, [one.finding.subject for one in found], guard)
    return [one for one in found if eyes.see(one.finding.subject)]


def seen_incidents(
    found: Sequence[Incident], workloads: Workloads, sight: Sight, guard: QueryGuard | None = None
) -> list[Incident]:
    if sight.is_whole:
        return list(found)
    named = [_named(one) for one in found]
    subjects = [subject for one in found for subject in _subjects(one)]
    keys = [key for names in named for every in names.values() for key in every]
    eyes = _Eyes(workloads, sight, subjects, guard, keys)
    cut = (_seen(one, names, eyes) for one, names in zip(found, named, strict=True))
    return [one for one in cut if one is not None]


class _Eyes:
    """One question for all that is looked at."""

    def __init__(
        self,
        workloads: Workloads,
        sight: Sight,
        subjects: Iterable[Subject],
        guard: QueryGuard | None,
        others: Iterable[WorkloadKey] = (),
    ) -> None:
        keys = {one.workload for one in subjects if one.workload is not None}
        self._sight = sight
        self._shown = shown_keys(workloads, sight, keys.union(others), guard)

    def see(self, subject: Subject) -> bool:
        """What is in no workload is a team's where a rule says so."""
        if subject.workload is not None:
            return subject.workload in self._shown
        return self._sight.shows(subject.cluster, subject.team)

    def see_machine_in(self, subject: Subject) -> bool:
        """Machines are shared by those who see their cluster: of another's nothing is told."""
        return _is_of_machine(subject) and self._sight.shows_cluster(subject.cluster)

    def see_all(self, keys: Iterable[WorkloadKey]) -> bool:
        return self._shown.issuperset(keys)


def _seen(incident: Incident, named: dict[str, list[WorkloadKey]], eyes: _Eyes) -> Incident | None:
    names = tuple(name for name in incident.workloads if named[name] and eyes.see_all(named[name]))
    own = [one for one in incident.symptoms if eyes.see(one.subject)]
    if not names and not own:
        return None
    hits_nobody_else = names == incident.workloads
    if hits_nobody_else and all(eyes.see(one) or eyes.see_machine_in(one) for one in _subjects(incident)):
        return incident
    symptoms = [
        one if eyes.see(one.subject) else _in_plain_words(one)
        for one in incident.symptoms
        if eyes.see(one.subject) or eyes.see_machine_in(one.subject)
    ]
    root = symptoms[0] if symptoms else None
    return replace(
        incident,
        severity=min((one.severity for one in symptoms), key=_gravity, default=incident.severity),
        title=root.text if root is not None else f"{', '.join(names)}: {_ELSEWHERE}",
        subject=root.subject if root is not None else Subject(),
        workloads=names,
        symptoms=tuple(symptoms),
        timeline=tuple(one._replace(text="") for one in incident.timeline if one.kind in _TOLD),
        lost_quanta=None,
        currency=None,
        acknowledged_by="",
        more_symptoms=0,
    )


def _in_plain_words(symptom: Symptom) -> Symptom:
    where = symptom.subject.node or symptom.subject.cluster or "a machine"
    return replace(symptom, text=f"{symptom.name} on {where}", action="", labels=())


def _is_of_machine(subject: Subject) -> bool:
    """And of nobody who uses it."""
    whose = (subject.workload, subject.team, subject.run, subject.pod, subject.job_name)
    return all(one is None for one in whose) and subject.node is not None


def _subjects(incident: Incident) -> list[Subject]:
    return [incident.subject, *(one.subject for one in incident.symptoms)]


def _named(incident: Incident) -> dict[str, list[WorkloadKey]]:
    """Whom it may mean by each name: what it is made of tells, or where it is."""
    told = {one.workload for one in _subjects(incident) if one.workload is not None}
    found: dict[str, list[WorkloadKey]] = {}
    for written in incident.workloads:
        namespace, _, rest = written.partition("/")
        kind, _, name = rest.partition("/")
        exact = [one for one in told if (one.namespace, one.kind, one.name) == (namespace, kind, name)]
        clusters = sorted(clusters_of(incident)) or [""]
        found[written] = exact or [WorkloadKey(one, namespace, "", kind, name, "") for one in clusters]
    return found


def _gravity(severity: Severity) -> int:
    return severity.gravity
