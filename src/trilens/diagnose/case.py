"""A case file with the ways that evidence looks into it."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Final

from trilens.model.finding import Severity
from trilens.model.kubernetes import GroupKind
from trilens.resolve.events import about_whom, happened_ms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trilens.diagnose.case_file import CaseFile, CaseSeries, LogText
    from trilens.model.finding import FindingInterval, FindingKind
    from trilens.model.kubernetes import KubeObject
    from trilens.model.run import RankProcess
    from trilens.model.workload import Workload

POD: Final = GroupKind("", "Pod")
NODE: Final = GroupKind("", "Node")
EVENTS: Final = (GroupKind("", "Event"), GroupKind("events.k8s.io", "Event"))


class Case:
    """Reads nothing but its file: no clock, no network."""

    def __init__(self, file: CaseFile) -> None:
        self.file = file

    @property
    def now_ms(self) -> int:
        return self.file.to_ms

    @property
    def workload(self) -> Workload | None:
        """The one that it is about; of a node, none."""
        return self.file.workloads[0] if self.file.workloads else None

    @cached_property
    def objects(self) -> Mapping[GroupKind, Sequence[KubeObject]]:
        found: defaultdict[GroupKind, list[KubeObject]] = defaultdict(list)
        for one in self.file.objects:
            found[one.group_kind].append(one)
        return found

    def of_kind(self, group: str, kind: str) -> Sequence[KubeObject]:
        return self.objects.get(GroupKind(group, kind), ())

    def knows_all(self, group: str, kind: str) -> bool:
        """Whether an object of this kind that is not here is not there: else it may not have been read."""
        return GroupKind(group, kind) in self.file.kinds

    @cached_property
    def pods(self) -> Sequence[KubeObject]:
        """Those of the workload, or the one that was asked about, that are there now."""
        members = {one.membership.pod.uid for one in self.file.members}
        subject = self.file.subject
        found = [one for one in self.of_kind("", "Pod") if one.uid in members]
        asked = [
            one
            for one in self.of_kind("", "Pod")
            if (one.namespace, one.name) == (subject.namespace, subject.name)
        ]
        return asked if subject.kind == "pod" else found

    def node(self, name: str) -> KubeObject | None:
        return next((one for one in self.of_kind("", "Node") if one.name == name), None)

    def events_about(self, obj: KubeObject) -> Sequence[KubeObject]:
        """What Kubernetes says happened to an object, the latest last."""
        return self._events.get(obj.uid, ())

    @cached_property
    def _events(self) -> Mapping[str, Sequence[KubeObject]]:
        found: defaultdict[str, list[KubeObject]] = defaultdict(list)
        for kind in EVENTS:
            for one in self.objects.get(kind, ()):
                found[about_whom(one).uid].append(one)
        for listed in found.values():
            listed.sort(key=happened_ms)
        return found

    def findings(self, *kinds: FindingKind) -> list[FindingInterval]:
        """Those that are open, the surest first. Where none of any kind is, what was in the time of the case
        is asked about."""
        opened = [one for one in self.file.findings if one.ended_ms is None]
        is_past = all(one.finding.severity is Severity.INFO for one in opened)
        asked = [one for one in (self.file.findings if is_past else opened) if one.finding.kind in kinds]
        return sorted(
            asked,
            key=lambda one: (one.ended_ms is not None, -one.finding.confidence, -one.finding.onset_ms),
        )

    @cached_property
    def lives(self) -> Sequence[RankProcess]:
        """The latest life of each rank, of the latest run; of a node, of every run that was there."""
        return self.lives_at(None)

    def lives_at(self, t_ms: int | None) -> Sequence[RankProcess]:
        """The life that each rank had then: of one that has begun anew, the one before tells why it fell."""
        ranks = [one for one in self.file.ranks if t_ms is None or one.started_ms <= t_ms]
        if ranks and self.file.subject.kind != "node":
            latest = max(ranks, key=lambda one: (one.heard_ms, one.started_ms)).run
            ranks = [one for one in ranks if one.run == latest]
        last = {(one.run, one.rank): one for one in sorted(ranks, key=lambda one: one.attempt)}
        return [last[key] for key in sorted(last)]

    @cached_property
    def log_texts(self) -> Sequence[tuple[LogText, str]]:
        """Each log as one text, to look for something in all its lines at once."""
        return [(log, "\n".join(log.lines)) for log in self.file.logs]

    def series(self, figure: str, **labels: str) -> Sequence[CaseSeries]:
        """Of a figure in figures.py, those with these labels."""
        return [
            one
            for one in self.file.series.get(figure, ())
            if all(one.labels.get(name) == value for name, value in labels.items())
        ]
