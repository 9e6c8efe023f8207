"""Which symptoms a route, a silence or an inhibition means."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import re2

from trilens.model.incident import SymptomKind
from trilens.model.subject_labels import subject_labels
from trilens.promql.patterns import compile_pattern, matches
from trilens.settings.matchers import read_matcher

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from trilens.model.incident import Incident, Symptom
    from trilens.model.matcher import Matcher

Matchers: TypeAlias = "tuple[Matcher, ...]"


def read_matchers(texts: Iterable[str]) -> Matchers:
    """Raises ValueError, also for what is no regular expression."""
    found = tuple(map(read_matcher, texts))
    for matcher in found:
        if matcher.op in ("=~", "!~"):
            try:
                compile_pattern(matcher.value)
            except re2.error as e:
                reason = e.args[0] if e.args else e
                text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
                raise ValueError(f"{matcher.value!r} is not a regular expression: {text}") from e
    return found


def take(matchers: Sequence[Matcher], labels: Mapping[str, str]) -> bool:
    """Whether all of them hold; a label that is not there is empty."""
    return all(matches(matcher, labels.get(matcher.name, "")) for matcher in matchers)


def labels_of(symptom: Symptom, incident: Incident) -> dict[str, str]:
    """What it is routed by: whom it is about, its own labels, and how grave the whole incident is."""
    known = {name: value for name, value in subject_labels(symptom.subject).items() if value}
    if symptom.kind is SymptomKind.ALERT:
        known["alertname"] = symptom.name
    elif symptom.kind is SymptomKind.FINDING:
        known["code"] = symptom.name
    known.update(symptom.labels)
    known["severity"] = str(incident.severity)
    return known
