"""An alerting rule's labels and annotations for each element that its expression gives.

A fleet in trouble gives thousands of elements, the same ones in every pass: what depends on their labels
alone is expanded once, and what depends on their value when that has changed.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from trilens.alert.templates.expand import alert_data, alert_template, told
from trilens.alert.templates.functions import Surroundings
from trilens.model.errors import QueryError, TemplateError
from trilens.model.labels import METRIC_NAME, LabelFrame, make_labels

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trilens.alert.rule import AlertingRule
    from trilens.alert.templates.expand import AlertTemplate, External
    from trilens.alert.templates.functions import Query
    from trilens.alert.templates.values import AlertData
    from trilens.model.labels import Labels
    from trilens.model.series import Floats

log = logging.getLogger(__name__)


class Labelled(NamedTuple):
    """An element as an alert: its own labels, the rule's, and what there is to say about it."""

    labels: Labels
    annotations: Labels
    value: float


class RuleTexts:
    """For one thread at a time."""

    def __init__(self, rule: AlertingRule, external: External) -> None:
        self._alert = rule.alert
        self._external = external
        self._labels = [(name, alert_template(rule.alert, text)) for name, text in rule.labels]
        self._annotations = [(name, alert_template(rule.alert, text)) for name, text in rule.annotations]
        self._known: dict[tuple[tuple[str, str], ...], Labelled] = {}  # by what the last pass gave
        self._complaint = ""

    def expand(
        self, elements: LabelFrame, values: Floats, at_ms: int, query: Query | None
    ) -> Iterator[Labelled]:
        around = Surroundings(query or _no_query, self._external.url, at_ms / 1000)
        known, self._known = self._known, {}
        for row, value in enumerate(values.tolist()):
            element = elements.labels(row)
            key = tuple(element.items())
            one = self._labelled(element, value, known.get(key), around)
            self._known[key] = one
            yield one

    def _labelled(
        self, element: dict[str, str], value: float, before: Labelled | None, around: Surroundings
    ) -> Labelled:
        data = alert_data(element, value, self._external)
        is_same = before is not None and before.value == value

        def texts(
            templates: Sequence[tuple[str, AlertTemplate]], last: Labels | None
        ) -> list[tuple[str, str]]:
            old = dict(last) if last is not None else {}
            return [
                (name, old[name])
                if name in old and not template.of_moment and (is_same or not template.of_value)
                else (name, self._expanded(template, data, around))
                for name, template in templates
            ]

        if before is not None and not any(t.of_value or t.of_moment for _, t in self._labels):
            labels = before.labels
        else:
            own = {name: text for name, text in element.items() if name != METRIC_NAME}
            labels = make_labels({**own, **dict(texts(self._labels, None)), "alertname": self._alert})
        return Labelled(labels, tuple(texts(self._annotations, before and before.annotations)), value)

    def _expanded(self, template: AlertTemplate, data: AlertData, around: Surroundings) -> str:
        try:
            return template.expand(data, around)
        except TemplateError as e:
            if str(e) != self._complaint:  # not for every alert in every pass
                self._complaint = str(e)
                log.warning("a template was not expanded", extra={"rule": self._alert, "error": str(e)})
            return told(e)


def _no_query(text: str) -> list[tuple[dict[str, str], float]]:
    raise QueryError("no queries can be asked here")
