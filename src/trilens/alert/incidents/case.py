"""An incident as it is worked on, and how it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trilens.alert.incidents.causes import Trouble
from trilens.alert.incidents.joining import in_order, root_of, shared_domain
from trilens.alert.incidents.losses import Losses
from trilens.alert.incidents.told import workload_name
from trilens.model.finding import Severity
from trilens.model.incident import Incident, IncidentState, Moment, MomentKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trilens.alert.incidents.told import Told
    from trilens.model.incident import SymptomKind

    SymptomKey = tuple[SymptomKind, str]

MOST_SYMPTOMS: Final = 200  # of an incident, as it is shown and kept
_MOST_MOMENTS: Final = 300
_GRAVITY: Final = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}


@dataclass
class Case:
    id: str
    detected_ms: int
    symptoms: dict[SymptomKey, Told] = field(default_factory=dict)
    onset: Moment | None = None  # of the first, whether or not that is still among them
    moments: list[Moment] = field(default_factory=list)
    root: SymptomKey | None = None
    resolved_ms: int | None = None
    merged_into: str | None = None
    notified_ms: int | None = None
    acknowledged_ms: int | None = None
    acknowledged_by: str = ""
    severity: Severity = Severity.INFO
    losses: Losses = field(default_factory=Losses)

    def note(self, t_ms: int, kind: MomentKind, text: str) -> None:
        self.moments.append(Moment(t_ms, kind, text))
        if len(self.moments) > _MOST_MOMENTS:  # the first and the last are what anybody wants to know
            del self.moments[_MOST_MOMENTS // 2]

    def put(self, told: Told) -> None:
        symptom = told.symptom
        self.symptoms[told.key] = told
        if self.onset is None or symptom.onset_ms < self.onset.t_ms:
            self.onset = Moment(symptom.onset_ms, MomentKind.ONSET, symptom.text)
        if _GRAVITY[symptom.severity] < _GRAVITY[self.severity]:
            self.severity = symptom.severity

    def root_symptom(self) -> Told:
        known = self.symptoms.get(self.root) if self.root is not None else None
        return known if known is not None else root_of(list(self.symptoms.values()))

    def incident(self) -> Incident:
        """As it stands."""
        root = self.root_symptom()
        told = in_order(self.symptoms.values(), root)
        shown = _shown(told, root)
        onset, loss = self.onset, self.losses.loss
        assert onset is not None  # it begins with a symptom
        moments = sorted(self.moments, key=lambda one: one.t_ms)
        return Incident(
            id=self.id,
            state=IncidentState.OPEN if self.resolved_ms is None else IncidentState.RESOLVED,
            severity=self.severity,
            title=_title(root, told),
            subject=root.symptom.subject,
            workloads=_suffering(told),
            symptoms=tuple(one.symptom for one in shown),
            timeline=(onset, *moments),
            onset_ms=onset.t_ms,
            detected_ms=self.detected_ms,
            notified_ms=self.notified_ms,
            resolved_ms=self.resolved_ms,
            lost_quanta=loss.quanta if loss is not None else None,
            currency=loss.currency if loss is not None else None,
            lost_until_ms=self.losses.until_ms,
            acknowledged_ms=self.acknowledged_ms,
            acknowledged_by=self.acknowledged_by,
            more_symptoms=sum(not one.is_over for one in told) - sum(not one.is_over for one in shown),
            merged_into=self.merged_into,
        )


def _shown(told: list[Told], root: Told) -> list[Told]:
    """The root, what lasts, and then what was over last; all of it in the order that it had."""
    if len(told) <= MOST_SYMPTOMS:
        return told
    ended_ms = [one.symptom.ended_ms or 0 for one in told]
    places = sorted(
        range(len(told)), key=lambda at: (told[at] is not root, told[at].is_over, -ended_ms[at], at)
    )
    return [told[at] for at in sorted(places[:MOST_SYMPTOMS])]


def _suffering(symptoms: Iterable[Told]) -> tuple[str, ...]:
    """In the order of the symptoms."""
    named: dict[str, None] = {}
    for one in symptoms:
        workload = one.symptom.subject.workload
        hit = one.hit if one.trouble is Trouble.NODE else ()
        for each in (*([workload] if workload is not None else []), *sorted(hit)):
            named[workload_name(each)] = None
    return tuple(named)


def _title(root: Told, symptoms: Sequence[Told]) -> str:
    peers = [(domain, one) for one in symptoms if one is not root and (domain := shared_domain(root, one))]
    nodes = {one.node for _, one in peers} - {root.node}
    if not nodes:
        return root.symptom.text
    return f"{len(nodes) + 1} nodes of {min(domain for domain, _ in peers)}: {root.symptom.text}"
