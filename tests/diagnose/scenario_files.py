"""Scenarios: a folder for each end of a tree, with what a cluster would show and the verdict expected of it.

objects.yaml   Kubernetes objects as the API server has them, read through the collector's decoder; what the
               server adds to each (uid, resourceVersion, creationTimestamp) is added where it is not written
case.json      other sections of the case file, as a bundle has them; `subject` where it is not Job ml/train
logs/*         what containers wrote
expected.json  `cause`, and what holds for that verdict: `at_least` or `below` (confidence), `text_has`,
               `fix_has`; `first` is false where another cause is surer, `alone` true where none is there
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_type_hints

import yaml
from pydantic import TypeAdapter

from trilens.collect.kubernetes.catalogue import ALL
from trilens.collect.kubernetes.objects import ObjectReader
from trilens.collect.kubernetes.watched_kind import watched
from trilens.diagnose.case import Case
from trilens.diagnose.case_file import CaseFile, CaseSubject, LogKind, LogText, SubjectKind
from trilens.model.kubernetes import GroupKind
from trilens.model.life import MembershipInterval
from trilens.model.workload import Membership, PodKey, Workload, WorkloadKey
from trilens.serve.cases.kinds import CASE_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trilens.collect.kubernetes.watched_kind import WatchedKind
    from trilens.model.kubernetes import KubeObject

FOLDER: Final = Path(__file__).parent / "scenarios"
CLUSTER: Final = "prod"
NOW_MS: Final = 1_793_700_000_000  # 2026-11-03T10:00:00Z
_CREATED: Final = "2026-11-03T09:30:00Z"
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KINDS: Final = {kind.group_kind: kind for kind in (*ALL, *CASE_KINDS)}  # whole, as a case has them
_EVERYTHING: Final = (
    "spec status handler"  # of kinds that are fetched when a case is gathered, and not watched
)


class Scenario(NamedTuple):
    folder: Path
    expected: dict[str, Any]

    @property
    def name(self) -> str:
        return self.folder.name

    def case(self) -> Case:
        told = self._told()
        objects = tuple(self._objects())
        asked = {"kind": "workload", "namespace": "ml", "name": "train", **told.pop("subject", {})}
        subject = CaseSubject(SubjectKind(asked["kind"]), CLUSTER, asked["namespace"], asked["name"])
        workload = _workload(subject, objects)
        sections = {"logs": tuple(self._logs()), "objects": objects}
        if workload is not None:
            sections["members"] = tuple(_members(subject, workload, objects))
            sections["workloads"] = (Workload(workload),)
        hints = get_type_hints(CaseFile)
        for name, value in told.items():
            sections[name] = TypeAdapter(hints[name]).validate_json(json.dumps(value))
        return Case(CaseFile(subject, NOW_MS - 3_600_000, NOW_MS, **sections))

    def _told(self) -> dict[str, Any]:
        file = self.folder / "case.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def _objects(self) -> Iterator[KubeObject]:
        file = self.folder / "objects.yaml"
        for body in yaml.load(file.read_text(), _Loader) if file.exists() else ():
            yield read_object(body)

    def _logs(self) -> Iterator[LogText]:
        for file in sorted((self.folder / "logs").glob("*")):
            yield LogText(LogKind.CONTAINER, file.name, tuple(file.read_text().splitlines()))


@cache
def scenarios() -> tuple[Scenario, ...]:
    return tuple(
        Scenario(folder, json.loads((folder / "expected.json").read_text()))
        for folder in sorted(FOLDER.iterdir())
    )


def read_object(body: dict[str, Any]) -> KubeObject:
    group, _, version = body["apiVersion"].rpartition("/")
    metadata = body["metadata"]
    named = f"{body['kind'].lower()}-{metadata['name']}"
    added = {"uid": named, "resourceVersion": "1", "creationTimestamp": _CREATED}
    raw = json.dumps({**body, "metadata": {**added, **metadata}}).encode()
    kind = _kind(GroupKind(group, body["kind"]))
    return ObjectReader(CLUSTER).read(kind, version, raw)


def _kind(group_kind: GroupKind) -> WatchedKind:
    known = _KINDS.get(group_kind)
    return known or watched(group_kind.group, group_kind.kind, f"{group_kind.kind.lower()}s", _EVERYTHING)


def _workload(subject: CaseSubject, objects: tuple[KubeObject, ...]) -> WorkloadKey | None:
    if subject.kind is not SubjectKind.WORKLOAD:
        return None
    for one in objects:
        named = (one.namespace, one.name) == (subject.namespace, subject.name)
        if named and one.kind not in ("Pod", "PodGroup", "Service"):
            return WorkloadKey(CLUSTER, one.namespace, one.group, one.kind, one.name, one.uid)
    return WorkloadKey(CLUSTER, subject.namespace, "batch", "Job", subject.name, f"job-{subject.name}")


def _members(
    subject: CaseSubject, workload: WorkloadKey, objects: tuple[KubeObject, ...]
) -> Iterator[MembershipInterval]:
    for one in objects:
        if one.kind == "Pod" and any(owner.name == subject.name for owner in one.owners):
            pod = PodKey(CLUSTER, one.namespace, one.name, one.uid)
            node = one.body.get("spec", {}).get("nodeName", "")
            yield MembershipInterval(Membership(pod, workload), node, one.created_ms)
