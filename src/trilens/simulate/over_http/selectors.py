"""`labelSelector` and `fieldSelector`, as an API server takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from trilens.simulate.over_http.refusals import bad_request

Selector: TypeAlias = Callable[[Mapping[str, Any]], bool]

_KEY: Final = r"(?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?"
_VALUE: Final = r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?"
_REQUIREMENT: Final = re.compile(
    rf"\s*(?:(?P<absent>!)\s*)?(?P<key>{_KEY})\s*"
    rf"(?:(?P<equality>==?|!=)\s*(?P<value>{_VALUE})|(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?\s*(?:,|$)"
)
_FIELD: Final = re.compile(r"\s*(?P<path>[A-Za-z.]+)\s*(?P<operator>==?|!=)(?P<value>[^,]*)")

_EVERYWHERE: Final = frozenset({"metadata.name", "metadata.namespace"})
_FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "Pod": frozenset(
        {
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        }
    ),
    "Event": frozenset(
        {
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "source",
            "type",
        }
    ),
    "Namespace": frozenset({"status.phase"}),
    "Node": frozenset({"spec.unschedulable"}),
    "Job": frozenset({"status.successful"}),
    "ReplicaSet": frozenset({"status.replicas"}),
}


def by_labels(text: str) -> list[Selector]:
    """Each must hold. Raises Refusal for what is no selector."""
    found: list[Selector] = []
    at = 0
    while at < len(text):
        match = _REQUIREMENT.match(text, at)
        if match is None:
            raise bad_request(f"unable to parse requirement: found {text[at:]!r} in {text!r}")
        found.append(_label_requirement(match))
        at = match.end()
    return found


def _label_requirement(match: re.Match[str]) -> Selector:
    key = match["key"]
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        if match["set"] == "in":
            return lambda obj: _labels(obj).get(key) in values
        return lambda obj: _labels(obj).get(key) not in values
    if match["equality"]:
        value, equal = match["value"], match["equality"] != "!="
        return lambda obj: (_labels(obj).get(key) == value) is equal
    present = not match["absent"]
    return lambda obj: (key in _labels(obj)) is present


def _labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return obj["metadata"].get("labels") or {}


def by_fields(text: str, kind: str) -> list[Selector]:
    """Each must hold. Which fields there are depends on the kind; raises Refusal for another one."""
    found: list[Selector] = []
    for part in filter(None, text.split(",")):
        match = _FIELD.fullmatch(part)
        if match is None:
            raise bad_request(f"invalid field selector: {part!r}; can't understand it")
        path = match["path"]
        if path not in _EVERYWHERE and path not in _FIELDS.get(kind, ()):
            raise bad_request(f"field label not supported: {path}")
        found.append(_field_requirement(path.split("."), match["value"], match["operator"] != "!="))
    return found


def _field_requirement(path: list[str], value: str, equal: bool) -> Selector:
    return lambda obj: (_field(obj, path) == value) is equal


def _field(obj: Any, path: list[str]) -> str:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    if isinstance(obj, bool):
        return str(obj).lower()
    return "" if obj is None else str(obj)
